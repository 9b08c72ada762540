"""The document sections ``meta``, ``status`` and ``method``: one JSON object each, as group attributes.

"Document sections" of the root-layout chapter; checklist groups U and V. Keys their
chapters name are checked, every other key is kept verbatim.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from molrec_core._typedjson import check_document
from molrec_core.errors import Problem, Problems, SchemaError, UnsupportedVersionError

VERSION_WRITTEN = 1
VERSIONS_READ = (1, 2)
VERSION_KEY = "molrec_version"
# Hour 24 is none of RFC 3339, though later Pythons read it as the next day's midnight.
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT(?!24)\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def version_problem(meta: dict[str, Any]) -> str | None:
    """Say why the version key keeps a reader out; None when it does not (checklist V01 to V09)."""
    if VERSION_KEY not in meta:
        return None
    version = meta[VERSION_KEY]
    # type() and not isinstance: true is not 1, and neither is 1.0.
    if type(version) is not int or version < 1:
        return f"{VERSION_KEY} is {version!r}; an integer >= 1 is expected"
    if version > VERSIONS_READ[-1]:
        return f"{VERSION_KEY} is {version}; this molrec reads up to {VERSIONS_READ[-1]}, upgrade it to open the record"
    return None


def check_version(meta: dict[str, Any]) -> None:
    """Refuse a record of a version this reader does not know.

    Raises
    ------
    UnsupportedVersionError
    """
    problem = version_problem(meta)
    if problem:
        raise UnsupportedVersionError([Problem("meta", "unsupported_version", problem)])


def stamp(meta: dict[str, Any] | None) -> dict[str, Any]:
    """Return a copy of `meta` with the version stamped in, unless the producer supplied a valid one.

    Raises
    ------
    SchemaError
        The document is not plain finite JSON, or breaks a rule of its chapter.
    """
    document = dict(meta or {})
    document.setdefault(VERSION_KEY, VERSION_WRITTEN)
    return checked_document("meta", document)


def checked_document(section: str, document: object) -> dict[str, Any]:
    """Return a section's document after checking it for writing.

    Raises
    ------
    SchemaError
        All problems found.
    """
    if not isinstance(document, dict):
        raise SchemaError.one(
            section, "document", f"a {type(document).__name__} was given; an object is expected"
        )
    check_document(document, section)
    problems = Problems()
    check_section(section, document, problems)
    if problems.errors:
        raise SchemaError(problems.errors)
    return dict(document)


def check_section(section: str, document: dict[str, Any], problems: Problems) -> None:
    """Add every problem of a document section to `problems`."""
    _CHECKS[section](document, problems)


def _check_meta(document: dict[str, Any], problems: Problems) -> None:
    problem = version_problem(document)
    if problem:
        problems.add("meta", "unsupported_version", problem)
    for key in ("creator", "author"):
        if key in document and not _has_name(document[key]):
            problems.add(
                f"meta/{key}", "document", f"{key} is {document[key]!r}; an object with a string 'name'"
            )
    _check_times(document, "meta", ("created_at",), problems)
    for key in ("record_id", "content_hash"):
        if key in document and not isinstance(document[key], str):
            problems.add(f"meta/{key}", "document", f"{key} is {document[key]!r}; a string is expected")
    modules = document.get("modules", {})
    entries = (
        modules.items()
        if isinstance(modules, dict)
        else enumerate(modules if isinstance(modules, list) else [None])
    )
    for name, entry in entries:
        version = entry.get("version") if isinstance(entry, dict) else None
        whole = isinstance(version, list | tuple) and all(type(n) is int for n in version)
        if not whole or len(version or []) != 2:
            problems.add(f"meta/modules/{name}", "document", "a module states 'version' as two integers")


def _has_name(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str)


def _check_times(document: dict[str, Any], loc: str, keys: tuple[str, ...], problems: Problems) -> None:
    for key in keys:
        if key in document and not is_timestamp(document[key]):
            problems.add(
                f"{loc}/{key}",
                "timestamp",
                f"{key} is {document[key]!r}; RFC 3339 with a T and an offset is expected",
            )


def is_timestamp(value: object) -> bool:
    """Whether `value` is an RFC 3339 date and time with an explicit offset (checklist U08)."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        return False
    try:
        # A leap second is a valid second of RFC 3339 that datetime does not know.
        datetime.fromisoformat(re.sub(r":60(?=[.Z+-])", ":59", value))
    except ValueError:
        return False
    return True


def _check_status(document: dict[str, Any], problems: Problems) -> None:
    if not isinstance(document.get("state"), str):
        problems.add("status/state", "document", "status needs a string 'state', e.g. running or succeeded")
    for key in ("stage", "message"):
        if key in document and not isinstance(document[key], str):
            problems.add(f"status/{key}", "document", f"{key} is {document[key]!r}; a string is expected")
    for key in ("epoch", "global_step"):
        if key in document and (type(document[key]) is not int or document[key] < 0):
            problems.add(
                f"status/{key}", "document", f"{key} is {document[key]!r}; an integer >= 0 is expected"
            )
    progress = document.get("progress", {})
    numbers = isinstance(progress, dict) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in progress.values()
    )
    if not numbers:
        problems.add("status/progress", "document", "progress is an object of numbers")
    _check_times(document, "status", ("started_at", "updated_at", "finished_at"), problems)
    error = document.get("error", {"message": ""})
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        problems.add("status/error", "document", "error is an object with a string 'message'")
        return
    for key in ("type", "traceback"):
        if not isinstance(error.get(key, ""), str):
            problems.add(f"status/error/{key}", "document", f"{key} is {error[key]!r}; a string is expected")


def _check_method(document: dict[str, Any], problems: Problems, loc: str = "method") -> None:
    for key in ("type", "description"):
        if not isinstance(document.get(key), str):
            problems.add(f"{loc}/{key}", "document", f"a method needs a string {key!r}")
    if not _has_name(document.get("engine")):
        problems.add(f"{loc}/engine", "document", "a method needs an object 'engine' with a string 'name'")
    elif not isinstance(document["engine"].get("version", ""), str):
        problems.add(f"{loc}/engine", "document", "engine.version is a string")
    order = document.get("order", [])
    if not isinstance(order, list) or not all(isinstance(item, str) for item in order):
        problems.add(f"{loc}/order", "document", "order is a list of stage names")
    stages = document.get("stages", {})
    if not isinstance(stages, dict):
        problems.add(f"{loc}/stages", "document", "stages is an object of method documents")
        return
    for name, stage in stages.items():
        if isinstance(stage, dict):
            _check_method(stage, problems, f"{loc}/stages/{name}")
        else:
            problems.add(f"{loc}/stages/{name}", "document", "a stage is itself a method document")


_CHECKS: dict[str, Callable[[dict[str, Any], Problems], None]] = {
    "meta": _check_meta,
    "status": _check_status,
    "method": _check_method,
}
