"""Weights are versioned: a new one counts for what is booked from then on, and no old price or report changes."""

import datetime as dt

import pytest
from django.apps import apps
from django.db import models
from django.utils import timezone

from agents.drivers.simulator.models import load_models
from agents.protocol import GpuFact, ProfileFact
from portal.audit.models import AuditEntry
from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Profile, ProfileWeight
from portal.inventory.profiles import record_profiles
from portal.inventory.weights import WEIGHT_MOST, set_weight, weights_listed
from portal.ledger.sums import sum_up
from portal.quotas.models import Period
from portal.reports.periods import Choice, Span
from portal.reports.usage import usage_of
from portal.reservations.models import LeaseState, Reservation, State
from portal.reservations.selectors import peak_weight_held
from portal.reservations.spending import budget_statuses_during
from portal.tenants.models import Role
from tests.factories import (
    HOUR,
    make_budget,
    make_org,
    make_pool_with_gpus,
    make_reservation,
    make_user,
    profile_of,
    record,
    window,
)

pytestmark = pytest.mark.django_db
NOON = dt.datetime(2026, 3, 10, 12, tzinfo=dt.UTC)
UTC = dt.UTC


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def pool():
    return make_pool_with_gpus("H100", gpus=2)


@pytest.fixture
def admin(org):
    return make_user("ada", org[0], Role.ADMIN)


def test_a_new_weight_is_a_row_more_and_in_the_audit_trail(pool, admin):
    profile = profile_of(pool, "1g.10gb")
    assert set_weight(actor=admin, profile=profile, weight=5).weight == 5
    newest = ProfileWeight.objects.filter(profile=profile).first()
    assert (newest.weight, newest.set_by) == (5, admin)
    entry = AuditEntry.objects.get(action="profile.weight_set")
    assert (entry.actor, entry.before, entry.after) == (admin, {"weight": 1}, {"weight": 5})
    assert entry.subject.endswith("1g.10gb")


def test_the_same_weight_again_changes_nothing(pool, admin):
    profile = profile_of(pool, "1g.10gb")
    set_weight(actor=admin, profile=profile, weight=profile.weight)
    assert not ProfileWeight.objects.filter(profile=profile).exists()
    assert not AuditEntry.objects.filter(action="profile.weight_set").exists()


@pytest.mark.parametrize("weight", [0, -1, WEIGHT_MOST + 1, 2**31])
def test_a_weight_out_of_range_is_refused(pool, admin, weight):
    with pytest.raises(InventoryRefused, match="1 to 1000"):
        set_weight(actor=admin, profile=profile_of(pool, "1g.10gb"), weight=weight)


def test_who_is_no_platform_admin_sets_no_weight(org, pool):
    for person in (make_user(tenant=org[0], role=Role.LEAD), make_user(tenant=org[1], role=Role.ADMIN)):
        with pytest.raises(InventoryRefused):
            set_weight(actor=person, profile=profile_of(pool, "1g.10gb"), weight=3)
    assert profile_of(pool, "1g.10gb").weight == 1


def held(tenant, pool, start=NOON, state=State.ENDED):
    """3 h of a 2g.20gb, with its ledger rows."""
    made = make_reservation(tenant, pool, "2g.20gb", window(start, 3), places=((pool.gpus.first(), 0),), state=state,
                            lease_state=LeaseState.ENDED)  # fmt: skip
    record(made.leases.get(), "opened", start)
    record(made.leases.get(), "closed", start + 3 * HOUR)
    return made


def test_an_old_price_and_an_old_report_keep_the_weight_of_their_time(org, pool, admin):
    root, team, _project = org
    make_budget(team, 1000 * 3600, Period.YEAR)
    made, later = held(team, pool), NOON + dt.timedelta(days=20)
    span = Span(Choice.CUSTOM, NOON.date(), NOON.date(), UTC)

    def seen():
        status = budget_statuses_during(team, NOON, NOON + HOUR, later)[0]
        return usage_of(team, span, later).total.running, status.spent, Reservation.objects.get().price_slice_seconds

    before = seen()
    assert before == (2 * 3 * 3600,) * 3
    set_weight(actor=admin, profile=made.profile, weight=7)
    assert seen() == before
    sum_up(later)
    assert seen() == before
    held(team, pool, NOON + 5 * HOUR)
    assert budget_statuses_during(team, NOON, NOON + HOUR, later)[0].spent == (2 + 7) * 3 * 3600


