"""iterload gives ``range(n)[skip::stride]`` in chunks, whatever the chunk (K20, P133)."""

from __future__ import annotations

import numpy as np
import pytest

md = pytest.importorskip("mdtraj")

N = 20


@pytest.mark.parametrize("chunk", range(N + 2))
def test_every_chunk_stride_and_skip_K20_P133(kit, twenty, chunk):
    where, source = twenty
    for stride in range(1, 5):
        for skip in range(6):
            for atoms in (None, [1, 4, 11]):
                pieces = list(md.iterload(where, chunk=chunk, stride=stride, skip=skip, atom_indices=atoms))
                expected = list(range(N))[skip::stride]
                found = np.concatenate([piece.xyz for piece in pieces])
                assert (
                    found.tobytes()
                    == source.xyz[expected][:, slice(None) if atoms is None else atoms].tobytes()
                )
                assert np.array_equal(np.concatenate([piece.time for piece in pieces]), source.time[expected])
                sizes = [len(piece) for piece in pieces]
                assert sizes[:-1] == [chunk or len(expected)] * (len(sizes) - 1)
                assert 0 < sizes[-1] <= (chunk or len(expected))
                assert {piece.n_atoms for piece in pieces} == {source.n_atoms if atoms is None else 3}


def test_defaults_and_the_end(kit, twenty):
    where, source = twenty
    (only,) = md.iterload(where)
    kit.same(only, source)
    assert list(md.iterload(where, skip=N)) == []
    assert list(md.iterload(where, skip=N + 5, chunk=0)) == []
    kit.same(next(md.iterload(where, chunk=3, top=source.topology)), source[:3])


def test_an_iterator_that_is_left_closes_the_record(kit, tmp_path):
    source = kit.trajectory(6)
    source.save(tmp_path / "run.mrec")
    pieces = md.iterload(tmp_path / "run.mrec", chunk=2)
    kit.same(next(pieces), source[:2])
    pieces.close()
    source[:3].save(tmp_path / "run.mrec")
    kit.same(md.load(tmp_path / "run.mrec"), source[:3])


def test_a_wrong_stride_is_named(kit, twenty):
    with pytest.raises(ValueError, match="stride is 0"):
        next(md.iterload(twenty[0], stride=0))
