"""What one may ask the audit trail for."""

import datetime as dt
import zoneinfo
from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.translation import gettext_lazy as _

from portal.audit.actions import GROUPS
from portal.audit.origin import Via
from portal.audit.selectors import Wanted
from portal.ledger.folding import midnight
from portal.reports.periods import EARLIEST, LATEST
from portal.tenants.models import Tenant

IN_RANGE = (MinValueValidator(EARLIEST), MaxValueValidator(LATEST))
INDENT = "\u2003"
DAY_WRONG = {"invalid": _("Give a day as year-month-day.")}


class AuditFilterForm(forms.Form):
    """Everything may be left empty. ``tenants`` are those whose entries the reader may see."""

    since = forms.DateField(
        label=_("First day"), required=False, input_formats=["%Y-%m-%d"], validators=IN_RANGE, error_messages=DAY_WRONG
    )
    until = forms.DateField(
        label=_("Last day"), required=False, input_formats=["%Y-%m-%d"], validators=IN_RANGE, error_messages=DAY_WRONG
    )
    who = forms.CharField(label=_("Who"), required=False, max_length=100)
    group = forms.ChoiceField(label=_("What"), required=False, choices=[("", _("Everything")), *GROUPS.items()])
    tenant = forms.TypedChoiceField(label=_("Tenant"), required=False, coerce=int, empty_value=None)
    subject = forms.CharField(label=_("Subject"), required=False, max_length=128)
    via = forms.ChoiceField(label=_("Through"), required=False, choices=[("", _("Any way")), *Via.choices])

    def __init__(self, *args: Any, tenants: Sequence[Tenant], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.paths = {tenant.pk: tenant.path for tenant in tenants}
        indented = [(tenant.pk, INDENT * tenant.depth + tenant.name) for tenant in tenants]
        self.fields["tenant"].choices = [("", _("All tenants")), *indented]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or {}
        since, until = asked.get("since"), asked.get("until")
        if since and until and until < since:
            raise forms.ValidationError(_("The last day lies before the first."))
        return asked

    def wanted(self, zone: zoneinfo.ZoneInfo) -> Wanted:
        """Days are the reader's own, both included."""
        asked = self.cleaned_data
        return Wanted(
            since=midnight(asked["since"], zone) if asked["since"] else None,
            until=midnight(asked["until"] + dt.timedelta(days=1), zone) if asked["until"] else None,
            who=asked["who"],
            group=asked["group"],
            tenant_path=self.paths[asked["tenant"]] if asked["tenant"] else "",
            subject=asked["subject"],
            via=asked["via"],
        )
