"""The command that fills an empty Berth with a year: the same for the same seed, and never over what is there."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from portal.accounts.models import User
from portal.demo.year import seed_year
from portal.reservations.models import UNDER_WAY, Reservation
from portal.tenants.models import Tenant
from tests.factories import make_org

pytestmark = pytest.mark.django_db
SCALE = 0.01


def test_the_same_seed_gives_the_same_year_and_another_gives_another():
    now = timezone.now()

    def told(seed: int) -> list[tuple]:
        with connection.cursor() as cursor:
            cursor.execute("SAVEPOINT empty")
            seed_year(seed=seed, scale=SCALE, now=now)
            fields = ("owner__email", "tenant__name", "pool__name", "during", "state", "leases__span")
            rows = list(Reservation.objects.order_by("pk", "leases__rank").values_list(*fields))
            cursor.execute("ROLLBACK TO SAVEPOINT empty")
        return rows

    first, again, other = told(5), told(5), told(6)
    assert first == again != other


def test_an_organisation_that_is_there_is_left_alone():
    make_org()
    with pytest.raises(CommandError, match="has an organisation already"):
        call_command("seed_year", scale=SCALE)
    assert Tenant.objects.count() == 3


def test_a_scale_that_is_none_is_refused_with_words():
    with pytest.raises(CommandError, match="above 0"):
        call_command("seed_year", scale=-1)


def test_everybody_signs_in_with_the_password_that_was_given():
    call_command("seed_year", scale=SCALE, password="a-long-password")
    assert all(user.check_password("a-long-password") for user in User.objects.all()[:2])
    assert Reservation.objects.filter(state__in=UNDER_WAY).exists()
