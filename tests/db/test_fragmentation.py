"""What is free but lies apart: the numbers on the fleet page and by the API, and the moves that would win more."""

import pytest
from django.utils import timezone

from portal.reservations.models import Lease, LeaseState, State
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_reservation, make_tenant, make_user, window

pytestmark = pytest.mark.django_db


@pytest.fixture
def org():
    return make_org()


def _planned(tenant, pool, places, hours_ahead=24):
    start = timezone.now() + hours_ahead * HOUR
    return make_reservation(tenant, pool, "1g.10gb", window(start, 4), places=places)


def _asked(client, user, pool, **query):
    client.force_login(user)
    return client.get(f"/api/v1/pools/{pool.pk}/fragmentation/", query)


def _tomorrow(hours=1):
    start = timezone.now() + 25 * HOUR
    return {"start": start.isoformat(), "end": (start + hours * HOUR).isoformat()}


def test_the_api_tells_what_layout_costs_and_which_planned_lease_would_move(client, org):
    pool = make_pool_with_gpus("H100", gpus=2)
    first, second = pool.gpus.order_by("index")
    _planned(org[1], pool, ((first, 0),))
    _planned(make_tenant("robotics", org[0]), pool, ((second, 0),))
    before = sorted(Lease.objects.values_list("pk", "gpu", "span"))
    told = _asked(client, make_user(tenant=org[1]), pool, profile="7g.80gb", **_tomorrow()).json()
    whole = next(room for room in told["profiles"] if room["profile"] == "7g.80gb")
    assert (whole["bookable"], whole["if_packed"], whole["lost"]) == (0, 1, 1)
    assert (told["slices"], told["free"], told["stranded"]) == (16, 14, 0)
    (move,) = told["plan"]["moves"]
    assert (told["plan"]["won"], told["plan"]["refusal"]) == (1, None)
    assert move["before"]["gpu"] != move["after"]["gpu"]
    assert sorted(Lease.objects.values_list("pk", "gpu", "span")) == before


def test_of_a_lease_that_may_not_be_seen_only_its_place_is_told(client, org):
    pool = make_pool_with_gpus("H100", gpus=2)
    for gpu in pool.gpus.all():
        _planned(org[1], pool, ((gpu, 0),))
    stranger = make_user(tenant=make_tenant("robotics", org[0]))
    (hidden,) = _asked(client, stranger, pool, profile="7g.80gb", **_tomorrow()).json()["plan"]["moves"]
    (seen,) = _asked(client, make_user(tenant=org[1]), pool, profile="7g.80gb", **_tomorrow()).json()["plan"]["moves"]
    assert (hidden["lease"], hidden["reservation"]) == (None, None)
    assert seen["lease"] and seen["reservation"]
    assert hidden["after"] == seen["after"]


def test_where_nothing_more_can_be_won_the_cause_is_told(client, org):
    pool = make_pool_with_gpus("H100", gpus=1)
    _planned(org[1], pool, ((pool.gpus.get(), 0),))
    plan = _asked(client, make_user(tenant=org[1]), pool, profile="7g.80gb", **_tomorrow()).json()["plan"]
    assert (plan["won"], plan["moves"]) == (0, [])
    assert plan["refusal"] == {"cause": "capacity", "fitting": 0, "if_packed": 0}


@pytest.mark.parametrize("query", [{"start": "2040-01-01T00:00:00Z"}, {"profile": "9g"}, {"more": 0}, {"more": 17}])
def test_what_cannot_be_asked_is_refused(client, org, query):
    pool = make_pool_with_gpus("H100", gpus=1)
    assert _asked(client, make_user(tenant=org[1]), pool, **query).status_code in (404, 422)


@pytest.mark.django_db(transaction=True)
def test_queries_are_few_of_a_pool_that_was_looked_at_before(client, org, django_assert_max_num_queries):
    pool = make_pool_with_gpus("H100", gpus=40)
    for gpu in pool.gpus.all():
        _planned(org[1], pool, ((gpu, 0),))
    asked = {"profile": "7g.80gb", **_tomorrow()}
    reader = make_user(tenant=org[1])
    _asked(client, reader, pool, **asked)
    with django_assert_max_num_queries(12):
        answer = client.get(f"/api/v1/pools/{pool.pk}/fragmentation/", asked)
    assert answer.json()["plan"]["won"] == 1


def test_the_fleet_page_says_what_is_lost_because_leases_lie_apart(client, org):
    pool = make_pool_with_gpus("H100", gpus=2)
    for gpu in pool.gpus.all():
        make_reservation(
            org[1], pool, "1g.10gb", window(timezone.now() - HOUR, 4), places=((gpu, 0),),
            state=State.RUNNING, lease_state=LeaseState.ACTIVE)  # fmt: skip
    client.force_login(make_user(tenant=org[1]))
    answer = client.get("/fleet/")
    (broken,) = answer.context["broken"]
    assert (broken.worst.shape.name, broken.worst.lost) == ("7g.80gb", 1)
    assert "1 more 7g.80gb would fit if leases lay closer" in answer.content.decode()


def test_a_fleet_with_nothing_lost_says_nothing(client, org):
    make_pool_with_gpus("H100", gpus=2)
    client.force_login(make_user(tenant=org[1]))
    answer = client.get("/fleet/")
    assert answer.context["broken"] == []
    assert "h-broken" not in answer.content.decode()
