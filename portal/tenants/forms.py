"""Inviting somebody and giving a role."""

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.tenants.models import ROLE_RANK, Role


class RoleForm(forms.Form):
    """Offers no role above ``own``."""

    role = forms.ChoiceField(label=_("Role"), initial=Role.MEMBER)

    def __init__(self, *args, own: Role, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["role"].choices = [(r.value, r.label) for r in Role if ROLE_RANK[r] <= ROLE_RANK[own]]  # type: ignore[attr-defined]

    def clean_role(self) -> Role:
        return Role(self.cleaned_data["role"])


class InviteForm(RoleForm):
    email = forms.EmailField(label=_("E-mail"), max_length=254)
    field_order = ("email", "role")
