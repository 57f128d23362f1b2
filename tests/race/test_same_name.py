"""Two admins press the button at once: one pool, and a sentence for the other."""

import pytest

from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Pool
from portal.inventory.services import create_pool

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_pool_is_created_once_and_the_others_are_told(race):
    def create(_: int) -> str:
        try:
            return create_pool(actor=None, name="H100 night").name
        except InventoryRefused:
            return "refused"

    assert sorted(race(create, 8)) == ["H100 night"] + ["refused"] * 7
    assert Pool.objects.filter(name="H100 night").count() == 1
