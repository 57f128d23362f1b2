"""Later ends are looked at without a query for each, and come to what the change itself comes to."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.quotas.policy_changes import set_policy
from portal.reservations.extending import Tries
from portal.reservations.models import LIVE, Maintenance, Reservation
from portal.reservations.trying import Outcome, free_until, outcome_of
from portal.reservations.views.change import RELATED
from tests.db.house import House, span
from tests.factories import HOUR, make_budget, make_quota, make_tenant, make_user

pytestmark = pytest.mark.django_db
HOURS = (1, 2, 4, 30)


def nobody_near(house: House):
    make_budget(house.team, 1000 * 3600)
    return house.run(house.book("4g.40gb", start=house.now))


def somebody_follows_what_runs(house: House):
    running = house.run(house.book("4g.40gb", start=house.now))
    house.book("7g.80gb", start=running.ends_at + 3 * HOUR, ranks=2)
    return running


def there_is_another_place(house: House):
    mine = house.book("7g.80gb")
    house.book("7g.80gb", start=mine.ends_at + HOUR)
    house.book("7g.80gb", start=mine.ends_at + 3 * HOUR, ranks=2)
    return mine


def the_quota_is_full_later(house: House):
    mine = house.book("3g.40gb")
    house.quota.limit = 8
    house.quota.save()
    house.book("7g.80gb", start=mine.ends_at + HOUR)
    return mine


def the_budget_pays_little_more(house: House):
    make_budget(house.team, 3 * 3600)
    return house.book("1g.10gb")


def a_policy_bounds_the_window(house: House):
    set_policy(actor=house.admin, tenant=house.team, longest_window_seconds=3 * 3600)
    return house.book("1g.10gb")


def a_lead_would_be_asked(house: House):
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=3 * 3600)
    return house.book("1g.10gb")


def the_person_holds_enough_later(house: House):
    set_policy(actor=house.admin, tenant=house.team, most_weight_each=4)
    mine = house.book("3g.40gb")
    house.book("1g.10gb", start=mine.ends_at + 2 * HOUR)
    return mine


def the_node_is_out_of_service_later(house: House):
    running = house.run(house.book("4g.40gb", start=house.now))
    Maintenance.objects.create(
        during=span(running.ends_at + 2 * HOUR, 3), reason="New driver", created_by=house.admin
    )
    return running


def others_borrow_there(house: House):
    other = make_tenant("other", house.root)
    for tenant, guaranteed in ((house.team, 16), (other, 0)):
        make_quota(tenant, house.pool, 16, guaranteed=guaranteed)
    mine = house.book("7g.80gb")
    house.book("7g.80gb", start=mine.ends_at, ranks=2, hours=3, tenant=other, owner=make_user(tenant=other))
    return mine


def mine_is_borrowed(house: House):
    make_quota(house.team, house.pool, 16, guaranteed=2)
    return house.book("4g.40gb")


SITUATIONS = (
    nobody_near, somebody_follows_what_runs, there_is_another_place, the_quota_is_full_later,
    the_budget_pays_little_more, a_policy_bounds_the_window, a_lead_would_be_asked, the_person_holds_enough_later,
    the_node_is_out_of_service_later, others_borrow_there, mine_is_borrowed,
)  # fmt: skip


def shown(outcome: Outcome) -> tuple:
    refusal = outcome.refusal and (outcome.refusal.code, str(outcome.refusal))
    budget = outcome.budget and outcome.budget.tenant
    return outcome.during, refusal, outcome.borrowed, outcome.extra, budget, outcome.left_after, outcome.moves


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_what_is_seen_of_a_later_end_is_what_the_change_comes_to(situation):
    house = House(gpus=2)
    mine = Reservation.objects.select_related(*RELATED).get(pk=situation(house).pk)
    tries = Tries(mine, list(mine.leases.filter(state__in=LIVE)), house.owner, leads=False, known_member=True)
    assert tries.free_until == free_until(mine)
    windows = [span(mine.starts_at, mine.planned_seconds / 3600 + more) for more in HOURS]
    with CaptureQueriesContext(connection) as asked:
        seen = [shown(tries.outcome(during)) for during in windows]
    assert seen == [shown(outcome_of(mine, during, house.owner)) for during in windows]
    assert bool(asked) == (situation is others_borrow_there), "only there the change itself is tried"


def test_the_page_asks_twelve_queries_and_takes_no_lock():
    house = House(gpus=2)
    mine = somebody_follows_what_runs(house)
    client = Client()
    client.force_login(house.owner)
    client.get("/")
    with CaptureQueriesContext(connection) as asked:
        assert client.get(f"/reservations/{mine.number}/change/").status_code == 200
    assert len(asked) <= 12
    assert not any("FOR NO KEY UPDATE" in query["sql"] for query in asked.captured_queries)
