"""Figures of a bench run: printed after the tests, so that ``make bench`` shows them and ``make test`` keeps them."""

from collections.abc import Callable

import pytest

FIGURES = pytest.StashKey[list[tuple[str, float, str]]]()


@pytest.fixture
def record_figure(request) -> Callable[[str, float, str], None]:
    def record(what: str, value: float, unit: str) -> None:
        request.config.stash.setdefault(FIGURES, []).append((what, value, unit))

    return record


def pytest_terminal_summary(terminalreporter) -> None:
    figures = terminalreporter.config.stash.get(FIGURES, [])
    for what, value, unit in figures:
        terminalreporter.write_line(f"{value:10.1f} {unit:<10} {what}")
