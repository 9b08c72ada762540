"""Records behind zarr-python's stores."""

from __future__ import annotations

import pytest

from molrec_core import Block, Frame, open_record, write_mrec

fsspec = pytest.importorskip("fsspec")


@pytest.mark.parametrize("scheme", ["memory", "local"])
def test_every_child_of_a_directory_behind_a_url_is_found(tmp_path, scheme):
    """File systems say that a directory exists, as a file does; it must not be taken for one."""
    frame = Frame({"atoms": Block({"x": [1.0, 2.0]})}, meta={"title": "a"})
    write_mrec(tmp_path / "run.mrec", frame=frame, system=frame)
    url = (tmp_path / "run.mrec").as_uri().replace("file://", "local://")
    if scheme == "memory":
        url = "memory://zarrstore/run.mrec"
        fsspec.filesystem("memory").put(str(tmp_path / "run.mrec"), "/zarrstore/run.mrec", recursive=True)
    with open_record(url) as record:
        assert record.sections == ("meta", "system", "frame")
        assert record.system == frame
        assert record.frame["atoms"]["x"].tolist() == [1.0, 2.0]
