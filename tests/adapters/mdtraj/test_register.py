"""What importing the package changes in mdtraj, and that it can be undone."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

md = pytest.importorskip("mdtraj")
from mdtraj.core import trajectory as core  # noqa: E402
from mdtraj.formats.registry import FormatRegistry  # noqa: E402
from mdtraj.scripts import mdconvert  # noqa: E402

import molrec_mdtraj  # noqa: E402
from molrec_mdtraj import _register  # noqa: E402


@pytest.fixture(autouse=True)
def registered():
    molrec_mdtraj.register()
    yield
    molrec_mdtraj.register()


def state():
    """Everything of mdtraj that a registration could touch, code included."""
    seen = {}
    for owner in (md, core, core.Trajectory, mdconvert, FormatRegistry):
        for name, value in vars(owner).items():
            if name != "__doc__":
                code = getattr(value, "__code__", None)
                more = (code, value.__defaults__, value.__kwdefaults__, vars(value).copy()) if code else None
                seen[owner, name] = (id(value), dict(value) if type(value) is dict else None, more)
    return seen


def run(script: str) -> str:
    """Run a script in a fresh interpreter; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_is_put_back():
    """Nothing of mdtraj differs from an interpreter that never imported this package."""
    out = run(
        """
        import sys
        import mdtraj as md
        from mdtraj.core import trajectory as core
        from mdtraj.formats.registry import FormatRegistry
        from mdtraj.scripts import mdconvert

        def state():
            seen = {}
            for owner in (md, core, core.Trajectory, mdconvert, FormatRegistry):
                for name, value in vars(owner).items():
                    code = getattr(value, "__code__", None)
                    more = (code, value.__defaults__, value.__kwdefaults__, vars(value).copy()) if code else None
                    content = dict(value) if type(value) is dict and name != "__builtins__" else None
                    seen[owner, name] = (id(value), content, more)
            return seen

        before = state()
        import molrec_mdtraj
        assert state() != before
        molrec_mdtraj.unregister()
        after = state()
        print([key for key in before.keys() | after.keys() if before.get(key) != after.get(key)])
        """
    )
    assert out.strip() == "[]"


def test_registering_again_changes_nothing_P2():
    before = {key: value[0] for key, value in state().items()}
    for _ in range(3):
        molrec_mdtraj.register()
    assert {key: value[0] for key, value in state().items()}.keys() == before.keys()
    assert [suffix for suffix in FormatRegistry.loaders if "mrec" in suffix] == [".mrec"]
    assert [suffix for suffix in FormatRegistry.fileobjects if "mrec" in suffix] == [".mrec"]
    original = core.load.__molrec_original__
    assert not hasattr(original, "__molrec_original__")
    assert original.__code__.co_filename.endswith("trajectory.py")


def test_a_reload_leaves_one_loader_P2(tmp_path):
    out = run(
        f"""
        import importlib, sys
        import numpy as np
        import mdtraj as md
        import molrec_mdtraj
        from mdtraj.core import trajectory as core
        importlib.reload(molrec_mdtraj._register)
        importlib.reload(molrec_mdtraj)
        for name in [name for name in sys.modules if name.startswith("molrec_mdtraj")]:
            del sys.modules[name]
        import molrec_mdtraj
        top = md.Topology()
        top.add_atom("C", md.element.carbon, top.add_residue("R", top.add_chain()))
        md.Trajectory(np.zeros((3, 1, 3)), top).save({str(tmp_path / "run.mrec")!r})
        print(len(md.load({str(tmp_path / "run.mrec")!r})))
        assert core.load.__molrec_original__.__code__.co_filename.endswith("trajectory.py")
        molrec_mdtraj.unregister()
        assert core.load.__code__.co_filename.endswith("trajectory.py")
        """
    )
    assert out.strip() == "3"


def test_names_imported_before_work_as_well(kit, tmp_path):
    kit.trajectory(5).save(tmp_path / "run.mrec.zip")
    out = run(
        f"""
        from mdtraj import load, load_frame, iterload, open, load_topology, Trajectory
        from mdtraj.scripts.mdconvert import main
        save = Trajectory.save
        import molrec_mdtraj
        path = {str(tmp_path / "run.mrec.zip")!r}
        save(load(path), {str(tmp_path / "again.mrec")!r})
        print(len(load(path)), len(load_frame(path, -1)), [len(t) for t in iterload(path, 2)],
              len(open(path)), load_topology(path).n_atoms, len(load({str(tmp_path / "again.mrec")!r})))
        """
    )
    assert out.strip() == "5 1 [2, 2, 1] 5 20 5"


