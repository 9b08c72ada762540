"""Which module may know which, read off the source with ``ast``.

A module imports only from what stands above it in ``ROWS``. That keeps the
format free of hosts, the pure parts free of files, and the order on disk in
one place. The checks look at every import, lazy and type-only ones too.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"
CORE = "molrec_core"
ADAPTERS = ("molrec_mda", "molrec_ase", "molrec_mdtraj", "molrec_openmm", "molrec_lammps")

# The modules of the core, in the order in which they may import each other:
# from any row above, and from earlier ones of the same row.
ROWS: tuple[tuple[str, ...], ...] = (
    ("errors", "_unit_table", "units"),
    ("_dtypes", "_names", "_typedjson", "_progression", "_extents"),  # pure tables and integers
    (
        "_box",
        "_frame",
        "_declaration",
        "_schema",
        "_change",
        "_csr",
        "_links",
        "_fit",
    ),  # values, the pin, what changed, rules between blocks
    ("_strings", "_shuffle", "_compression", "_codecs", "_parallel", "_shard", "_node"),  # bytes
    ("_paths", "_lock", "_store", "_remote", "_zarrstore", "_zipstore", "_rows", "_array"),  # files
    ("_encoding", "_column", "_commit"),  # growth of one column; the order on disk
    ("_document", "_fixed", "_cell", "_group"),  # documents, fixed arrays, frame-shaped groups
    ("_series", "_block_writer", "_sequence", "_stack", "_stacking"),  # a trajectory that grows
    (
        "_derive",
        "_block_reader",
        "_box_reader",
        "_bulk",
        "_view",
        "_trajectory_reader",
    ),  # a trajectory that is read
    ("_forcefield_rules", "_forcefield_links", "_forcefield", "_observables"),  # the other sections
    (
        "_restore",
        "_root",
        "_taking_up",
        "_pinning",
        "_appending",
        "_trajectory_writer",
    ),  # a record that is written
    ("_metrics_log", "_metrics", "_metrics_fold"),  # a log that grows beside it
    (
        "_locate",
        "_record",
        "_write",
        "_pack",
        "_validate",
        "_repair",
        "_diff",
        "_summary",
        "_picture",
    ),  # a whole record
    ("__init__",),  # the public names
    (
        "_hosts_columns",
        "_hosts_info",
        "_hosts_cell",
        "_hosts_atoms",
        "_hosts_run",
        "hosts",
    ),  # what two adapters share
    ("hookspecs", "plugins", "_convert", "_demo", "cli"),
    ("testing",),  # the test kit, a package
)
PACKAGES = frozenset({"testing"})

# What an adapter may import of the core.
ADAPTER_DOORS = frozenset({"__init__", "units", "hosts", "hookspecs"})

# Who may touch files, and the names of `os` and `io` that touch none.
FILE_MODULES = frozenset({"_paths", "_store", "_zipstore", "_lock", "testing"})
FILE_LIBRARIES = frozenset({"fcntl", "fileinput", "glob", "mmap", "shutil", "tempfile", "zipfile"})
# Methods of a path. `mkdir` is not among them: a store has one too.
FILE_METHODS = frozenset(
    {
        "hardlink_to",
        "iterdir",
        "read_bytes",
        "read_text",
        "rglob",
        "rmdir",
        "symlink_to",
        "touch",
        "unlink",
        "write_bytes",
        "write_text",
    }
)
HARMLESS = frozenset(
    {
        "io.BytesIO",
        "io.StringIO",
        "io.TextIOBase",
        "os.PathLike",
        "os.cpu_count",
        "os.environ",
        "os.fsdecode",
        "os.fsencode",
        "os.fspath",
        "os.getpid",
        "os.path.basename",
        "os.path.dirname",
        "os.path.join",
        "os.path.normpath",
        "os.path.splitext",
        "os.process_cpu_count",
        "os.register_at_fork",
        "os.sched_getaffinity",
        "os.sep",
        "os.urandom",
    }
)

# `_commit` decides when to sync; the stores carry it out.
SYNC_MODULES = frozenset({"_commit", "_store", "_zipstore", "testing"})

CODEC_MODULES = frozenset({"_codecs", "testing"})
CODEC_LIBRARIES = frozenset(
    {"blosc", "bz2", "crc32c", "google_crc32c", "gzip", "lz4", "lzma", "numcodecs", "zlib", "zstandard"}
)

MODULE_LINES = 400
FUNCTION_LINES = 60

RANK = {name: rank for rank, name in enumerate(name for row in ROWS for name in row)}


def imports(tree: ast.AST, package: str) -> list[tuple[int, str]]:
    """Each imported dotted name with its line; relative imports resolved within ``package``."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            found += [(node.lineno, f"{source}.{alias.name}") for alias in node.names]
    return found


