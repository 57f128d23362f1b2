"""Fields for numbers that say in one sentence what they take, whatever was typed instead."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

WRONG = ("invalid", "min_value", "max_value", "max_digits", "max_decimal_places", "max_whole_digits")


class WholeNumber(forms.IntegerField):
    """From ``least`` to ``most``; without ``most`` what is too large is for others to refuse."""

    def __init__(self, *, least: int = 0, most: int | None = None, **options: Any) -> None:
        open_ended, closed = _("Use a whole number, {least} or more."), _("Use a whole number from {least} to {most}.")
        told = open_ended if most is None else closed
        said = format_lazy(told, least=least, most=most)
        super().__init__(min_value=least, max_value=most, error_messages=_always(said), **options)


class Amount(forms.DecimalField):
    """A number from ``least`` on, with at most ``places`` digits behind the point."""

    def __init__(self, *, least: Decimal = Decimal(0), digits: int, places: int, **options: Any) -> None:
        told = _("Use a number, {least} or more, with at most {places} digits behind the point.")
        super().__init__(
            min_value=least, max_digits=digits, decimal_places=places,
            error_messages=_always(format_lazy(told, least=least, places=places)), **options)  # fmt: skip


def _always(said: "StrOrPromise") -> "dict[str, StrOrPromise]":
    return {**dict.fromkeys(WRONG, said), "required": _("This is needed.")}
