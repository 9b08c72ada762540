"""``MolrecDataset``: many records as one sequence, in batches, in other processes."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import resource
import subprocess
import sys
import threading
import time
from collections import Counter

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator

from molrec_ase import MolrecDataset
from molrec_core import FormatError, RecordNotFoundError
from molrec_core._array import ChunkedReader


def molecules(count, start=0, seed=3):
    """Molecules of 1 to 30 atoms that say which they are."""
    rng = np.random.default_rng(seed)
    for number in range(start, start + count):
        n = int(rng.integers(1, 31))
        atoms = Atoms(rng.choice([1, 6, 8], n), rng.normal(size=(n, 3)))
        atoms.calc = SinglePointCalculator(atoms, energy=float(number), forces=rng.normal(size=(n, 3)))
        yield atoms


def energies(images):
    return [atoms.get_potential_energy() for atoms in images]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three records: 2000, 300 and 0 images, and a packed one of 50."""
    path = tmp_path_factory.mktemp("set")
    ase.io.write(path / "a.mrec", list(molecules(2000)))
    ase.io.write(path / "b.mrec", list(molecules(300, 2000)))
    ase.io.write(path / "c.mrec", [])
    ase.io.write(path / "d.mrec.zip", list(molecules(50, 2300)))
    return path


@pytest.fixture
def dataset(folder):
    return MolrecDataset(folder)


def test_P164_folders_globs_and_lists_are_one_sequence(folder):
    """Length and index go over all records; a folder and a pattern are sorted."""
    names = [folder / name for name in ("a.mrec", "b.mrec", "c.mrec", "d.mrec.zip")]
    for given in (
        folder,
        f"{folder}/*.mrec*",
        names,
        [str(folder / "a.mrec"), f"{folder}/[bc].mrec", names[3]],
    ):
        found = MolrecDataset(given)
        assert len(found) == 2350
        assert energies(found[i] for i in (0, 1999, 2000, 2299, 2300, -1)) == [
            0,
            1999,
            2000,
            2299,
            2300,
            2349,
        ]
    assert len(MolrecDataset(names[1])) == 300


def test_it_is_a_sequence(dataset):
    assert energies(dataset[1990:2010:5]) == [1990, 1995, 2000, 2005]
    assert energies(dataset[[2349, 5, 2000, 5, -1]]) == [2349, 5, 2000, 5, 2349]
    assert energies(dataset[np.array([3, 1])]) == [3, 1]
    assert energies([dataset[np.int64(7)]]) == [7]
    assert energies(dataset[np.arange(2350) % 1000 == 0]) == [0, 1000, 2000]
    assert energies(dataset) == list(range(2350))
    assert dataset[[]] == []
    assert energies(dataset.__getitems__([4, 2])) == [4, 2]
    for wrong in (2350, -2351, [0, 2350]):
        with pytest.raises(IndexError):
            dataset[wrong]


def test_the_same_image_twice_in_a_batch_is_two_images(dataset):
    first, second = dataset[[5, 5]]
    first.positions += 1
    assert (first.positions != second.positions).all()
    assert second.get_potential_energy() == 5


@pytest.mark.parametrize("given", [list, iter], ids=["seen", "streamed"])
def test_P163_a_batch_decodes_each_chunk_once(tmp_path, monkeypatch, given):
    """Whatever the order of the batch, and whether the images were known beforehand or have nullable columns."""
    ase.io.write(tmp_path / "a.mrec", given(list(molecules(2000))))
    dataset = MolrecDataset(tmp_path / "a.mrec")
    dataset[0]
    decoded = Counter()
    whole = ChunkedReader._fill_chunks

    def counting(self, first, last, out):
        decoded.update((self.key, chunk) for chunk in range(first, last))
        return whole(self, first, last, out)

    monkeypatch.setattr(ChunkedReader, "_fill_chunks", counting)
    batch = random.Random(1).sample(range(2000), 400)
    assert energies(dataset[batch]) == batch
    columns = {key for key, _ in decoded}
    assert {"trajectory/atoms/x", "trajectory/forces/fz", "trajectory/identity/atomic_number"} <= columns
    assert sum(decoded.values()) > len(columns)
    assert set(decoded.values()) == {1}


def test_it_pickles_by_its_paths(dataset):
    dataset[0]
    copy = pickle.loads(pickle.dumps(dataset))
    assert len(pickle.dumps(dataset)) < 2000
    assert energies(copy[[2, 2300]]) == [2, 2300]


def in_child(dataset, indices, answers):
    answers.put(energies(dataset[indices]))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_read_it(dataset, method):
    """Also when another thread held it at the moment of the fork."""
    dataset[0]
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    indices = [7, 2001, 2349]
    holder = threading.Thread(
        target=lambda: (dataset._lock.acquire(), time.sleep(3), dataset._lock.release())
    )
    if method == "fork":
        holder.start()
        time.sleep(0.1)
    if method == "spawn":
        code = (
            "import pickle, sys; dataset = pickle.load(sys.stdin.buffer);"
            f"print([a.get_potential_energy() for a in dataset[{indices}]])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], input=pickle.dumps(dataset), capture_output=True, check=True
        )
        assert done.stdout.decode().strip() == str([float(i) for i in indices])
        return
    child = context.Process(target=in_child, args=(dataset, indices, answers))
    child.start()
    assert answers.get(timeout=60) == indices
    child.join()
    holder.join()
    assert energies(dataset[indices]) == indices


def test_threads_share_it(dataset):
    """Each gets what it asked for."""
    wrong = []

    def read(seed):
        for _ in range(20):
            batch = random.Random(seed).sample(range(2350), 20)
            if energies(dataset[batch]) != batch:
                wrong.append(batch)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_paths_without_a_record(tmp_path, simple):
    for given in (tmp_path, tmp_path / "a.mrec", f"{tmp_path}/*.mrec"):
        with pytest.raises(RecordNotFoundError):
            MolrecDataset(given)
    (tmp_path / "a.mrec").write_bytes(b"no record")
    with pytest.raises((RecordNotFoundError, FormatError), match=r"a\.mrec"):
        MolrecDataset(tmp_path)
    assert len(MolrecDataset([])) == 0


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_P162_a_million_molecules_take_little_memory(tmp_path):
    """Reading through them holds a window, not the set; a random one takes under a millisecond."""

    def stream():
        for start in range(0, 1_000_000, 50_000):
            yield from molecules(50_000, start, seed=start)

    ase.io.write(tmp_path / "a.mrec", stream())
    dataset = MolrecDataset(tmp_path / "a.mrec")
    assert sum(1 for _ in dataset) == 1_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2**20
    chosen = [n + i for n in (3, 500_000, 999_000) for i in range(20)]
    dataset[chosen[0]]
    times = []
    for number in chosen:
        start = time.perf_counter()
        assert dataset[number].get_potential_energy() == number
        times.append(time.perf_counter() - start)
    assert sorted(times)[len(times) // 2] < 1e-3
