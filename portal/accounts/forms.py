"""What people type about themselves."""

from typing import Any

from allauth.account.forms import UserTokenForm as AllauthUserTokenForm
from django import forms
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.validators import RegexValidator
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.accounts.services import LONGEST_TOKEN_DAYS
from portal.accounts.zones import zone_names

PRINTABLE = RegexValidator(
    r"\A[^\x00-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]*\Z", _("Use printable characters.")
)


class UserTokenForm(AllauthUserTokenForm):
    """A link to set a password is dead for somebody disabled."""

    def _get_user(self, uidb36: str) -> User | None:
        user = super()._get_user(uidb36)
        return user if user is not None and user.is_active else None


class ProfileForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=100, validators=[PRINTABLE])
    language = forms.ChoiceField(label=_("Language"), choices=settings.LANGUAGES)
    time_zone = forms.CharField(label=_("Time zone"), max_length=64)

    def clean_time_zone(self) -> str:
        zone = self.cleaned_data["time_zone"]
        if zone not in zone_names():
            raise forms.ValidationError(_("“%(zone)s” is not a time zone."), params={"zone": zone})
        return zone


class NewPasswordForm(forms.Form):
    """A password of one's own, for somebody known by ``user`` or about to be."""

    new_password = forms.CharField(label=_("New password"), strip=False, max_length=256, widget=forms.PasswordInput)

    def __init__(self, *args: Any, user: User, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.user = user

    def clean_new_password(self) -> str:
        password = self.cleaned_data["new_password"]
        validate_password(password, self.user)
        return password


class PasswordForm(NewPasswordForm):
    old_password = forms.CharField(label=_("Current password"), strip=False, max_length=256, widget=forms.PasswordInput)
    field_order = ("old_password", "new_password")

    def clean_old_password(self) -> str:
        password = self.cleaned_data["old_password"]
        if not self.user.check_password(password):
            raise forms.ValidationError(_("That is not the current password."))
        return password


class JoinForm(NewPasswordForm):
    """Somebody new accepts an invitation."""

    name = forms.CharField(label=_("Name"), max_length=100, validators=[PRINTABLE])
    field_order = ("name", "new_password")


class TokenForm(forms.Form):
    name = forms.CharField(label=_("What it is for"), max_length=64, validators=[PRINTABLE])
    days = forms.IntegerField(label=_("Days until it expires"), min_value=1, max_value=LONGEST_TOKEN_DAYS, initial=30)