def core_target(dotted: str) -> str | None:
    """Name the core module that ``dotted`` reaches, ``__init__`` for a name of the front door."""
    package, *rest = dotted.split(".")
    if package != CORE:
        return None
    if rest and (rest[0] in RANK or rest[0].startswith("_")):
        return rest[0]
    return "__init__"


def direction_errors(module: str, tree: ast.AST) -> list[str]:
    """Imports of core module ``module`` that do not point up the table, or leave the core."""
    errors = []
    for line, dotted in imports(tree, CORE if module not in PACKAGES else f"{CORE}.{module}"):
        if dotted.split(".")[0] in ADAPTERS:
            errors.append(f"{module}:{line} imports the adapter {dotted}")
        target = core_target(dotted)
        if target is None or (target == module and module in PACKAGES):
            continue
        if target not in RANK:
            errors.append(f"{module}:{line} imports {dotted}, which is not in the table")
        elif RANK[target] >= RANK.get(module, len(RANK)):
            errors.append(f"{module}:{line} imports {dotted}, which does not stand above it")
    return errors


def adapter_errors(package: str, tree: ast.AST) -> list[str]:
    """Imports of an adapter that pass by the core's doors or reach another adapter."""
    errors = []
    for line, dotted in imports(tree, package):
        root, *rest = dotted.split(".")
        if root in ADAPTERS and root != package:
            errors.append(f"{package}:{line} imports the adapter {dotted}")
        if root == CORE and (
            core_target(dotted) not in ADAPTER_DOORS or any(part.startswith("_") for part in rest)
        ):
            errors.append(f"{package}:{line} imports {dotted}; only {sorted(ADAPTER_DOORS)} are open to it")
    return errors


def dotted_name(node: ast.expr) -> str | None:
    """Spell ``a.b.c`` out, or None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted_name(node.value)
        return None if head is None else f"{head}.{node.attr}"
    return None


def file_errors(module: str, tree: ast.AST) -> list[str]:
    """Uses of files, by ``open``, ``os``, a path's methods or a library for files."""
    errors = [
        f"{module}:{line} imports {dotted}"
        for line, dotted in imports(tree, CORE)
        if dotted.split(".")[0] in FILE_LIBRARIES
        or (dotted.startswith(("io.", "os.")) and dotted not in HARMLESS)
    ]
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            name = dotted_name(node) or ""
            if name.startswith(("io.", "os.")) and not any(
                f"{name}.".startswith(f"{harmless}.") for harmless in HARMLESS
            ):
                errors.append(f"{module}:{node.lineno} uses {name}")
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "open":
                errors.append(f"{module}:{node.lineno} calls open()")
            if isinstance(node.func, ast.Attribute) and (
                node.func.attr in FILE_METHODS
                # A string's `replace` takes two arguments, a dataclass's takes keywords.
                or (
                    node.func.attr == "replace"
                    and len(node.args) == 1
                    and not isinstance(node.args[0], ast.Starred)
                    and not node.keywords
                )
            ):
                errors.append(f"{module}:{node.lineno} calls .{node.func.attr}()")
    return errors


def sync_errors(module: str, tree: ast.AST) -> list[str]:
    """Calls of anything named ``sync…``, ``fsync…`` or ``fdatasync…``."""
    errors = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = (dotted_name(node.func) or getattr(node.func, "attr", "")).split(".")[-1].lstrip("_")
            if name.startswith(("sync", "fsync", "fdatasync")):
                errors.append(f"{module}:{node.lineno} calls {name}()")
    return errors


def codec_errors(module: str, tree: ast.AST) -> list[str]:
    """Imports of a compressor or a checksum."""
    return [
        f"{module}:{line} imports {dotted}"
        for line, dotted in imports(tree, CORE)
        if dotted.split(".")[0] in CODEC_LIBRARIES
    ]


def size_errors(path: str, source: str) -> list[str]:
    """Modules and functions that are too long to be one thing."""
    errors = []
    lines = len(source.splitlines())
    if lines > MODULE_LINES:
        errors.append(f"{path}: {lines} lines")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES:
                errors.append(f"{path}:{node.lineno} {node.name}: {length} lines")
    return errors


def core_module(path: Path) -> str:
    """``_store`` for ``molrec_core/_store.py``, ``testing`` for anything under ``molrec_core/testing``."""
    return path.relative_to(SRC / CORE).with_suffix("").parts[0]


