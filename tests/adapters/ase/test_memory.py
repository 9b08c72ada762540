"""The arrays of large images share blocks of memory: none of them may show in another."""

from __future__ import annotations

import weakref
from itertools import pairwise

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator

from molrec_ase._memory import Arena


@pytest.mark.parametrize("dtype", [np.float64, np.int64, bool])
def test_arrays_are_apart_and_whole(dtype):
    arena = Arena()
    arena.open()
    arrays = [
        arena.empty((n, 3), dtype)
        for n in [1, 700, 9000, 100_000, 20_000, 400_000, 3, 50_000, 90_000, 90_000]
    ]
    for number, array in enumerate(arrays):
        array[...] = number % 2
    assert all(array.dtype == dtype and array.flags.c_contiguous and array.flags.aligned for array in arrays)
    assert all((array == number % 2).all() for number, array in enumerate(arrays))
    spans = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_a_block_goes_with_the_last_array_of_it():
    arena = Arena()
    arena.open()
    first, second = arena.empty((9000, 3)), arena.empty((9000, 3))
    assert first.base is not None
    block = weakref.ref(first.base)
    arena.close()
    del first
    assert block() is not None
    del second
    assert block() is None
    assert arena.empty((9000, 3)).base is None


def test_a_copy_is_cast():
    arena = Arena()
    arena.open()
    values = np.arange(9000, dtype=np.uint64)
    for size in (10, 9000):
        copied = arena.copy(values[:size], np.int64)
        assert copied.dtype == np.int64
        assert copied.tolist() == list(range(size))
        assert not np.shares_memory(copied, values)


def test_large_images_are_their_own(tmp_path):
    """What is done to one image shows in no other, nor in its calculator's."""
    rng = np.random.default_rng(0)
    images = []
    for _ in range(6):
        atoms = Atoms("H9000", rng.random((9000, 3)))
        atoms.calc = SinglePointCalculator(atoms, energy=1.0, forces=rng.random((9000, 3)))
        images.append(atoms)
    ase.io.write(tmp_path / "a.mrec", images)
    found = ase.io.read(tmp_path / "a.mrec", ":")
    for image in found[::2]:
        image.positions += 1
        image.numbers[:] = 6
        image.calc.results["forces"] *= 2
    for before, after in zip(images, found, strict=True):
        changed = after is found[0] or after is found[2] or after is found[4]
        assert np.array_equal(after.positions, before.positions + changed)
        assert set(after.numbers) == {6 if changed else 1}
        assert np.array_equal(after.calc.results["forces"], before.calc.results["forces"] * (1 + changed))
        assert np.array_equal(after.calc.atoms.positions, before.positions)
        assert set(after.calc.atoms.numbers) == {1}
