"""What an admin types about pools and nodes. Lengths are asked for in the unit people think in and kept as seconds."""

from decimal import Decimal

from django import forms
from django.core.validators import RegexValidator
from django.utils.translation import gettext_lazy as _

from portal.accounts.numbers import Amount, WholeNumber
from portal.inventory.models import Pool
from portal.inventory.weights import WEIGHT_MOST

HOUR, DAY = 3600, 86400
LEAST = Decimal("0.01")
HOST_NAME = RegexValidator(
    r"\A[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z", _("Small letters, digits, dots and hyphens, as in a host name.")
)


class PoolLimitsForm(forms.Form):
    """How short, how long and how far ahead windows may be."""

    shortest = WholeNumber(label=_("Shortest window, seconds"), least=1, most=DAY)
    longest = Amount(label=_("Longest window, hours"), least=LEAST, places=2, digits=7)
    ahead = Amount(label=_("Book ahead, days"), least=LEAST, places=2, digits=6)

    def limits(self) -> dict[str, int]:
        return {
            "shortest_window_seconds": self.cleaned_data["shortest"],
            "longest_window_seconds": int(self.cleaned_data["longest"] * HOUR),
            "book_ahead_seconds": int(self.cleaned_data["ahead"] * DAY),
        }


class PoolForm(PoolLimitsForm):
    """A new pool; its model and mode come from the first GPU that joins."""

    name = forms.CharField(label=_("Name"), max_length=64)
    field_order = ("name", "shortest", "longest", "ahead")


class NodeForm(forms.Form):
    """A machine that is to join."""

    name = forms.CharField(label=_("Name"), max_length=63, validators=[HOST_NAME])
    pool = forms.ModelChoiceField(label=_("Pool"), queryset=Pool.objects.all(), required=False)


class RackForm(forms.Form):
    rack = forms.CharField(
        label=_("Rack or network domain"), max_length=64, required=False,
        help_text=_("Groups of GPUs are kept within one where they fit."))  # fmt: skip


class WeightForm(forms.Form):
    weight = WholeNumber(label=_("Weight"), least=1, most=WEIGHT_MOST)


def _plain(seconds: int, unit: int) -> Decimal:
    return (Decimal(seconds) / unit).quantize(Decimal("0.01")).normalize() + 0


def limits_shown(pool: Pool) -> dict[str, int | Decimal]:
    """The pool's limits in the form's units."""
    return {
        "shortest": pool.shortest_window_seconds,
        "longest": _plain(pool.longest_window_seconds, HOUR),
        "ahead": _plain(pool.book_ahead_seconds, DAY),
    }
