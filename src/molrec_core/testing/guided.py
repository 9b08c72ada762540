"""The parsers under coverage guidance: documents, declarations, shard indexes, chunks, log lines, archives.

``python -m molrec_core.testing.guided --seconds N``; needs atheris, which is no
dependency: there are not wheels of it for every Python.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from molrec_core.errors import RecordError
from molrec_core.testing._hostile import sound

Parser = Callable[[bytes], object]


def parsers() -> tuple[Parser, ...]:
    """Return every parser of stored bytes, each taking any bytes."""
    from molrec_core._codecs import Pipeline, parse_pipeline
    from molrec_core._dtypes import TAGS
    from molrec_core._metrics_log import decode_event
    from molrec_core._node import parse_node
    from molrec_core._progression import read_progression
    from molrec_core._schema import SequenceSchema
    from molrec_core._strings import decode_strings
    from molrec_core._typedjson import decode, loads

    def chunk(data: bytes) -> None:
        pipeline: Pipeline | None = parse_pipeline([{"name": "bytes", "configuration": {"endian": "little"}},
                                                    {"name": "gzip", "configuration": {"level": 1}}], "f64", ())  # fmt: skip
        assert pipeline is not None
        for decoding in (lambda: pipeline.decode(data, 8), lambda: decode_strings(data, 3)):
            with suppress(RecordError):
                decoding()

    def typed(data: bytes) -> None:
        value = loads(data, "")
        for tag in TAGS:
            with suppress(RecordError):
                decode(value, tag, "")

    return (
        lambda data: parse_node(data, ""),
        lambda data: decode_event(data, ""),
        lambda data: SequenceSchema.from_json(loads(data, "")),
        lambda data: read_progression(loads(data, ""), 5, integer=True, loc=""),
        typed,
        chunk,
    )


def main(arguments: list[str] | None = None) -> int:
    """Fuzz for a while; atheris ends the process with an error at a finding."""
    parser = argparse.ArgumentParser(prog="python -m molrec_core.testing.guided", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    given = parser.parse_args(arguments)
    atheris: Any = importlib.import_module("atheris")
    for name in [
        name
        for name in sys.modules
        if name.startswith("molrec_core") and "errors" not in name and "testing" not in name
    ]:
        del sys.modules[name]
    with atheris.instrument_imports(include=["molrec_core"]):
        ours = parsers()

    def one(data: bytes) -> None:
        for parse in ours:
            with suppress(RecordError):
                parse(data)

    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(sound().values()):
            (Path(corpus) / str(number)).write_bytes(data)
        atheris.Setup([sys.argv[0], f"-max_total_time={given.seconds}", "-timeout=2", corpus], one)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
