"""Whose a row is stands in the row: by a foreign key to its tenant, or to the row that it is a part of."""

from django.apps import apps
from django.db.models import ForeignKey, Model

from portal.tenants.models import Tenant

# Of the whole platform, or of one person wherever they work; each a choice that somebody made.
OF_NO_TENANT = {
    "accounts.User", "accounts.ApiToken", "audit.AuditEntry", "inventory.EnrolmentToken", "inventory.Gpu",
    "inventory.Node", "inventory.Pool", "inventory.Profile", "inventory.ProfileWeight", "ledger.SumBatch",
    "notices.Delivery", "notices.Notice",
    "notices.NoticePreference", "reservations.IdempotencyKey", "reservations.Maintenance",
    "reservations.CalendarFeed", "reservations.ChangeMark", "reservations.QuarantinedEvent", "tenants.Tenant",
    "audit.AuditSeal",
}  # fmt: skip


def says_whose_it_is(model: type[Model], above: tuple[type[Model], ...] = ()) -> bool:
    needed = [field for field in model._meta.fields if isinstance(field, ForeignKey) and not field.null]
    parents = [field.related_model for field in needed if field.related_model not in (model, *above)]
    return Tenant in parents or any(
        says_whose_it_is(parent, (model, *above)) for parent in parents if parent._meta.label not in OF_NO_TENANT
    )


def own_models() -> list[type[Model]]:
    return [model for model in apps.get_models() if model.__module__.startswith("portal.")]


def test_every_model_says_by_a_foreign_key_whose_it_is():
    silent = {model._meta.label for model in own_models() if not says_whose_it_is(model)}
    assert silent == OF_NO_TENANT
