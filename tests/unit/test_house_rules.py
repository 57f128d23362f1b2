"""The rules of the house that no linter knows. Each test names the files that break it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("portal", "scheduler", "agents", "tests", "templates", "static")
FILE_LINES_MOST = 300
TEST_FILE_LINES_MOST = 400
FUNCTION_LINES_MOST = 40
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
RUNS_ON_ITS_OWN = {"manage.py"}


def _files(*suffixes: str) -> Iterator[Path]:
    for folder in OURS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and not {"__pycache__", "vendor", "migrations"} & set(path.parts):
                yield path.relative_to(ROOT)


def _python() -> list[Path]:
    return [*map(Path, RUNS_ON_ITS_OWN), *_files(".py")]


def _lines(path: Path) -> int:
    return len((ROOT / path).read_text().splitlines())


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_the_rules_look_at_real_files():
    assert len(_python()) > 5
    assert Path("portal/settings.py") in _python()


def test_no_file_is_longer_than_one_idea():
    def most(path: Path) -> int:
        return TEST_FILE_LINES_MOST if path.parts[0] == "tests" else FILE_LINES_MOST

    sources = [*_python(), *_files(".html", ".js")]
    too_long = {str(path): _lines(path) for path in sources if _lines(path) >= most(path)}
    assert not too_long


def test_no_function_is_longer_than_a_screen():
    too_long = {
        f"{path}:{function.lineno} {function.name}": length
        for path in _python()
        if path.parts[0] != "tests"
        for function in _functions(path)
        if (length := (function.end_lineno or 0) - function.lineno + 1) >= FUNCTION_LINES_MOST
    }
    assert not too_long


def test_every_file_is_named_after_what_it_knows():
    nameless = [
        str(path)
        for path in [*_python(), *_files(".html", ".js", ".css")]
        if SAYS_NOTHING & {part.split(".")[0].lstrip("_") for part in path.parts}
    ]
    assert not nameless


def test_imports_stand_at_the_top_of_a_file():
    inner = [
        f"{path}:{node.lineno}"
        for path in _python()
        for function in _functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not inner


def test_no_error_is_swallowed():
    silent = [
        f"{path}:{node.lineno}"
        for path in _python()
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or getattr(node.type, "id", "") in {"Exception", "BaseException"})
        and all(isinstance(step, ast.Pass | ast.Continue) for step in node.body)
    ]
    assert not silent


def test_no_wait_swallows_its_own_end():
    """``asyncio.wait_for`` before Python 3.12 drops a cancellation that comes together with what it waits for: an agent
    told to stop went on for ever. ``asyncio.timeout`` does not."""
    waits = [
        f"{path}:{node.lineno}"
        for path in _python()
        if path.parts[0] != "tests"
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "wait_for" and getattr(node.value, "id", "") == "asyncio"
    ]
    assert not waits


def test_nothing_unfinished_is_left_in_the_sources():
    mark = re.compile(r"\b(TODO|FIXME|XXX)\b|NotImplementedError")
    here = Path(__file__).relative_to(ROOT)
    unfinished = [
        f"{path}:{number}"
        for path in [*_python(), *_files(".html", ".js", ".css", ".sh")]
        if path != here
        for number, line in enumerate((ROOT / path).read_text().splitlines(), start=1)
        if mark.search(line)
    ]
    assert not unfinished


def test_no_path_of_one_machine_is_written_down():
    documents = sorted(
        path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "Makefile"]
    )
    places = re.compile(r"(?<![\w.])/(home|root|work|Users)/\w")
    told = [
        f"{path}:{number}"
        for path in [*_python(), *_files(".html", ".js", ".css", ".sh"), *documents]
        for number, line in enumerate((ROOT / path).read_text().splitlines(), start=1)
        if places.search(line)
    ]
    assert not told


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "agents/requirements.txt"])
def test_every_requirement_is_pinned(name: str):
    wanted = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    loose = [
        line
        for line in wanted
        if line and not line.startswith("-r ") and not re.fullmatch(r"[\w.\[\],-]+==[\w.]+", line)
    ]
    assert wanted
    assert not loose


def test_the_agent_and_the_portal_pin_the_same_versions():
    def pins(name: str) -> dict[str, str]:
        lines = (ROOT / name).read_text().splitlines()
        return dict(line.split("==") for line in lines if "==" in line)

    portal, agent = pins("requirements.txt"), pins("agents/requirements.txt")
    assert {name: version for name, version in agent.items() if portal.get(name, version) != version} == {}
