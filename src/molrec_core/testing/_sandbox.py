"""Looking at a hostile record under guard: what comes out, how long, how much memory, which files."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import shutil
import signal
import sys
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from molrec_core import MetricsReader, RecordError, cli, open_record, repair, unpack, validate
from molrec_core.testing._hostile import Files

SECONDS = 2.0
EXTRA_BYTES = 64 * 2**20
SECRET = b'{"zarr_format": 3, "node_type": "group", "attributes": {"secret": true}}'


class TooLongError(BaseException):
    """The record took more than its share of the processor; passes every `except Exception`."""


@dataclass
class Guard:
    """Watches one look at a record.

    Attributes
    ----------
    opened : list of str
        Files below the sandbox, outside the record, that were opened.
    """

    top: Path
    record: Path
    opened: list[str] = field(default_factory=list)
    active: bool = False

    def saw(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event of the interpreter."""
        if not self.active:
            return
        if event in {"pickle.find_class", "os.system", "subprocess.Popen", "socket.connect"}:
            self.opened.append(f"{event} {arguments!r}")
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        path = Path(os.fsdecode(arguments[0]))
        # A link at the end that is opened with O_NOFOLLOW is refused by the system.
        nofollow = isinstance(arguments[2], int) and bool(arguments[2] & os.O_NOFOLLOW)
        real = str(path.parent.resolve() / path.name if nofollow else os.path.realpath(path))
        inside = real == str(self.record) or real.startswith((f"{self.record}/", f"{self.top}/out"))
        if not inside and (real.startswith(f"{self.top}/") or real == "/etc/passwd"):
            self.opened.append(str(path))


_watching: list[Guard] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching:
        _watching[-1].saw(event, arguments)


_hooked = False


