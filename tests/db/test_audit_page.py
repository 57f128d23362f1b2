"""The audit log: who sees which entries, filters, pages, the export and the API."""

import csv
import datetime as dt
import io

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.services import create_token
from portal.audit.models import AuditEntry
from portal.audit.sealing import seal_entries
from portal.audit.selectors import Wanted, entries_matching
from portal.reports import audit_csv
from portal.tenants.models import Role
from tests.factories import make_org, make_user

pytestmark = pytest.mark.django_db
NOW = dt.datetime(2026, 3, 9, 12, tzinfo=dt.UTC)


def write(action="pool.changed", subject="H100", at=None, **fields) -> AuditEntry:
    entry = AuditEntry(action=action, subject=subject, **fields)
    AuditEntry.objects.bulk_create([entry])
    if at is not None:
        with connection.cursor() as cursor:  # the column is filled with the moment of writing
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("ALTER TABLE audit_auditentry DISABLE TRIGGER audit_append_only_rows")
            cursor.execute("UPDATE audit_auditentry SET at = %s WHERE id = %s", [at, entry.pk])
            cursor.execute("ALTER TABLE audit_auditentry ENABLE TRIGGER audit_append_only_rows")
    return entry


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def admin(client, org):
    admin = make_user("ada", org[0], Role.ADMIN)
    client.force_login(admin)
    return admin


def ids(answer) -> list[int]:
    return [row.entry.pk for row in answer.context["rows"]]


def lines(answer) -> list[dict]:
    return list(csv.DictReader(io.StringIO(b"".join(answer).decode())))


def test_a_lead_sees_their_subtree_and_a_platform_admin_all(client, org):
    root, team, project = org
    mine, below = write(tenant=team), write(tenant=project)
    above, nobodys = write(tenant=root), write()
    client.force_login(make_user("lead", team, Role.LEAD))
    assert ids(client.get("/audit/")) == [below.pk, mine.pk]
    assert [row["id"] for row in lines(client.get("/audit/?format=csv"))] == [str(below.pk), str(mine.pk)]
    assert ids(client.get("/audit/", {"tenant": project.pk})) == [below.pk]
    assert client.get("/audit/", {"tenant": root.pk}).status_code == 404
    client.force_login(make_user("admin", root, Role.ADMIN))
    assert ids(client.get("/audit/")) == [nobodys.pk, above.pk, below.pk, mine.pk]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, None])
def test_who_leads_nothing_finds_no_such_page_and_no_way_to_it(client, org, role):
    client.force_login(make_user("ann", org[1] if role else None, role or Role.MEMBER))
    assert client.get("/audit/").status_code == client.get("/audit/?format=csv").status_code == 404
    assert 'href="/audit/"' not in client.get("/").content.decode()


def test_a_lead_finds_the_way_to_it(client, org):
    client.force_login(make_user("lead", org[1], Role.LEAD))
    assert 'href="/audit/"' in client.get("/").content.decode()


def test_each_filter_leaves_what_matches(client, admin, org):
    ann = make_user("ann-lindqvist")
    one = write("reservation.booked", "R-17", actor=ann, tenant=org[2], via="api", at=NOW)
    two = write("node.silent", "quay-01", via="sweep", at=NOW + dt.timedelta(days=2))
    for asked, wanted in [
        ({}, [two, one]), ({"who": "LINDQ"}, [one]), ({"who": ann.email}, [one]), ({"group": "node"}, [two]),
        ({"tenant": org[1].pk}, [one]), ({"subject": "r-1"}, [one]), ({"via": "sweep"}, [two]),
        ({"until": "2026-03-09"}, [one]), ({"since": "2026-03-10"}, [two]), ({"since": "2026-03-12"}, []),
        ({"who": "ann", "group": "node"}, []), ({"subject": "%"}, []),
    ]:  # fmt: skip
        assert ids(client.get("/audit/", asked)) == [entry.pk for entry in wanted], asked
        assert [int(row["id"]) for row in lines(client.get("/audit/", {**asked, "format": "csv"}))] == [
            entry.pk for entry in wanted
        ]