def sources(package: str) -> list[Path]:
    return sorted((SRC / package).rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def report(errors: list[str]) -> None:
    assert not errors, "\n" + "\n".join(errors)


def core_report(check, exempt=frozenset()) -> None:
    report(
        [
            error
            for path in sources(CORE)
            if core_module(path) not in exempt
            for error in check(core_module(path), parsed(path))
        ]
    )


def test_the_source_is_found():
    """An empty tree would pass every check below."""
    assert sources(CORE)
    assert all(sources(package) for package in ADAPTERS)


def test_every_core_module_has_its_row():
    """A new module is placed by a person, in the table above."""
    report([f"{path.name} is not in ROWS" for path in sources(CORE) if core_module(path) not in RANK])


def test_imports_point_up():
    """A core module imports only what stands above it."""
    core_report(direction_errors)


@pytest.mark.parametrize("package", ADAPTERS)
def test_adapters_use_the_front_doors(package):
    """An adapter sees the public names, the units and the hosts' shared rules; never another adapter."""
    report([error for path in sources(package) for error in adapter_errors(package, parsed(path))])


def test_only_the_stores_touch_files():
    """Files are opened, listed, renamed and removed in one place."""
    core_report(file_errors, FILE_MODULES)


def test_only_the_commit_decides_to_sync():
    """The order on disk is written down once."""
    core_report(sync_errors, SYNC_MODULES)


def test_only_the_codecs_import_compressors():
    """A pipeline is known to one module; adapters know none."""
    core_report(codec_errors, CODEC_MODULES)
    report(
        [
            error
            for package in ADAPTERS
            for path in sources(package)
            for error in codec_errors(package, parsed(path))
        ]
    )


def test_nothing_is_too_long():
    """No module above 400 lines, no function above 60."""
    report(
        [
            error
            for path in sorted(SRC.rglob("*.py"))
            for error in size_errors(str(path.relative_to(SRC)), path.read_text(encoding="utf-8"))
        ]
    )


REFUSED = [
    (direction_errors, "_dtypes", "from molrec_core._store import Store"),
    (direction_errors, "_dtypes", "from molrec_core import _typedjson"),
    (direction_errors, "_store", "import molrec_core._zipstore"),
    (direction_errors, "_store", "def f():\n    from molrec_core import _commit"),
    (direction_errors, "_store", "from molrec_core import Frame"),
    (direction_errors, "_store", "from ._commit import order"),
    (direction_errors, "_store", "from . import cli"),
    (direction_errors, "_record", "from molrec_core._unheard_of import x"),
    (direction_errors, "cli", "import molrec_mda"),
    (direction_errors, "cli", "from molrec_core.testing import strategies"),
    (adapter_errors, "molrec_ase", "from molrec_core._frame import Frame"),
    (adapter_errors, "molrec_ase", "from molrec_core import _frame"),
    (adapter_errors, "molrec_ase", "from molrec_core import plugins"),
    (adapter_errors, "molrec_ase", "from molrec_core.hosts import _private"),
    (adapter_errors, "molrec_ase", "import molrec_mda"),
    (file_errors, "_frame", "open('x')"),
    (file_errors, "_frame", "import os\nos.rename('a', 'b')"),
    (file_errors, "_frame", "import os\nos.path.exists('a')"),
    (file_errors, "_frame", "from os import replace"),
    (file_errors, "_frame", "import io\nio.open('x')"),
    (file_errors, "_frame", "import tempfile"),
    (file_errors, "_frame", "path.joinpath('a').write_text('b')"),
    (file_errors, "_frame", "temporary.replace(path)"),
    (sync_errors, "_frame", "store.sync('key')"),
    (sync_errors, "_frame", "stores[0].fsync_directory()"),
    (sync_errors, "_frame", "os.fdatasync(3)"),
    (codec_errors, "_frame", "import zlib"),
    (codec_errors, "_frame", "from numcodecs.zstd import Zstd"),
    (size_errors, "long.py", "\n" * 401),
    (size_errors, "long.py", "def f():\n" + "    pass\n" * 60),
]


@pytest.mark.parametrize(("check", "module", "source"), REFUSED)
def test_each_check_refuses_what_it_is_for(check, module, source):
    """A check that stopped looking would pass silently."""
    assert check(module, source if check is size_errors else ast.parse(source))


ACCEPTED = [
    (direction_errors, "_store", "import os\nimport numpy\nfrom molrec_core._node import Node"),
    (direction_errors, "cli", "from molrec_core import Frame, hosts, _demo"),
    (direction_errors, "testing", "from molrec_core.testing.strategies import frames"),
    (
        adapter_errors,
        "molrec_ase",
        "from molrec_core import Frame, units\nfrom molrec_core.hosts import names",
    ),
    (
        adapter_errors,
        "molrec_ase",
        "from molrec_ase._convert import frame\nfrom molrec_core.units import Units",
    ),
    (
        file_errors,
        "_frame",
        "import os\nos.fspath(p)\nos.environ.get('A')\nos.path.join('a', 'b')\nio.BytesIO()",
    ),
    (sync_errors, "_frame", "writer.flush()"),
    (codec_errors, "_frame", "from molrec_core._codecs import Pipeline"),
    (size_errors, "short.py", "def f():\n" + "    pass\n" * 59),
]


@pytest.mark.parametrize(("check", "module", "source"), ACCEPTED)
def test_each_check_lets_the_rest_pass(check, module, source):
    """A check that refused everything would be turned off."""
    assert not check(module, source if check is size_errors else ast.parse(source))
