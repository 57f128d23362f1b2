"""What leads and admins type about tenants, quotas and budgets."""

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.accounts.numbers import Amount, WholeNumber
from portal.inventory.models import Pool
from portal.quotas.models import Period
from portal.tenants.models import Tenant

HOUR = 3600
HUES = [(0, _("chosen for you")), *((hue, str(hue)) for hue in range(1, 9))]


class QuotaForm(forms.Form):
    """Weights, as quota and price count."""

    pool = forms.ModelChoiceField(queryset=Pool.objects.all())
    guaranteed = WholeNumber(label=_("Guaranteed"))
    limit = WholeNumber(label=_("Limit"))


class BudgetForm(forms.Form):
    """Whole slice-hours a period; empty takes the budget away."""

    period = forms.ChoiceField(label=_("Period"), choices=Period.choices)
    hours = Amount(label=_("Budget, slice-h"), digits=13, places=2, required=False)

    def slice_seconds(self) -> int | None:
        hours = self.cleaned_data["hours"]
        return None if hours is None else int(hours * HOUR)


class TenantForm(forms.Form):
    """``parents`` are the tenants under which this person may add one."""

    parent = forms.ModelChoiceField(label=_("Below"), queryset=Tenant.objects.none(), empty_label=None)
    name = forms.CharField(label=_("Name"), max_length=64)
    code = forms.CharField(
        label=_("Code"),
        max_length=2,
        required=False,
        help_text=_("Two letters that mark its leases. Chosen for you when empty."),
    )
    hue = forms.TypedChoiceField(
        label=_("Colour"),
        choices=HUES,
        coerce=int,
        empty_value=0,  # type: ignore[arg-type]  # the stubs take this for a text whatever ``coerce`` makes
        required=False,
    )

    def __init__(self, *args, parents, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["parent"].queryset = parents  # type: ignore[attr-defined]