@pytest.mark.case("Q-06")
def test_a_quota_counts_by_the_weight_that_was_booked(org, pool, admin):
    _root, team, _project = org
    for start, weight in ((0, 2), (2, 7)):
        set_weight(actor=admin, profile=profile_of(pool, "2g.20gb"), weight=weight)
        make_reservation(team, pool, "2g.20gb", window(NOON, 2), places=((pool.gpus.first(), start),))
    assert peak_weight_held(team, pool, window(NOON, 1)) == 2 + 7


@pytest.mark.case("Q-06")
def test_no_amount_is_a_fraction_in_the_database():
    fractions = (models.FloatField, models.DecimalField)
    found = [
        f"{model.__name__}.{field.name}"
        for app in ("ledger", "quotas", "reservations", "inventory")
        for model in apps.get_app_config(app).get_models()
        for field in model._meta.get_fields()
        if isinstance(field, fractions)
    ]
    assert not found


def report_of_an_agent(name: str = "H100-80GB") -> GpuFact:
    facts = load_models()[name]
    profiles = tuple(
        ProfileFact(
            profile_id=shape.profile_id, name=shape.name, size=shape.spans[0][1],
            starts=tuple(start for start, _ in shape.spans), compute_slices=shape.slices,
            memory_mib=shape.memory_mib, max_count=shape.max_count)
        for shape in facts.profiles
    )  # fmt: skip
    return GpuFact(
        uuid="GPU-1", index=0, model=facts.product, memory_mib=facts.memory_mib, memory_slices=facts.memory_slices,
        compute_slices=facts.compute_slices, mig_capable=True, mig_enabled=True, profiles=profiles)  # fmt: skip


def test_a_profile_that_is_reported_begins_its_history_and_a_set_weight_is_not_touched(admin):
    pool = make_pool_with_gpus("H100", gpus=1)
    node = pool.nodes.get()
    Profile.objects.all().delete()
    record_profiles(node, [report_of_an_agent()])
    first = profile_of(pool, "3g.40gb")
    assert [(one.weight, one.set_by) for one in first.weights.all()] == [(3, None)]
    set_weight(actor=admin, profile=first, weight=4)
    record_profiles(node, [report_of_an_agent()])
    assert profile_of(pool, "3g.40gb").weight == 4
    assert [one.weight for one in first.weights.all()] == [4, 3]


def test_the_page_of_a_pool_shows_and_sets_weights(client, pool, admin):
    client.force_login(admin)
    profile, path = profile_of(pool, "1g.10gb"), f"/nodes/pools/{pool.pk}/"
    answer = client.post(f"{path}weights/{profile.pk}/", {"weight": "3"})
    assert (answer.status_code, answer.url) == (302, path)
    page = client.get(path).content.decode()
    assert "1g.10gb weighs 3 from now on." in page
    assert "Weight of 1g.10gb" in page
    row = next(one for one in weights_listed(pool) if one.profile == profile)
    assert [(one.weight, str(one.set_by)) for one in row.history] == [(3, "ada")]


@pytest.mark.parametrize("typed", ["0", "1.5", "", "NaN", "9999999999999", "-1", "x"])
def test_a_weight_that_makes_no_sense_leaves_the_line_open_with_a_sentence(client, pool, admin, typed):
    client.force_login(admin)
    answer = client.post(f"/nodes/pools/{pool.pk}/weights/{profile_of(pool, '1g.10gb').pk}/", {"weight": typed})
    assert answer.status_code == 422
    assert 'id="weight-err"' in answer.content.decode()
    assert profile_of(pool, "1g.10gb").weight == 1


def test_a_profile_of_another_model_is_not_found_here(client, pool, admin):
    client.force_login(admin)
    other = profile_of(make_pool_with_gpus("A100", gpus=1), "1g.10gb")
    assert client.post(f"/nodes/pools/{pool.pk}/weights/{other.pk}/", {"weight": "3"}).status_code == 404


def test_the_page_asks_no_more_of_the_database_for_a_longer_history(client, pool, admin, django_assert_max_num_queries):
    client.force_login(admin)
    for number in range(200):
        ProfileWeight.objects.create(
            profile=profile_of(pool, "1g.10gb"), weight=1 + number, set_by=admin, since=timezone.now()
        )
    with django_assert_max_num_queries(12):
        assert client.get(f"/nodes/pools/{pool.pk}/").status_code == 200
