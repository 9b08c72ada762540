"""Options and profiles that all tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

# Example times vary with the load of the machine, so no test has a deadline;
# pytest-timeout bounds each test instead.
settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("default"), max_examples=2000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the full form of the campaigns")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--long") else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    chosen = [item for item in items if "long" not in item.keywords]
    left_out = [item for item in items if "long" in item.keywords]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen
