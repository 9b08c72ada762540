"""What each format of ASE keeps of an image, 25 features, as a table for the docs.

    python benchmarks/ase_features.py > docs/ase-features.md

Each feature is a list of images and a question about what comes back. A format keeps it
when every answer equals that of the images that went in; ``no (reason)`` is how it fails.
"""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms, FixBondLengths, Hookean

FORMATS = {"mrec": "a.mrec", ".traj": "a.traj", "extxyz": "a.extxyz"}
if importlib.util.find_spec("znh5md"):
    FORMATS["znh5md"] = "a.h5"

Question = Callable[[Atoms], Any]


def water(**changes: Any) -> Atoms:
    """A water molecule with info, arrays, constraints or results."""
    atoms = molecule("H2O")
    atoms.info.update(changes.get("info", {}))
    for name, values in changes.get("arrays", {}).items():
        atoms.set_array(name, np.asarray(values))
    if "results" in changes:
        atoms.calc = SinglePointCalculator(atoms)
        atoms.calc.results.update(changes["results"])
    if "constraint" in changes:
        atoms.set_constraint(changes["constraint"])
    for name in ("cell", "pbc", "celldisp"):
        if name in changes:
            getattr(atoms, f"set_{name}")(changes[name])
    return atoms


def typed(value: Any) -> Any:
    """A value with its type, so that 1, 1.0, True and '1' differ."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tolist())
    if isinstance(value, dict):
        return sorted((repr(key), typed(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return (type(value).__name__, [typed(item) for item in value])
    return (type(value).__name__, repr(value))


def results(atoms: Atoms) -> Any:
    """The calculator's results; without one, none."""
    return {} if atoms.calc is None else {k: np.asarray(v).tolist() for k, v in atoms.calc.results.items()}


def array(name: str) -> Question:
    """An array of the image, with its dtype; None without it."""
    return lambda atoms: typed(atoms.arrays[name]) if name in atoms.arrays else None


def info(atoms: Atoms) -> Any:
    """All of info, types included."""
    return typed(dict(atoms.info))


def constraints(atoms: Atoms) -> Any:
    """What the constraints say they are."""
    return typed([c.todict() for c in atoms.constraints])


FORCES = np.arange(9.0).reshape(3, 3)
PLAIN = Atoms("H", [[0.1, 0.2, 1 / 3]])
BOXED = Atoms("H", cell=[5, 5, 5], pbc=True)

FEATURES: dict[str, tuple[list[Atoms], Question]] = {
    "positions, every bit": ([PLAIN], lambda a: a.positions.tobytes()),
    "another number of atoms per image": ([water(), PLAIN], lambda a: a.symbols.get_chemical_formula()),
    "an image of no atoms": ([PLAIN, Atoms()], len),
    "per-axis pbc": ([water(cell=[5, 5, 5], pbc=[1, 0, 1])], lambda a: a.pbc.tolist()),
    "a cell in some images only": ([BOXED, PLAIN, BOXED], lambda a: (a.cell.rank, a.pbc.tolist())),
    "a cell with a zero vector": ([water(cell=[5, 5, 0], pbc=[1, 1, 0])], lambda a: a.cell.tolist()),
    "cell displacement": (
        [water(cell=[5, 5, 5], celldisp=[1, 2, 3])],
        lambda a: a.get_celldisp().ravel().tolist(),
    ),
    "momenta, to 1e-15": (
        [water(arrays={"momenta": FORCES / 7})],
        lambda a: np.round(a.get_momenta() / np.where(FORCES, FORCES / 7, 1), 14).tolist(),
    ),
    "momenta in some images only": ([water(arrays={"momenta": FORCES}), water()], lambda a: a.has("momenta")),
    "masses that were set": ([water(arrays={"masses": [18.0, 2.0, 2.0]})], array("masses")),
    "tags": ([water(arrays={"tags": [1, 0, -2]})], array("tags")),
    "charges and moments": (
        [water(arrays={"initial_charges": [-0.5, 0.25, 0.25], "initial_magmoms": FORCES})],
        lambda a: (array("initial_charges")(a), array("initial_magmoms")(a)),
    ),
    "FixAtoms": ([water(constraint=FixAtoms([0]))], constraints),
    "other constraints": (
        [water(constraint=[FixBondLengths([[0, 1]]), Hookean(0, 2, 5.0, rt=1.5)])],
        constraints,
    ),
    "constraints that change": (
        [water(constraint=FixAtoms([0])), water(), water(constraint=FixAtoms([2]))],
        constraints,
    ),
    "array of bool or strings": (
        [water(arrays={"core": [True, False, True], "label": ["a", "bc", ""]})],
        lambda a: (array("core")(a), array("label")(a)),
    ),
    "array of float32, its dtype": ([water(arrays={"w": np.array([0.1, 0.2, 0.3], np.float32)})], array("w")),
    "array with two trailing axes": ([water(arrays={"t": np.arange(12.0).reshape(3, 2, 2)})], array("t")),
    "array in some images only": ([water(arrays={"q": [1.0, 2, 3]}), water()], array("q")),
    "info: int, bool, None, '007'": ([water(info={"a": 1, "b": True, "c": None, "d": "007"})], info),
    "info: list, tuple, nested dict": (
        [water(info={"l": [1, "a"], "t": (1, 2.5), "d": {"x": {"y": [None]}}})],
        info,
    ),
    "info: arrays, their dtypes": (
        [water(info={"a": np.arange(3, dtype=np.int32), "n": np.float32(0.1)})],
        info,
    ),
    "results in some images only": ([water(results={"energy": -1.5, "forces": FORCES}), water()], results),
    "one name in info and results": (
        [
            water(
                results={"energy": -1.5, "forces": FORCES},
                info={"energy": -2.0},
                arrays={"forces": FORCES * 2},
            )
        ],
        lambda a: (results(a), a.info.get("energy"), array("forces")(a)),
    ),
    "results ASE has no name for": (
        [water(results={"energy": -1.0, "spread": 0.5, "node": [1.0, 2.0]})],
        results,
    ),
}


def keeps(file: str, images: list[Atoms], question: Question) -> str:
    """Write, read, ask; return yes, or no and why."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, file)
        try:
            ase.io.write(path, [atoms.copy() if atoms.calc is None else atoms for atoms in images])
        except Exception as error:  # noqa: BLE001 - whatever a format raises is its answer
            return f"no (write: {type(error).__name__})"
        try:
            found = ase.io.read(path, ":")
            answers = [question(atoms) for atoms in found]
        except Exception as error:  # noqa: BLE001 - as above
            return f"no (read: {type(error).__name__})"
        wanted = [question(atoms) for atoms in images]
        if len(found) != len(images):
            return f"no ({len(found)} of {len(images)} images)"
        return "yes" if repr(answers) == repr(wanted) else "no"


def table(formats: dict[str, str]) -> list[list[str]]:
    """Rows of feature and answers, a header first."""
    rows = [["feature", *formats]]
    for name, (images, question) in FEATURES.items():
        rows.append([name, *(keeps(file, images, question) for file in formats.values())])
    kept = [sum(row[i] == "yes" for row in rows[1:]) for i in range(1, len(formats) + 1)]
    return [*rows, [f"kept of {len(FEATURES)}", *map(str, kept)]]


def main() -> None:
    """Print the table."""
    header, *rows = table(FORMATS)
    for row in (header, ["---"] * len(header), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
