"""The command line: every command as a user types it, its exit code, and its words when something is wrong."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from molrec_core import Block, Box, Frame, TrajectoryWriter, open_record, plugins
from molrec_core.cli import _COMMANDS, main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "run.mrec"
    rng = np.random.default_rng(0)
    system = Frame({"atoms": Block({"element": ["O", "H", "H"]})})
    with TrajectoryWriter(path, meta={"units": {"preset": "real"}}, system=system) as writer:
        for i in range(6):
            atoms = Block({name: rng.random(3) for name in "xyz"})
            writer.append(
                Frame({"atoms": atoms}, box=Box(np.eye(3) * 9), meta={"pe": 1.0 - i}),
                step=10 * i,
                time=0.5 * i,
            )
    return path


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_info_says_what_the_record_holds(record, capsys):
    code, out, _ = run(capsys, "info", record)
    assert code == 0
    assert "6 frames, steps 0 to 50, times 0 to 2.5" in out
    assert "3 rows, 6 updates: x, y, z" in out
    assert "9 x 9 x 9" in out


def test_info_as_json_is_json(record, capsys):
    code, out, _ = run(capsys, "info", record, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["sections"]["trajectory"]["frames"] == 6
    assert found["sections"]["trajectory"]["blocks"]["atoms"]["rows"] == [3, 3]


def test_tree_lists_groups_and_arrays(record, capsys):
    code, out, _ = run(capsys, "tree", record)
    assert code == 0
    assert "trajectory/" in out
    assert re.search(r"x  float64 \[18\]", out)


def test_validate_is_silent_about_a_sound_record(record, capsys):
    assert run(capsys, "validate", "--deep", record)[0] == 0
    assert "0 errors, 0 warnings" in run(capsys, "validate", record)[1]


def test_validate_finds_damage_with_its_place(record, capsys):
    path = record / "trajectory" / "atoms" / "y" / "c" / "0"
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    code, out, _ = run(capsys, "validate", record, "--deep", "--json")
    found = json.loads(out)
    assert code == 1
    assert [(p["kind"], p["loc"]) for p in found if p["severity"] == "error"] == [
        ("checksum", "trajectory/atoms/y, chunk 0")
    ]


def test_pack_unpack_and_diff_round_trip(record, tmp_path, capsys):
    assert run(capsys, "pack", record)[0] == 0
    archive = tmp_path / "run.mrec.zip"
    assert run(capsys, "diff", record, archive)[1] == "equal\n"
    code, out, _ = run(capsys, "unpack", archive, tmp_path / "again.mrec")
    assert code == 0
    assert "again.mrec" in out
    assert run(capsys, "diff", record, tmp_path / "again.mrec") == (0, "equal\n", "")


def test_diff_says_the_first_difference_in_words(record, tmp_path, capsys):
    other = tmp_path / "other.mrec"
    with (
        open_record(record) as found,
        TrajectoryWriter(other, meta=found.meta, system=found.system) as writer,
    ):
        for i, frame in enumerate(found.trajectory):
            x = frame["atoms"]["x"].copy()
            x[2] += 1e-6 * (i == 4)
            columns = {"x": x, "y": frame["atoms"]["y"], "z": frame["atoms"]["z"]}
            writer.append(
                Frame({"atoms": Block(columns)}, box=frame.box, meta=frame.meta), step=10 * i, time=0.5 * i
            )
    code, out, _ = run(capsys, "diff", record, other)
    assert code == 1
    assert out.startswith("trajectory, frame 4/atoms/x: row 2:")
    assert run(capsys, "diff", record, other, "--tolerance", "1e-5")[0] == 0


def test_convert_takes_frames_blocks_and_precision(record, tmp_path, capsys):
    target = tmp_path / "small.mrec"
    code, out, _ = run(capsys, "convert", record, target, "--frames", "1::2", "--precision", "x=0.25")
    assert (code, out) == (0, f"wrote {target}\n")
    with open_record(record) as before, open_record(target) as after:
        assert after.trajectory.steps.tolist() == [10, 30, 50]
        assert after.trajectory.schema.blocks["atoms"].columns["x"].precision == 0.25
        x = before.trajectory[1]["atoms"]["x"]
        assert after.trajectory[0]["atoms"]["x"].tolist() == (np.rint(x * 4) / 4).tolist()
        assert np.array_equal(after.trajectory[0]["atoms"]["y"], before.trajectory[1]["atoms"]["y"])
        assert after.system == before.system


def test_convert_writes_a_packed_record_too(record, tmp_path, capsys):
    target = tmp_path / "out.mrec.zip"
    assert run(capsys, "convert", record, target, "--compression", "zstd:1+shuffle")[0] == 0
    assert run(capsys, "diff", record, target)[1] == "equal\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.mrec.zip", "run.mrec"]


def test_convert_replaces_a_record_only_when_asked(record, tmp_path, capsys):
    target = tmp_path / "small.mrec"
    run(capsys, "convert", record, target)
    code, _, err = run(capsys, "convert", record, target, "--frames", "0")
    assert code == 1
    assert "--overwrite" in err
    assert len(open_record(target).trajectory) == 6
    assert run(capsys, "convert", record, target, "--frames", "0", "--overwrite")[0] == 0
    assert len(open_record(target).trajectory) == 1


def test_convert_names_the_adapters_when_none_reads_the_suffix(tmp_path, capsys):
    code, _, err = run(capsys, "convert", tmp_path / "run.unheard", tmp_path / "out.mrec")
    assert code == 1
    assert "no adapter reads" in err
    assert not (tmp_path / "out.mrec").exists()


def test_repair_says_what_it_would_do_and_then_does_it(record, capsys):
    (record / "trajectory" / "zarr.json.tmp").write_text("{")
    code, out, _ = run(capsys, "repair", record, "--dry-run")
    assert code == 0
    assert "would be mended" in out
    assert (record / "trajectory" / "zarr.json.tmp").exists()
    assert "1 things mended" in run(capsys, "repair", record)[1]
    assert not (record / "trajectory" / "zarr.json.tmp").exists()
    assert "nothing to mend" in run(capsys, "repair", record)[1]


def test_plot_draws_in_the_terminal(record, capsys):
    code, out, _ = run(capsys, "plot", record)
    assert code == 0
    assert re.match(r"pe [█▁▂▃▄▅▆▇]+ -4 to 1", out)


def test_plot_writes_a_picture(record, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert run(capsys, "plot", record, "pe", "-o", tmp_path / "pe.png")[0] == 0
    assert (tmp_path / "pe.png").read_bytes().startswith(b"\x89PNG")


def test_plot_names_a_series_that_is_missing(record, capsys):
    code, _, err = run(capsys, "plot", record, "nothing")
    assert code == 1
    assert "nothing" in err


def test_plugins_lists_what_is_installed(capsys):
    code, out, _ = run(capsys, "plugins", "--json")
    assert code == 0
    assert {entry["name"] for entry in json.loads(out)} >= {"mda", "ase", "mdtraj", "openmm", "lammps"}


def test_a_missing_record_is_named(tmp_path, capsys):
    code, _, err = run(capsys, "info", tmp_path / "none.mrec")
    assert code == 1
    assert "none.mrec" in err
    assert "a record is a directory with a zarr.json" in err


def test_a_wrong_option_is_usage(record):
    with pytest.raises(SystemExit) as caught:
        main(["info", str(record), "--wrong"])
    assert caught.value.code == 2


@pytest.mark.parametrize("command", sorted(_COMMANDS))
def test_every_command_has_help_and_a_line_in_the_docs(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert _COMMANDS[command][0] in capsys.readouterr().out
    assert f"molrec {command}" in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_looking_at_a_record_loads_no_host(record):
    code = (
        "import sys; from molrec_core.cli import main; main(sys.argv[1:]); "
        "print(sorted({'zarr', 'MDAnalysis', 'ase', 'mdtraj', 'openmm', 'lammps'} & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, "info", str(record)], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines()[-1] == "[]"


def test_output_into_a_closed_pipe_is_no_error(record):
    command = f"{sys.executable} -m molrec_core.cli tree {record} | head -n 1; echo ${{PIPESTATUS[0]}}"
    out = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert out.stderr == ""


def test_the_progress_bar_is_for_terminals_only(record, tmp_path, capsys):
    assert run(capsys, "convert", record, tmp_path / "b.mrec")[2] == ""


class _Plugin:
    """A third party's module, as an entry point gives it."""

    def __init__(self, **functions):
        for name, function in functions.items():
            setattr(self, name, plugins.hookspecs.hookimpl(function))


