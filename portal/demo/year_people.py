"""The tenants and people of the made-up year: four levels, 60 tenants, several time zones. Pure, seeded."""

import random
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from portal.demo.names import DOMAIN
from portal.tenants.models import Role

ROOT_NAME = "Northquay"
# Division -> (time zone, its teams); each team has two projects, the last one only one: 1 + 6 + 18 + 35 tenants.
DIVISIONS = {
    "earth-systems": ("Europe/Vienna", ("glaciers", "river-flow", "storm-surge")),
    "life-sciences": ("Europe/Berlin", ("bio-imaging", "protein-folding", "genomics")),
    "language": ("Asia/Taipei", ("translation", "speech", "retrieval")),
    "materials": ("America/New_York", ("batteries", "alloys", "catalysis")),
    "robotics": ("Australia/Lord_Howe", ("grasping", "navigation", "swarm")),
    "teaching": ("Pacific/Chatham", ("deep-learning-1", "deep-learning-2", "summer-school")),
}
PROJECTS = ("baseline", "frontier", "benchmarks", "prototype", "survey", "pilot")
# Names are put together from parts, so that they are nobody's.
STEMS = ("Al", "Ber", "Cor", "Dal", "Em", "Fen", "Gal", "Hal", "Il", "Jor", "Kel", "Lor", "Mar", "Nor", "Or", "Pel",
         "Quil", "Ras", "Sel", "Tor", "Ul", "Vel", "Wen", "Xan", "Yor", "Zel", "Åk", "Sø", "Él")  # fmt: skip
FIRST_ENDS = ("a", "en", "ik", "o", "ine", "us", "é", "ja", "wyn", "ri")
LAST_ENDS = ("berg", "brook", "dale", "fjord", "holm", "mark", "moor", "quay", "sen", "ström", "ward", "wick")
PEOPLE, FEWEST_PEOPLE = 400, 60
SHARE_DISABLED, SHARE_IN_TWO, SHARE_VIEWERS, SHARE_CHINESE = 0.02, 0.1, 0.06, 0.15


@dataclass(frozen=True)
class Team:
    """``parent`` is the position of the tenant above in the list, which begins with the root."""

    name: str
    parent: int | None
    level: int
    zone: str
    code: str
    hue: int


@dataclass(frozen=True)
class Person:
    """``roles`` are pairs of a position in the list of teams and a role there."""

    name: str
    email: str
    zone: str
    language: str
    active: bool
    roles: tuple[tuple[int, Role], ...]


def make_teams() -> list[Team]:
    """Every tenant after the one above it."""
    teams = [Team(ROOT_NAME, None, 0, "Europe/Vienna", "NQ", 1)]
    for number, (division, (zone, names)) in enumerate(DIVISIONS.items()):
        above = _add(teams, division, 0, zone, number + 1)
        for name in names:
            team = _add(teams, name, above, zone, number + 2)
            wanted = 1 if name == "summer-school" else 2
            for step in range(wanted):
                project = PROJECTS[(team + 3 * step) % len(PROJECTS)]
                _add(teams, f"{name}-{project}", team, zone, number + 3 + step)
    return teams


def _add(teams: list[Team], name: str, parent: int, zone: str, hue: int) -> int:
    words = name.split("-")
    code = (words[0][0] + (words[-1][0] if len(words) > 1 else name[1])).upper()
    teams.append(Team(name, parent, teams[parent].level + 1, zone, code, hue % 8 + 1))
    return len(teams) - 1


def make_people(teams: Sequence[Team], count: int, chance: random.Random) -> list[Person]:
    """``count`` people with different names. The leading roles are filled first, then every team and project."""
    posts = list(_leading_posts(teams))
    places = [number for number, team in enumerate(teams) if team.level >= 2]
    while len(posts) < count:
        role = Role.VIEWER if chance.random() < SHARE_VIEWERS else Role.MEMBER
        posts.append((places[len(posts) % len(places)], role))
    return [_person(name, post, teams, chance) for name, post in zip(_names(count, chance), posts[:count], strict=True)]


def _leading_posts(teams: Sequence[Team]) -> Iterator[tuple[int, Role]]:
    """Two admins and two viewers of everything, an admin or lead of each division, a lead of each team."""
    yield from ((0, Role.ADMIN), (0, Role.ADMIN), (0, Role.VIEWER), (0, Role.VIEWER))
    for number, team in enumerate(teams):
        if team.level == 1:
            yield number, Role.ADMIN if number % 2 else Role.LEAD
        if team.level == 2:
            yield number, Role.LEAD


def _names(count: int, chance: random.Random) -> list[str]:
    """Two of them may share a first or a last name, none both, nor an address of plain letters."""
    found: dict[str, str] = {}
    while len(found) < count:
        first, last = (chance.choice(STEMS) + chance.choice(ends) for ends in (FIRST_ENDS, LAST_ENDS))
        found.setdefault(_email(f"{first} {last}"), f"{first} {last}")
    return list(found.values())


def _person(name: str, post: tuple[int, Role], teams: Sequence[Team], chance: random.Random) -> Person:
    place, role = post
    roles = [post]
    if role == Role.MEMBER and chance.random() < SHARE_IN_TWO:
        other = chance.choice([number for number, team in enumerate(teams) if team.level == 3 and number != place])
        roles.append((other, Role.MEMBER))
    active = role in (Role.ADMIN, Role.LEAD) or chance.random() >= SHARE_DISABLED
    language = "zh-hant" if chance.random() < SHARE_CHINESE else "en"
    return Person(name, _email(name), teams[place].zone, language, active, tuple(roles))


def _email(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.lower().replace("ø", "o").replace(" ", "."))
    return f"{plain.encode('ascii', 'ignore').decode()}@{DOMAIN}"
