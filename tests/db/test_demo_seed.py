"""The demo's organisation: complete, and the same after a second time."""

import pytest
from django.apps import apps
from django.contrib.auth import authenticate

from portal.accounts.models import User
from portal.demo.names import RESEARCHER_EMAIL, RESEARCHER_TENANT
from portal.demo.organisation import PEOPLE
from portal.demo.seed import seed_organisation
from portal.tenants.models import ROLE_RANK, Membership, Role, Tenant
from portal.tenants.selectors import is_platform_admin, tenants_of

pytestmark = pytest.mark.django_db


def _row_counts() -> dict[str, int]:
    models = [model for model in apps.get_models() if model.__module__.startswith("portal.")]
    return {model.__name__: model.objects.count() for model in models}


def test_seeding_twice_changes_nothing():
    accounts = seed_organisation("first-password")
    once = _row_counts()
    assert seed_organisation("first-password") == accounts
    assert _row_counts() == once
    assert once["Tenant"] == 7


def test_every_role_has_somebody_who_can_sign_in():
    seed_organisation("a-password")
    assert {membership.role for membership in Membership.objects.all()} == set(ROLE_RANK)
    for person in PEOPLE:
        assert User.objects.get(email=person.email).check_password("a-password")


def test_another_password_at_a_later_start_is_the_one_that_counts():
    seed_organisation("old-password")
    seed_organisation("new-password")
    assert authenticate(username=RESEARCHER_EMAIL, password="new-password") is not None
    assert authenticate(username=RESEARCHER_EMAIL, password="old-password") is None


def test_the_researcher_that_others_rely_on_is_a_member_there():
    seed_organisation("a-password")
    assert Membership.objects.get(user__email=RESEARCHER_EMAIL, tenant__name=RESEARCHER_TENANT).role == Role.MEMBER


def test_paths_follow_the_tree_and_roles_reach_down():
    seed_organisation("a-password")
    segmentation = Tenant.objects.get(name="segmentation")
    assert [Tenant.objects.get(pk=pk).name for pk in segmentation.ancestor_ids] == [
        "Northquay",
        "vision-lab",
        "segmentation",
    ]
    lead = User.objects.get(email="lin@northquay.example")
    assert segmentation in tenants_of(lead, Role.LEAD)
    assert is_platform_admin(User.objects.get(email="ada@northquay.example"))
    assert not is_platform_admin(lead)
