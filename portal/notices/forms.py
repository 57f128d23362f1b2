"""What a person wants by e-mail, and when to be reminded."""

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.notices.models import Kind, NoticePreference
from portal.notices.reminding import LEADS_SECONDS


class PreferenceForm(forms.Form):
    """Ticked is wanted. Nothing ticked is a choice too."""

    by_mail = forms.MultipleChoiceField(label=_("By e-mail"), choices=Kind.choices, required=False)
    before_start = forms.TypedMultipleChoiceField(
        label=_("Before a start"), choices=[(seconds, seconds) for seconds in LEADS_SECONDS], coerce=int, required=False
    )
    before_end = forms.TypedMultipleChoiceField(
        label=_("Before an end"), choices=[(seconds, seconds) for seconds in LEADS_SECONDS], coerce=int, required=False
    )

    def wishes(self) -> dict[str, list]:
        """As ``set_preferences`` takes them."""
        wanted = self.cleaned_data["by_mail"]
        return {
            "not_by_mail": [kind for kind in Kind.values if kind not in wanted],
            "start_leads_seconds": sorted(self.cleaned_data["before_start"], reverse=True),
            "end_leads_seconds": sorted(self.cleaned_data["before_end"], reverse=True),
        }


def form_of(wishes: NoticePreference) -> PreferenceForm:
    """The form as it is first shown: what is wanted now is ticked."""
    return PreferenceForm({
        "by_mail": [kind for kind in Kind.values if kind not in wishes.not_by_mail],
        "before_start": [str(seconds) for seconds in wishes.start_leads_seconds],
        "before_end": [str(seconds) for seconds in wishes.end_leads_seconds],
    })  # fmt: skip
