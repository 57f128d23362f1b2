"""The table of field cases says what the markers say, and every case that counts now has a test that passed."""

import pytest

from tests.field_cases import DOCUMENT, NO_TEST, PASSED, document, known_cases, marked_tests, rows_of

NEEDED_NOW = {"R": "P0", "Q": "P0", "V": "V"}  # group -> the priority that must be proved


def _needed() -> list[str]:
    return [key for key, case in known_cases()[1].items() if NEEDED_NOW.get(case.group) == case.priority]


def test_every_marker_names_a_case_that_is_known():
    assert sorted(set(marked_tests()) - set(known_cases()[1])) == []


@pytest.mark.parametrize("case", _needed())
def test_a_case_that_counts_now_has_a_test(case):
    assert marked_tests().get(case), f"no test carries @pytest.mark.case({case!r})"


def test_the_document_names_exactly_the_tests_that_are_marked():
    told = {case: tests for case, (tests, _) in rows_of(DOCUMENT.read_text()).items()}
    marked = marked_tests()
    assert told == {case: marked.get(case, []) for case in known_cases()[1]}, "run `make field-cases`"


def test_in_the_document_every_case_that_counts_now_has_passed():
    outcomes = {case: outcome for case, (_, outcome) in rows_of(DOCUMENT.read_text()).items()}
    assert {case: outcomes[case] for case in _needed() if outcomes[case] != PASSED} == {}, "run `make field-cases`"


def test_a_skipped_test_counts_as_missing_and_a_failed_one_is_told():
    tests = {"R-01": ["tests/a.py::test_x", "tests/a.py::test_y"], "R-02": ["tests/a.py::test_z"]}
    told = rows_of(document(tests, {"tests/a.py::test_x": PASSED, "tests/a.py::test_z": PASSED}))
    assert told["R-01"] == (tests["R-01"], "skipped: counts as missing")
    assert told["R-02"] == (tests["R-02"], PASSED)
    assert told["R-04"] == ([], NO_TEST)
    assert rows_of(document(tests, {"tests/a.py::test_x": "failed"}))["R-01"][1] == "failed"
