"""How numbers and times read: the same unit everywhere, the reader's zone and language, never a zero that was not."""

import datetime as dt
import zoneinfo

import pytest
from django.utils import timezone, translation
from psycopg2.extras import DateTimeTZRange, NumericRange

from portal.reservations.canvas import Frame
from portal.reservations.templatetags import berth_draw, berth_format

VIENNA = zoneinfo.ZoneInfo("Europe/Vienna")


def at(hour: int, minute: int = 0, days: int = 0) -> dt.datetime:
    """A local time of the reader, ``days`` from today."""
    today = timezone.localtime().replace(hour=hour, minute=minute, second=0, microsecond=0)
    return today + dt.timedelta(days=days)


@pytest.fixture(autouse=True)
def in_vienna():
    with timezone.override(VIENNA):
        yield


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 slice-h"), (1, "<0.01 slice-h"), (36, "0.01 slice-h"), (1800, "0.50 slice-h"), (3600, "1 slice-h"),
        (5400, "1.5 slice-h"), (43_200, "12 slice-h"), (44_444_440, "12,345.7 slice-h"),
    ],
)  # fmt: skip
def test_slice_hours_are_short_and_never_say_nothing_of_a_little(seconds, words):
    assert berth_format.slice_h(seconds) == words


def test_digits_are_grouped_in_chinese_too():
    with translation.override("zh-hant"):
        assert berth_format.slice_hours(44_444_440) == "12,345.7"


def test_what_cannot_be_measured_has_words_and_no_number():
    assert berth_format.percent(None) == "not measurable"
    assert berth_format.gib(None) == "not measurable"
    assert (berth_format.percent(0.0), berth_format.gib(10_035)) == ("0 %", "9.8 GiB")


def test_a_window_names_the_day_only_when_it_is_not_today():
    today = DateTimeTZRange(at(14, 45), at(18, 45))
    tomorrow = DateTimeTZRange(at(14, 45, 1), at(18, 45, 1))
    assert berth_format.window(today) == "14:45–18:45"
    assert berth_format.window(tomorrow).endswith(", 14:45–18:45")
    assert berth_format.window(DateTimeTZRange(at(20), at(20, days=3))).startswith("20:00 – ")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (45, "45 s"), (120, "2 min"), (8640, "2 h 24 min"), (7200, "2 h"), (273_600, "3 d 4 h"), (-5, "0 s")],
)
def test_a_length_has_at_most_two_units(seconds, words):
    assert berth_format.duration(seconds) == words


def test_slices_are_counted_as_people_count_them():
    assert berth_format.slices(NumericRange(4, 8)) == "slices 4–7"
    assert berth_format.slices(NumericRange(2, 3)) == "slice 2"


def test_a_share_is_a_percentage_within_its_whole():
    assert [berth_format.share(*pair) for pair in ((1, 4), (9, 4), (-1, 4), (1, 0))] == ["25%", "100%", "0%", "0%"]


def test_a_gap_in_a_series_lifts_the_pen():
    assert berth_draw.series([1.0, None, 3.5]) == "1,,3.5"
    assert berth_draw.series_path([0.0, None, 100.0], 100) == "M0.0 31.0h0M100.0 1.0h0"


def test_a_frame_places_times_in_percent_and_marks_full_hours():
    frame = Frame(at(6), at(18))
    assert (frame.x(at(9)), frame.width(at(9), at(12))) == ("25%", "25%")
    assert (frame.x(at(1)), frame.width(at(17), at(23))) == ("0%", "8.333%")
    assert [tick.label for tick in frame.ticks] == ["06:00", "08:00", "10:00", "12:00", "14:00", "16:00", "18:00"]
    assert [tick.strong for tick in Frame(at(18), at(6, days=1)).ticks].count(True) == 1
