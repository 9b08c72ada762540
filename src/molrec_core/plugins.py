"""Finding plugins: entry points of the group ``molrec``, loaded on first use.

A plugin that fails to import is reported with its distribution and skipped; two
adapters, checks or commands of one name are an error that names both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from typing import Protocol, TypeVar

import pluggy

from molrec_core import hookspecs
from molrec_core.errors import RecordError
from molrec_core.hookspecs import Adapter, Check, Command

GROUP = "molrec"


class PluginWarning(UserWarning):
    """A plugin failed to load and was skipped."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point: its name, distribution, and the error that kept it out (None when it loaded)."""

    name: str
    distribution: str
    error: str | None = None


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def _entry_points() -> Iterable[tuple[EntryPoint, str]]:
    seen = set()
    for distribution in distributions():
        name = distribution.metadata["Name"] or "unknown"
        for entry in distribution.entry_points:
            # An editable install may list one distribution twice.
            if entry.group == GROUP and (name, entry.name) not in seen:
                seen.add((name, entry.name))
                yield entry, f"{name} {distribution.version}"


@lru_cache(maxsize=1)
def manager() -> tuple[pluggy.PluginManager, tuple[Plugin, ...]]:
    """Load every plugin once; return the manager and what was found."""
    plugins = pluggy.PluginManager(hookspecs.PROJECT)
    plugins.add_hookspecs(hookspecs)
    found = []
    for entry, distribution in sorted(_entry_points(), key=lambda pair: pair[0].name):
        error = None
        try:
            plugins.register(entry.load(), name=f"{distribution}: {entry.name}")
        except ModuleNotFoundError as missing:
            # The host is not installed: the plugin has nothing to offer here.
            error = f"needs {missing.name}"
        except Exception as failure:  # noqa: BLE001 - a plugin may raise anything at import
            error = f"{type(failure).__name__}: {failure}"
            warnings.warn(
                f"plugin {entry.name} of {distribution} failed: {error}", PluginWarning, stacklevel=2
            )
        found.append(Plugin(entry.name, distribution, error))
    return plugins, tuple(found)


def plugins() -> tuple[Plugin, ...]:
    """Every entry point found, loaded or not."""
    return manager()[1]


def adapters() -> dict[str, Adapter]:
    """Return adapters by name."""
    return _collect("molrec_adapters", Adapter)


def checks() -> dict[str, Check]:
    """Return checks by name."""
    return _collect("molrec_checks", Check)


def commands() -> dict[str, Command]:
    """Return commands by name."""
    return _collect("molrec_commands", Command)


def _collect(hook: str, kind: type[N]) -> dict[str, N]:
    loaded, _ = manager()
    owners: dict[str, str] = {}
    found: dict[str, N] = {}
    for implementation in getattr(loaded.hook, hook).get_hookimpls():
        for item in implementation.function():
            owner = implementation.plugin_name
            if item.name in found:
                raise RecordError(
                    f"two plugins offer the {kind.__name__.lower()} {item.name!r}: {owners[item.name]} and {owner}; "
                    "remove one of them",
                    kind="plugin_conflict",
                )
            found[item.name] = item
            owners[item.name] = owner
    return dict(sorted(found.items()))
