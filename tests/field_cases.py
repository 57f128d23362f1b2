"""pytest plugin for ``make field-cases``: runs the tests that prove a field case and writes docs/field_cases.md.

``marked_tests`` reads the markers from the sources, so that the document can be checked without running anything.
"""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CASES_FILE = ROOT / "tests" / "field_cases.toml"
DOCUMENT = ROOT / "docs" / "field_cases.md"
PASSED, NO_TEST = "passed", "no test yet"
WORST_LAST = (PASSED, "skipped: counts as missing", "failed")
TABLE_HEAD = ("| id | priority | what | tests | outcome |", "|---|---|---|---|---|")
HEAD = """# Cases from the field

What went wrong elsewhere or is expected of us, and the tests that prove it here. Made by `make field-cases`, from
`tests/field_cases.toml`, the markers on the tests and a run of them; a skipped test counts as missing.
"""


@dataclass(frozen=True)
class Case:
    """``priority`` is P0, P1, P2, or V for a behaviour."""

    id: str
    priority: str
    what: str

    @property
    def group(self) -> str:
        return self.id.split("-")[0]


def known_cases() -> tuple[dict[str, str], dict[str, Case]]:
    """The groups by letter, and the cases by id in the order of the file."""
    read = tomllib.loads(CASES_FILE.read_text())
    return read["groups"], {key: Case(key, *facts) for key, facts in read["cases"].items()}


def marked_tests() -> dict[str, list[str]]:
    """Case -> tests as ``tests/db/test_x.py::test_y``, sorted, as the markers in the sources say."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, cases in _marked_in(ast.parse(path.read_text())):
            for case in cases:
                found[case].add(f"{path.relative_to(ROOT)}::{name}")
    return {case: sorted(tests) for case, tests in found.items()}


def _marked_in(module: ast.Module) -> Iterator[tuple[str, set[str]]]:
    whole = {case for node in module.body if _assigns_pytestmark(node) for case in _cases_in(node)}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, whole | {case for decorator in node.decorator_list for case in _cases_in(decorator)}


def _assigns_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pytestmark"


def _cases_in(node: ast.AST) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.case":
            yield from (argument.value for argument in call.args if isinstance(argument, ast.Constant))


def document(tests: Mapping[str, list[str]], outcomes: Mapping[str, str]) -> str:
    """The whole text; ``outcomes`` by test."""
    groups, cases = known_cases()
    parts = [HEAD]
    for letter, title in groups.items():
        rows = [_row(case, tests.get(case.id, []), outcomes) for case in cases.values() if case.group == letter]
        parts.append(
            "\n".join([f"## {title}", "", "| id | priority | what | tests | outcome |", "|---|---|---|---|---|"])
        )
        parts[-1] += "\n" + "\n".join(rows) + "\n"
    return "\n".join(parts)


def _row(case: Case, tests: list[str], outcomes: Mapping[str, str]) -> str:
    named = "<br>".join(f"`{test}`" for test in tests) or "–"
    outcome = max((outcomes.get(test, WORST_LAST[1]) for test in tests), key=WORST_LAST.index, default=NO_TEST)
    return f"| {case.id} | {case.priority} | {case.what} | {named} | {outcome} |"


def rows_of(text: str) -> dict[str, tuple[list[str], str]]:
    """Read the document back: case -> its tests and its outcome."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and "-" in cells[0] and cells[0] != "---":
            tests = [] if cells[3] == "–" else [test.strip("`") for test in cells[3].split("<br>")]
            found[cells[0]] = (tests, cells[4])
    return found


class Writer:
    """Keeps to the marked tests of a run and notes how each ended; with several parameters the worst counts."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        others = [item for item in items if not any(item.iter_markers("case"))]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if any(item.iter_markers("case"))]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.split("[")[0]
        word = WORST_LAST[2] if report.failed else WORST_LAST[1] if report.skipped else PASSED
        if report.when == "call" or word != PASSED:
            self.outcomes[test] = max(word, self.outcomes.get(test, PASSED), key=WORST_LAST.index)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(session.config, "workerinput"):
            DOCUMENT.write_text(document(marked_tests(), self.outcomes))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-field-cases", action="store_true", help="run the marked tests, write docs/field_cases.md")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--write-field-cases"):
        config.pluginmanager.register(Writer(), "field-cases")