def test_days_are_those_of_the_reader(client, admin):
    admin.time_zone = "Asia/Taipei"
    admin.save()
    late = write(at=dt.datetime(2026, 3, 9, 16, 30, tzinfo=dt.UTC))  # the tenth, half past midnight there
    assert ids(client.get("/audit/", {"since": "2026-03-10", "until": "2026-03-10"})) == [late.pk]
    assert ids(client.get("/audit/", {"until": "2026-03-09"})) == []


@pytest.mark.parametrize("asked", [
    {"since": "yesterday"}, {"since": "0001-01-01"}, {"until": "9999-12-31"}, {"group": "x"}, {"via": "x"},
    {"who": "a\0b"}, {"who": "x" * 101}, {"since": "2026-03-10", "until": "2026-03-09"},
])  # fmt: skip
def test_a_filter_that_makes_no_sense_is_said_so(client, admin, asked):
    write()
    answer = client.get("/audit/", asked)
    assert answer.status_code == 422
    assert "Nothing is filtered." in answer.content.decode()
    assert client.get("/audit/", {**asked, "format": "csv"}).status_code == 422


@pytest.mark.parametrize("tenant", ["x", "0", "999999999999999999999", "-1"])
def test_a_tenant_that_is_none_is_not_found(client, admin, tenant):
    assert client.get("/audit/", {"tenant": tenant}).status_code == 404


def test_pages_go_on_where_the_last_ended_and_keep_the_filter(client, admin):
    AuditEntry.objects.bulk_create(AuditEntry(action="pool.changed", subject=f"H100 {n}") for n in range(100))
    write("node.silent", "quay-01")
    seen, address = [], "/audit/?group=pool"
    while address:
        answer = client.get(address)
        seen += ids(answer)
        older = answer.context["older"]
        address = f"/audit/?{answer.context['query']}&before={older}" if older else ""
        if older:
            assert f'href="?group=pool&amp;before={older}"' in answer.content.decode()
            write("pool.changed", "H100 new")  # what is added meanwhile moves nothing
    assert seen == sorted(AuditEntry.objects.filter(subject__regex=r"^H100 \d").values_list("pk", flat=True))[::-1]


def test_a_row_says_in_words_who_what_and_what_was_before_and_after(client, admin):
    person = make_user("grace")
    write("member.role_set", f"user {person.pk}", actor=admin, via="page", address="203.0.113.9",
          before={"role": "member"}, after={"role": "<b>lead</b>", "many": [1, 2]})  # fmt: skip
    write("unheard.of", "x")
    seal_entries()
    body = client.get("/audit/").content.decode()
    for text in ("Role given", "member.role_set", "203.0.113.9", "<td>grace</td>", "&lt;b&gt;lead&lt;/b&gt;",
                 "[1, 2]", "<td>member</td>", "<code>unheard.of</code>", "sealed up to 2", admin.email):  # fmt: skip
        assert text in body, text
    assert "<b>lead" not in body


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_queries_do_not_grow_with_entries(client, admin, org, rows, django_assert_max_num_queries):
    people = [make_user(f"p{n}") for n in range(min(rows, 60))]
    AuditEntry.objects.bulk_create(
        AuditEntry(action="member.role_set", subject=f"user {people[n % len(people)].pk}", tenant=org[n % 3],
                   actor=people[n % len(people)]) for n in range(rows)
    )  # fmt: skip
    seal_entries()
    with django_assert_max_num_queries(12):
        assert client.get("/audit/").status_code == 200
    with django_assert_max_num_queries(8):
        assert client.get("/api/v1/audit/?limit=200").status_code == 200


def test_an_export_is_safe_for_spreadsheets_and_tells_the_place_in_the_chain(client, admin, org):
    evil = make_user("=cmd|' /C calc'!A0")
    write("pool.changed", "@SUM(1+1)", actor=evil, after={"a": 'ü, "x"\n'}, tenant=org[0])
    seal_entries()
    answer = client.get("/audit/?format=csv")
    assert answer["Content-Disposition"] == f'attachment; filename="audit-{timezone.now():%Y-%m-%d}.csv"'
    (row,) = lines(answer)
    assert row["actor"].startswith("'=") and row["subject"] == "'@SUM(1+1)"
    assert (row["position"], row["tenant"], row["after"]) == ("1", "northquay", '{"a": "ü, \\"x\\"\\n"}')
    assert dt.datetime.fromisoformat(row["at"]).utcoffset() == dt.timedelta(0)


