"""The ``molrec`` command: each subcommand a few lines over one core call.

Exit codes: 0 sound, 1 problems found, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from molrec_core import Compression, fold_metrics, open_record, pack, plugins, repair, unpack, validate
from molrec_core._convert import Options, convert, parse_precision
from molrec_core._demo import demo
from molrec_core._diff import diff
from molrec_core._pack import files_below
from molrec_core._picture import plot
from molrec_core._store import DirectoryStore
from molrec_core._summary import describe, tree
from molrec_core.errors import RecordError

Arguments = argparse.Namespace


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    try:
        arguments = _parser(sys.argv[1:] if argv is None else argv).parse_args(argv)
        code: int = arguments.run(arguments)
    except RecordError as error:
        print(f"molrec: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing is left to flush at exit either.
        sys.stdout = None
        return 0
    except (OSError, ValueError) as error:
        print(f"molrec: {error}", file=sys.stderr)
        return 2
    return code


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="molrec", description="One record for every MD tool.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (text, configure, run) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        configure(command)
        command.set_defaults(run=run)
    # Plugins bring whole hosts along: they load when a command of theirs, or the list, is asked for.
    known = bool(argv) and argv[0] in _COMMANDS
    for extra in () if known else plugins.commands().values():
        command = commands.add_parser(extra.name, help=extra.help, description=extra.help)
        extra.configure(command)
        command.set_defaults(run=extra.run)
    return parser


def _bar(total: int | None, unit: str, *, scale: bool = False) -> tqdm[Any]:
    """Return a progress bar that shows itself on a terminal only, and only when it takes a while."""
    return tqdm(total=total, unit=unit, unit_scale=scale, disable=None, delay=0.5, leave=False)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


# -- looking


def _add_path(parser: argparse.ArgumentParser, *, as_json: bool = True) -> None:
    parser.add_argument("path", help="a record: *.mrec, *.mrec.zip or a URL")
    if as_json:
        parser.add_argument("--json", action="store_true", help="print JSON")


def _info(arguments: Arguments) -> int:
    with open_record(arguments.path) as record:
        summary = describe(record)
    if arguments.json:
        _print_json(summary.to_json())
    else:
        print(summary)
    return 0


def _tree(arguments: Arguments) -> int:
    with open_record(arguments.path) as record:
        for line in tree(record.store):
            print(line)
    return 0


def _configure_validate(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    parser.add_argument("--deep", action="store_true", help="decode every chunk and check every checksum")


def _validate(arguments: Arguments) -> int:
    problems = validate(arguments.path, deep=arguments.deep)
    if not any(p.severity == "error" for p in problems):
        with open_record(arguments.path) as record:
            for check in plugins.checks().values():
                problems += check.run(record)
    errors = [p for p in problems if p.severity == "error"]
    if arguments.json:
        _print_json(
            [{"loc": p.loc, "kind": p.kind, "message": p.message, "severity": p.severity} for p in problems]
        )
    else:
        for problem in problems:
            print(f"{problem.severity}: {problem}")
        print(f"{arguments.path}: {len(errors)} errors, {len(problems) - len(errors)} warnings")
    return 1 if errors else 0


def _configure_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument(
        "--tolerance", type=float, default=0.0, help="largest difference of floats that counts as equal"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _diff(arguments: Arguments) -> int:
    with _bar(None, "frames") as bar:
        differences = diff(
            arguments.left, arguments.right, tolerance=arguments.tolerance, progress=bar.update
        )
    if arguments.json:
        _print_json([{"loc": d.loc, "message": d.message} for d in differences])
    else:
        for difference in differences:
            print(difference)
        if not differences:
            print("equal")
    return 1 if differences else 0


def _configure_plot(parser: argparse.ArgumentParser) -> None:
    _add_path(parser, as_json=False)
    parser.add_argument("keys", nargs="*", help="per-step keys or metrics series; all scalar ones by default")
    parser.add_argument(
        "-o", "--out", type=Path, help="write a picture (png, svg, pdf) instead of drawing in the terminal"
    )


def _plot(arguments: Arguments) -> int:
    print(plot(arguments.path, arguments.keys, arguments.out))
    return 0


# -- changing


def _configure_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a record, or a file an installed adapter reads")
    parser.add_argument("target", help="a record, or a file an installed adapter writes")
    parser.add_argument("--top", type=Path, help="topology beside a trajectory, e.g. md.gro")
    parser.add_argument("--frames", type=_slice, default=slice(None), metavar="A:B:C", help="frames to take")
    parser.add_argument(
        "--blocks", type=lambda text: text.split(","), help="trajectory blocks to keep, comma-separated"
    )
    parser.add_argument(
        "--precision", action="append", default=[], metavar="[BLOCK.COLUMN=]P",
        help="declared precision in record units: 1e-3 for x y z of atoms, or a column's own",
    )  # fmt: skip
    parser.add_argument(
        "--compression", type=_compression, metavar="CODEC[:LEVEL]", help="none, gzip:1, zstd:3; +shuffle"
    )
    parser.add_argument("--adapter", help="the adapter to ask where several read a suffix")
    parser.add_argument("--overwrite", action="store_true", help="replace a record that is there")


def _slice(text: str) -> slice:
    parts = [int(part) if part else None for part in text.split(":")]
    if len(parts) == 1 and parts[0] is not None:
        return slice(parts[0], parts[0] + 1 or None)
    return slice(*parts)


def _compression(text: str) -> Compression:
    codec, _, level = text.removesuffix("+shuffle").partition(":")
    shuffle = text.endswith("+shuffle")
    if codec == "none":
        return Compression.none(shuffle=shuffle)
    if codec == "gzip":
        return Compression.gzip(int(level or 1), shuffle=shuffle)
    if codec == "zstd":
        return Compression.zstd(int(level or 3), shuffle=shuffle)
    msg = f"compression {text!r}: none, gzip[:level] or zstd[:level] is expected"
    raise ValueError(msg)


def _convert(arguments: Arguments) -> int:
    options = Options(
        top=arguments.top,
        frames=arguments.frames,
        blocks=arguments.blocks,
        precision=parse_precision(arguments.precision),
        compression=arguments.compression,
        adapter=arguments.adapter,
        overwrite=arguments.overwrite,
    )
    bars: list[tqdm[Any]] = []

    def start(total: int | None) -> Callable[[int], None]:
        bars.append(_bar(total, "frames"))
        return lambda n: bars[0].update(n) and None

    try:
        written = convert(arguments.source, arguments.target, options, start=start)
    finally:
        for bar in bars:
            bar.close()
    print(f"wrote {written}")
    return 0


def _configure_pack(parser: argparse.ArgumentParser) -> None:
    _add_path(parser, as_json=False)
    parser.add_argument("out", nargs="?", help="the archive; <stem>.mrec.zip beside the record by default")
    parser.add_argument(
        "--remove", action="store_true", help="remove the directory once the archive is durable"
    )


def _pack(arguments: Arguments) -> int:
    store = DirectoryStore(arguments.path)
    total = sum(store.size(key) or 0 for key in files_below(store))
    store.close()
    with _bar(total, "B", scale=True) as bar:
        print(f"wrote {pack(arguments.path, arguments.out, remove=arguments.remove, progress=bar.update)}")
    return 0


def _configure_unpack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="a *.mrec.zip")
    parser.add_argument("out", nargs="?", help="the directory; the archive's name without .zip by default")


def _unpack(arguments: Arguments) -> int:
    with _bar(None, "B", scale=True) as bar:
        print(f"wrote {unpack(arguments.path, arguments.out, progress=bar.update)}")
    return 0


def _configure_repair(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, change nothing")


def _repair(arguments: Arguments) -> int:
    done = repair(arguments.path, dry_run=arguments.dry_run)
    if arguments.json:
        _print_json(done)
        return 0
    for line in done:
        print(line)
    verb = "would be mended" if arguments.dry_run else "mended"
    print(f"{arguments.path}: {len(done)} things {verb}" if done else f"{arguments.path}: nothing to mend")
    return 0


def _configure_metrics(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    fold = actions.add_parser("fold", help="fold the metrics log into dense series")
    _add_path(fold, as_json=False)
    fold.set_defaults(run=_fold)


def _fold(arguments: Arguments) -> int:
    fold_metrics(arguments.path)
    print(f"{arguments.path}: metrics folded")
    return 0


def _configure_plugins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _plugins(arguments: Arguments) -> int:
    found = [(p.name, p.distribution, p.error) for p in plugins.plugins()]
    if arguments.json:
        _print_json([{"name": n, "distribution": d, "error": e} for n, d, e in found])
        return 0
    for name, distribution, error in found:
        print(f"{name:12} {distribution:20} {'loaded' if error is None else f'not loaded: {error}'}")
    for adapter in plugins.adapters().values():
        print(
            f"{adapter.name:12} reads {' '.join(adapter.reads) or '-'}; writes {' '.join(adapter.writes) or '-'}"
        )
    return 0


def _configure_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", type=Path, default=Path("demo.mrec"), help="where to write; demo.mrec by default"
    )


def _demo(arguments: Arguments) -> int:
    for line in demo(arguments.path):
        print(line)
    return 0


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[Arguments], int]]] = {
    "info": ("what a record holds", _add_path, _info),
    "tree": ("its groups and arrays", lambda p: _add_path(p, as_json=False), _tree),
    "validate": ("check a record against the whole format", _configure_validate, _validate),
    "convert": ("to, from and between records", _configure_convert, _convert),
    "pack": ("a closed record into one *.mrec.zip", _configure_pack, _pack),
    "unpack": ("a *.mrec.zip into a directory that can be appended to", _configure_unpack, _unpack),
    "repair": ("bring a record back to its last commit after a crash", _configure_repair, _repair),
    "diff": ("compare two records value for value", _configure_diff, _diff),
    "plot": ("draw per-step values and metrics", _configure_plot, _plot),
    "metrics": ("fold the metrics log", _configure_metrics, lambda _: 2),
    "plugins": ("what is installed", _configure_plugins, _plugins),
    "demo": ("run a small simulation into a record and look at it", _configure_demo, _demo),
}


if __name__ == "__main__":
    sys.exit(main())
