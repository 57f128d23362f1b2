"""When people of the made-up year hold GPUs: office hours, nights and weekends of their own zone. Pure, seeded."""

import datetime as dt
import random
import zoneinfo

DAYS_BACK, DAYS_AHEAD = 365, 28
WEEKEND_SHARE = 0.3
GROWTH = 0.6  # the last day of the year sees so much more than the first
STEP = dt.timedelta(minutes=5)
# Share of all, earliest and latest hour of the day it starts, shortest and longest in hours.
OFFICE, NIGHT, LONG = (0.58, 8, 15, 0.5, 8), (0.32, 17, 22, 8, 15), (0.10, 9, 20, 24, 110)


def window_for(zone: str, now: dt.datetime, chance: random.Random) -> tuple[dt.datetime, dt.datetime]:
    """Between a year ago and four weeks ahead, in whole steps of five minutes."""
    _, earliest, latest, shortest, longest = chance.choices((OFFICE, NIGHT, LONG), (OFFICE[0], NIGHT[0], LONG[0]))[0]
    day = _day(now.date(), chance)
    hour = dt.timedelta(minutes=5 * chance.randint(12 * earliest, 12 * latest))
    local = dt.datetime.combine(day, dt.time.min, tzinfo=zoneinfo.ZoneInfo(zone)) + hour
    start = local.astimezone(dt.UTC)
    # More short windows than long ones.
    hours = shortest + (longest - shortest) * chance.random() ** 1.7
    return start, start + max(STEP, STEP * int(hours * 12))


def _day(today: dt.date, chance: random.Random) -> dt.date:
    """A day ahead is the rarer, the farther; weekends and the turn of the year are quiet."""
    while True:
        number = chance.randint(-DAYS_BACK, DAYS_AHEAD)
        day = today + dt.timedelta(days=number)
        share = 0.5 + 0.5 * GROWTH * (number + DAYS_BACK) / DAYS_BACK if number <= 0 else 0.8 * 0.86**number
        if day.weekday() >= 5:
            share *= WEEKEND_SHARE
        if (day.month, day.day) >= (12, 24) or (day.month, day.day) <= (1, 2):
            share *= 0.2
        if chance.random() < share:
            return day


def asked_before(start: dt.datetime, now: dt.datetime, chance: random.Random) -> dt.datetime:
    """When it was asked for: mostly hours before, sometimes weeks, and before now."""
    ahead = dt.timedelta(minutes=min(40 * 1440, chance.lognormvariate(6.3, 1.4)) + 2)
    return min(start - ahead, now - dt.timedelta(minutes=chance.randint(1, 600))).replace(microsecond=0)