def test_an_export_reads_page_by_page_while_it_is_sent(monkeypatch):
    monkeypatch.setattr(audit_csv, "ROWS_AT_ONCE", 10)
    AuditEntry.objects.bulk_create(AuditEntry(action="pool.changed", subject=f"{n}") for n in range(25))

    async def take(pieces: int) -> list[str]:
        written = audit_csv.audit_lines(entries_matching(AuditEntry.objects.all(), Wanted()))
        return [piece async for _, piece in _numbered(written, pieces)]

    with CaptureQueriesContext(connection) as asked:
        assert len(async_to_sync(take)(2)) == 2
    assert len(asked) == 1
    pieces = async_to_sync(take)(99)
    assert [piece.count("\r\n") for piece in pieces] == [1, 10, 10, 5]


async def _numbered(pieces, most: int):
    number = 0
    async for piece in pieces:
        yield number, piece
        number += 1
        if number == most:
            return


def test_the_api_tells_the_same_with_the_same_filters(client, admin, org):
    one = write("reservation.booked", "R-17", actor=admin, tenant=org[2], via="api", address="203.0.113.9",
                after={"ranks": 1}, at=NOW)  # fmt: skip
    seal_entries()
    two = write("node.silent", "quay-01", via="sweep", at=NOW + dt.timedelta(days=2))
    found = client.get("/api/v1/audit/").json()["results"]
    assert [entry["id"] for entry in found] == [two.pk, one.pk]
    assert found[0]["actor"] is found[0]["tenant"] is found[0]["position"] is None
    assert found[1] | {"hash": ""} == {
        "id": one.pk, "at": "2026-03-09T12:00:00Z", "actor": {"id": admin.pk, "name": "ada"},
        "tenant": {"id": org[2].pk, "name": "segmentation"}, "action": "reservation.booked", "subject": "R-17",
        "before": {}, "after": {"ranks": 1}, "via": "api", "address": "203.0.113.9", "position": 1, "hash": "",
    }  # fmt: skip
    for asked, wanted in [
        ({"actor": admin.pk}, [one]), ({"group": "node"}, [two]), ({"action": "node.silent"}, [two]),
        ({"tenant": org[1].pk}, [one]), ({"subject": "r-1"}, [one]), ({"via": "api"}, [one]),
        ({"since": "2026-03-10T00:00:00Z"}, [two]), ({"until": "2026-03-09T12:00:00Z"}, []), ({"limit": 1}, [two]),
    ]:  # fmt: skip
        results = client.get("/api/v1/audit/", asked).json()["results"]
        assert [entry["id"] for entry in results] == [entry.pk for entry in wanted], asked


def test_the_api_is_not_there_for_who_leads_nothing_and_refuses_nonsense(client, org):
    _, text = create_token(person=make_user("ann", org[1]), name="script", days=1)
    assert client.get("/api/v1/audit/", headers={"Authorization": f"Bearer {text}"}).status_code == 404
    _, text = create_token(person=make_user("lead", org[1], Role.LEAD), name="script", days=1)
    as_lead = {"Authorization": f"Bearer {text}"}
    assert client.get("/api/v1/audit/", headers=as_lead).status_code == 200
    assert client.get("/api/v1/audit/", {"tenant": org[0].pk}, headers=as_lead).status_code == 404
    for wrong in ({"since": "2026-03-10"}, {"group": "x"}, {"subject": "a\0"}, {"actor": "x"}, {"limit": 0}):
        assert client.get("/api/v1/audit/", wrong, headers=as_lead).status_code in (200, 422), wrong
    assert client.get("/api/v1/audit/", {"since": "2026-03-10"}, headers=as_lead).status_code == 422