def test_after_unregister_mdtraj_knows_no_records(kit, twenty):
    where, source = twenty
    molrec_mdtraj.unregister()
    molrec_mdtraj.unregister()
    with pytest.raises(OSError, match="not supported"):
        md.load(where)
    with pytest.raises(OSError, match="no saver"):
        source.save(where)
    assert not hasattr(md, "load_mrec")
    assert not hasattr(md.Trajectory, "save_mrec")
    # What this package offers by itself goes on.
    kit.same(molrec_mdtraj.load_mrec(where), source)


@pytest.mark.filterwarnings("ignore:top= kwargs ignored")
def test_other_formats_behave_as_before(kit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = kit.trajectory(7)
    source.save("run.xtc")
    source.save("run.h5")
    results = []
    for _ in range(2):
        results.append(
            [
                md.load("run.xtc", top=source.topology).xyz,
                md.load("run.h5", stride=2).xyz,
                md.load(["run.h5", "run.h5"]).xyz,
                md.load_frame("run.h5", 3).xyz,
                np.concatenate([t.xyz for t in md.iterload("run.xtc", top=source, chunk=3)]),
                md.open("run.h5").read().coordinates,
            ]
        )
        molrec_mdtraj.unregister()
    for a, b in zip(*results, strict=True):
        assert a.tobytes() == b.tobytes()


def test_help_shows_mdtrajs_own_signatures():
    registered = {
        name: inspect.signature(getattr(md, name)) for name in ("load", "load_frame", "iterload", "open")
    }
    molrec_mdtraj.unregister()
    for name, signature in registered.items():
        assert inspect.signature(getattr(md, name)) == signature
    assert "stride" in md.load.__doc__


@pytest.mark.parametrize("change", ["gone", "renamed", "closure", "class"])
def test_an_mdtraj_that_has_changed_is_named(monkeypatch, change):
    """And nothing is half done: every function keeps the code it had."""
    molrec_mdtraj.unregister()
    factor = 1

    def closure(filename, index):
        return filename, index, factor

    stand_in = {
        "renamed": types.FunctionType((lambda path, index: None).__code__, {}),
        "closure": closure,
        "class": type("load_frame", (), {}),
    }
    if change == "gone":
        monkeypatch.delattr(core, "load_frame")
    else:
        monkeypatch.setattr(core, "load_frame", stand_in[change])
    codes = [getattr(core, name).__code__ for name in ("load", "iterload", "open", "_parse_topology")]
    with pytest.raises(
        ImportError, match=r"mdtraj 1\..* has changed: mdtraj\.core\.trajectory\.load_frame .*newer molrec"
    ):
        molrec_mdtraj.register()
    assert [getattr(core, name).__code__ for name in ("load", "iterload", "open", "_parse_topology")] == codes
    assert ".mrec" not in FormatRegistry.loaders


def test_the_registry_tells_of_records(kit, twenty):
    where, source = twenty
    kit.same(FormatRegistry.loaders[".mrec"](where), source)
    with FormatRegistry.fileobjects[".mrec"](where) as file:
        assert len(file) == len(source)
    kit.same(md.load_mrec(where), source)


def test_is_record_looks_at_the_name_alone():
    from pathlib import Path

    from molrec_mdtraj._load import is_record

    for name in ("a.mrec", "a.mrec/", "a.mrec.zip", Path("x/a.mrec"), "s3://b/a.mrec", "a.b.mrec"):
        assert is_record(name)
    for name in ("a.zip", "a.mrec.gz", "a.xtc", "mrec", "", None, 3, b"a.mrec", ["a.mrec"], "a.mrec/x.xtc"):
        assert not is_record(name)


def test_hooks_name_only_what_mdtraj_has():
    molrec_mdtraj.unregister()
    assert all(hook.function() for hook in _register._HOOKS)
    importlib.import_module("molrec_mdtraj").register()
