"""What happens to whole records and files by their path, outside any store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def path_exists(path: Path) -> bool:
    """Whether anything is at `path`, a dangling link included."""
    return path.exists() or path.is_symlink()


def is_directory(path: Path) -> bool:
    """Whether `path` is a directory."""
    return path.is_dir()


def list_names(path: Path) -> list[str]:
    """Names of what is in a directory."""
    return sorted(os.listdir(path))


def make_directory(path: Path) -> None:
    """Make one directory."""
    path.mkdir(exist_ok=True)


def rename_path(path: Path, new: Path) -> None:
    """Rename a record's directory."""
    path.rename(new)


def replace_path(path: Path, new: Path) -> None:
    """Rename a file over another."""
    path.replace(new)


def remove_file(path: Path) -> None:
    """Remove a file if it is there."""
    path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a record's directory."""
    shutil.rmtree(path)