def _hook() -> None:
    # An audit hook cannot be taken out again, so there is one for the whole process.
    global _hooked  # noqa: PLW0603
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked = True


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Bound processor time, and the address space to what a finding would pass."""

    def expire(_number: int, _frame: object) -> None:
        raise TooLongError

    old = signal.signal(signal.SIGPROF, expire)
    space = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, space[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
        resource.setrlimit(resource.RLIMIT_AS, space)


def _peak() -> int:
    """Most memory in use since the last reset, bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def put(record: Path, files: Files) -> None:
    """Put a record on disk; a name that the file system refuses is left out."""
    for name, data in files.items():
        path = record / name
        with contextlib.suppress(OSError, ValueError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def plant_link(top: Path, record: Path, random: Random) -> None:
    """Put links, a cycle, a pipe or a directory where the record has files."""
    paths = sorted(record.rglob("*"))
    path = random.choice(paths)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    what = random.randrange(6)
    if what == 0:
        path.symlink_to(top / "secret")
    elif what == 1:
        path.symlink_to(record)
    elif what == 2:
        path.symlink_to(top / "outside")
    elif what == 3:
        path.symlink_to(path.name)
    elif what == 4:
        os.mkfifo(path)
    else:
        path.mkdir()


def look(top: Path, record: Path) -> str | None:
    """Do everything with a record that a user may; return what must not happen, None when nothing did."""
    _hook()
    guard = Guard(Path(os.path.realpath(top)), Path(os.path.realpath(record)))
    before = _listing(top, record)
    _watching.append(guard)
    _reset_peak()
    start = _peak()
    found = None
    try:
        with (
            warnings.catch_warnings(),
            limits(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            guard.active = True
            found = _everything(record, top / "out")
    except TooLongError:
        found = f"more than {SECONDS} s of processor time"
    finally:
        guard.active = False
        _watching.pop()
    grown = _peak() - start
    if found is None and grown > EXTRA_BYTES:
        found = f"{grown >> 20} MiB of memory"
    if found is None and guard.opened:
        found = f"opened {guard.opened[0]}"
    if found is None and _listing(top, record) != before:
        found = "something outside the record was changed"
    return found


def _listing(top: Path, record: Path) -> list[tuple[str, int]]:
    found = []
    for at, directories, names in os.walk(top):
        directories[:] = [d for d in directories if Path(at) / d != record and d != "out"]
        found += [
            (f"{at}/{name}", (Path(at) / name).lstat().st_size) for name in names if Path(at) / name != record
        ]
    return sorted(found)


def _everything(record: Path, out: Path) -> str | None:
    shutil.rmtree(out, ignore_errors=True)
    for step in (_read, _validate, _command, _repair, _unpack):
        try:
            step(record, out)
        except RecordError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever else comes out is the finding
            return f"{step.__name__.strip('_')}: {_traceback(error)}"
    return None


def _traceback(error: BaseException) -> str:
    trace = error.__traceback__
    places = []
    while trace is not None:
        places.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__}: {str(error)[:200]} ({' '.join(places[-4:])})"


def _tolerated(call: Any) -> Any:
    with contextlib.suppress(RecordError):
        return call()
    return None


def _read(record: Path, _out: Path) -> None:
    with open_record(record) as opened:
        for section in opened.sections:
            _tolerated(lambda section=section: opened.get(section))
        metrics: MetricsReader | None = _tolerated(lambda: opened.get("metrics"))
        for key in metrics or ():
            _tolerated(lambda key=key: metrics[key])  # type: ignore[index]
        trajectory = _tolerated(lambda: opened.trajectory)
        if trajectory is None:
            return
        for i in (*range(min(len(trajectory), 6)), -1):
            if len(trajectory):
                _tolerated(lambda i=i: trajectory[i])
        _tolerated(lambda: trajectory.box_updates)
        for key in trajectory.meta_keys:
            _tolerated(lambda key=key: trajectory.meta(key))
        if len(trajectory) > 10**6:
            return
        _tolerated(lambda: trajectory.steps)
        _tolerated(lambda: trajectory.times)
        for name, spec in trajectory.schema.blocks.items():
            _tolerated(lambda name=name: trajectory.counts(name))
            for column in spec.columns:
                _tolerated(lambda name=name, column=column: trajectory.read(name, column))


def _validate(record: Path, _out: Path) -> None:
    validate(record, deep=True)


def _command(record: Path, _out: Path) -> None:
    for words in (["info", str(record)], ["tree", str(record)]):
        code = cli.main(words)
        assert code in {0, 1, 2}, f"molrec {words[0]} exits with {code}"


def _repair(record: Path, _out: Path) -> None:
    if record.is_dir():
        repair(record, dry_run=True)
        repair(record)


def _unpack(record: Path, out: Path) -> None:
    if not record.is_dir():
        out.mkdir()
        unpack(record, out / "run.mrec")


def put_zip(path: Path, files: Files, random: Random) -> None:
    """Pack a record as an attacker would."""
    hostile = random.randrange(9)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        warnings.simplefilter("ignore")
        for name, data in files.items():
            with contextlib.suppress(ValueError, UnicodeError):
                archive.writestr(name.replace("\0", "_"), data)
        if hostile == 0:
            archive.writestr(
                random.choice(("/etc/x", "../escaped", "a/../../escaped", "c:\\x", "..\\x", "a//b", "./x")),
                b"x",
            )
        elif hostile == 1:
            archive.writestr(random.choice(list(files) or ["zarr.json"]).replace("\0", "_"), b"again")
        elif hostile == 2:
            archive.writestr("bomb", bytes(2**25), zipfile.ZIP_DEFLATED, 9)
        elif hostile == 3:
            link = zipfile.ZipInfo("trajectory/atoms/link")
            link.external_attr = 0o120777 << 16
            archive.writestr(link, "../../../../secret")
        elif hostile == 4:
            archive.writestr("zarr.json/x", b"a file that is a directory too")
    raw = bytearray(path.read_bytes())
    directory = raw.find(b"PK\1\2")
    if hostile in {5, 6, 7} and directory > 0:
        for _ in range(random.choice((1, 4, 16))):
            # Sizes, offsets, names and flags of the central directory, overlapping entries among them.
            at = directory + random.randrange(len(raw) - directory)
            width = random.choice((1, 2, 4))
            raw[at : at + width] = random.choice((b"\0" * width, b"\xff" * width, random.randbytes(width)))
    elif hostile == 8:
        del raw[random.randrange(len(raw)) :]
    path.write_bytes(raw)
