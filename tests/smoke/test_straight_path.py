"""`make smoke` as a test, with its targets."""

import pytest

from tests.smoke.walk import walk

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
RUNNING_SECONDS_MOST, SAMPLE_SECONDS_MOST = 5.0, 2.0


def test_the_straight_path_can_be_walked_within_its_targets(place, capsys):
    report = walk(place)
    told = capsys.readouterr().out
    assert report.all_passed, told
    assert max(report.running_seconds) <= RUNNING_SECONDS_MOST, told
    assert max(report.sample_seconds) <= SAMPLE_SECONDS_MOST, told


def test_a_wrong_password_fails_the_walk_at_its_first_step(place, capsys):
    report = walk(type(place)(place.url, place.email, "not the password", place.home))
    assert not report.all_passed
    assert report.passed == 0
    assert "FAILED" in capsys.readouterr().out
