"""From what a user types to a store: a directory, a zip, a URL, a zarr store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from molrec_core._paths import is_directory, path_exists
from molrec_core._remote import open_file, open_store
from molrec_core._root import spare
from molrec_core._store import ZARR_JSON, DirectoryStore, Store, not_a_record
from molrec_core._zarrstore import ZarrStore
from molrec_core._zipstore import ZipStore


def locate(path: Any, storage_options: Mapping[str, Any] | None = None) -> Store:
    """Return the store that `path` names.

    Raises
    ------
    RecordNotFoundError
        There is no record; the message says what was found.
    FormatError
        A zip that cannot be read as a record.
    """
    if not isinstance(path, str | os.PathLike):
        if hasattr(path, "supports_listing"):
            return ZarrStore(path)
        # A group of zarr-python, when it is the root of its store.
        inner = getattr(path, "store", None)
        if hasattr(inner, "supports_listing") and not getattr(path, "path", ""):
            return ZarrStore(inner)
        raise not_a_record(repr(path), f"a {type(path).__name__} was given, not a path, URL or zarr store")
    text = os.fspath(path)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    if "://" in text:
        return _remote(text.rstrip("/"), dict(storage_options or {}))
    return _local(Path(text))


def _local(path: Path) -> Store:
    if not path_exists(path):
        old = spare(path)
        if path_exists(old / ZARR_JSON):
            # An overwrite was killed between its two renames; the old record is whole.
            return DirectoryStore(old)
        raise not_a_record(str(path), "there is nothing")
    if is_directory(path):
        if not path_exists(path / ZARR_JSON):
            raise not_a_record(str(path), "a directory without a zarr.json")
        return DirectoryStore(path)
    return _with_root(ZipStore(path))


def _remote(url: str, options: dict[str, Any]) -> Store:
    if url.endswith(".zip"):
        return _with_root(ZipStore(url, partial(open_file, url, options)))
    return ZarrStore(open_store(url, options), url)


def _with_root(store: ZipStore) -> ZipStore:
    if store.size(ZARR_JSON) is None:
        store.close()
        raise not_a_record(store.path, "a zip archive without a zarr.json")
    return store