class _Entry:
    def __init__(self, name, load):
        self.name = name
        self.load = load


@pytest.fixture
def installed(monkeypatch):
    """Install entry points in place of the real ones."""

    def install(*entries):
        monkeypatch.setattr(plugins, "_entry_points", lambda: [(e, f"{e.name}-dist 1.0") for e in entries])
        plugins.manager.cache_clear()

    yield install
    monkeypatch.undo()
    plugins.manager.cache_clear()


def test_a_plugin_adds_a_command(installed, capsys):
    from molrec_core.hookspecs import Command

    command = Command(
        "greet", "say hello", lambda p: p.add_argument("who"), lambda a: print(f"hello {a.who}") or 0
    )
    installed(_Entry("polite", lambda: _Plugin(molrec_commands=lambda: [command])))
    assert run(capsys, "greet", "world") == (0, "hello world\n", "")


def test_a_plugin_adds_a_check(installed, record, capsys):
    from molrec_core import Problem
    from molrec_core.hookspecs import Check

    check = Check("short", lambda r: [Problem("trajectory", "too_short", f"{len(r.trajectory)} frames")])
    installed(_Entry("strict", lambda: _Plugin(molrec_checks=lambda: [check])))
    code, out, _ = run(capsys, "validate", record)
    assert code == 1
    assert "error: trajectory: 6 frames [too_short]" in out


def test_a_failing_plugin_is_reported_with_its_distribution_and_skipped(installed, capsys):
    def broken():
        raise RuntimeError("out of order")

    installed(_Entry("broken", broken))
    with pytest.warns(
        plugins.PluginWarning, match=r"broken of broken-dist 1\.0 failed: RuntimeError: out of order"
    ):
        code, out, _ = run(capsys, "plugins")
    assert code == 0
    assert "not loaded: RuntimeError: out of order" in out


def test_two_plugins_with_one_name_are_an_error_that_names_both(installed, capsys):
    from molrec_core.hookspecs import Adapter

    def offer():
        return [Adapter("same")]

    installed(
        _Entry("one", lambda: _Plugin(molrec_adapters=offer)),
        _Entry("two", lambda: _Plugin(molrec_adapters=offer)),
    )
    code, _, err = run(capsys, "plugins")
    assert code == 1
    assert "one-dist 1.0: one" in err
    assert "two-dist 1.0: two" in err


def test_every_hook_is_documented_and_tested():
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    for hook in ("molrec_adapters", "molrec_checks", "molrec_commands"):
        assert hook in text
        assert hook in Path(__file__).read_text(encoding="utf-8")
