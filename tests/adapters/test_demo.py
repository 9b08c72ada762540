"""``molrec demo``: a real simulation into a record, opened by every installed host."""

import pytest

from molrec_core import open_record, plugins, validate
from molrec_core.cli import main


def test_demo_runs_packs_and_opens_everywhere(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    described = [name for name, adapter in plugins.adapters().items() if adapter.describe is not None]
    assert described
    assert all(f"\n{name}" in out for name in described)
    assert not [p for p in validate(tmp_path / "demo.mrec", deep=True) if p.severity == "error"]
    with open_record("demo.mrec") as record, open_record("demo.mrec.zip") as packed:
        assert len(record.trajectory) == len(packed.trajectory) > 30
        assert record.trajectory[0] != record.trajectory[30]


def test_demo_leaves_what_is_there_alone(tmp_path, capsys):
    (tmp_path / "demo.mrec").mkdir()
    assert main(["demo", str(tmp_path / "demo.mrec")]) == 1
    assert "something is there already" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ase", "openmm"])
def test_each_simulation_of_the_demo_is_a_sound_record(name, tmp_path):
    adapter = plugins.adapters().get(name)
    if adapter is None:
        pytest.skip(f"{name} is not installed")
    said = adapter.simulate(tmp_path / "run.mrec")
    with open_record(tmp_path / "run.mrec") as record:
        assert len(record.trajectory) >= 40
        assert "pe" in record.trajectory.meta_keys
    assert str(tmp_path / "run.mrec") in said
