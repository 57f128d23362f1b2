"""The part of the reserve form that says how several GPUs work: as one group or each alone, and if a rank is lost."""

from dataclasses import replace

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from portal.workloads.drafts import WorkloadDraft
from portal.workloads.models import MOST_RESTARTS, RankLoss

USUAL, ONE_GROUP, EACH_ALONE = "", "one", "own"
WAYS = [(USUAL, _("As usual")), (ONE_GROUP, _("As one group")), (EACH_ALONE, _("Each on its own"))]
TOGETHER = {USUAL: None, ONE_GROUP: True, EACH_ALONE: False}
RESTARTS_USUAL = 3
RESTARTS = format_lazy(_("The number of new starts is a whole number from 1 to {most}."), most=MOST_RESTARTS)


class GroupForm(forms.Form):
    """To be mixed into a form that has ``ranks``. For one GPU nothing of it counts."""

    group = forms.ChoiceField(label=_("How they work"), choices=WAYS, required=False)
    rank_loss = forms.ChoiceField(label=_("When one is lost"), choices=RankLoss.choices, required=False)
    restarts = forms.IntegerField(
        label=_("New starts"), required=False, min_value=1, max_value=MOST_RESTARTS,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), RESTARTS),
    )  # fmt: skip

    @property
    def several(self) -> bool:
        return (self.cleaned_data.get("ranks") or 1) > 1

    @property
    def together(self) -> bool | None:
        """As a request takes it; None: whole GPUs work as one group, slices each on its own."""
        return TOGETHER[self.cleaned_data.get("group") or USUAL] if self.several else None

    def with_rank_loss(self, draft: WorkloadDraft) -> WorkloadDraft:
        asked = self.cleaned_data
        if not self.several or asked.get("rank_loss") != RankLoss.RESTART:
            return draft
        return replace(draft, rank_loss=RankLoss.RESTART, restarts_most=asked.get("restarts") or RESTARTS_USUAL)
