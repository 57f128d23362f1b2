"""How allauth behaves here: no sign-up, failures counted per person and place, and pages that speak for themselves."""

from typing import Any, ClassVar

from allauth.account.adapter import DefaultAccountAdapter
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from portal.accounts.entrances import record_failed_sign_in, record_lock_out, record_sign_in, record_sign_out
from portal.accounts.links import mail_reset_link
from portal.accounts.models import User
from portal.accounts.services import change_password, record_reset_asked


class AccountAdapter(DefaultAccountAdapter):
    error_messages: ClassVar[dict[str, Any]] = {
        **DefaultAccountAdapter.error_messages,
        "email_password_mismatch": _("E-mail or password is wrong."),
        "too_many_login_attempts": _("Too many failed tries. Wait 10 min, or reset the password."),
        "invalid_password_reset": _("This link was used already or has expired."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """People come by invitation."""
        return False

    def login(self, request: HttpRequest, user: User) -> None:
        super().login(request, user)
        record_sign_in(user)

    def logout(self, request: HttpRequest) -> None:
        person = request.user
        super().logout(request)
        if isinstance(person, User):
            record_sign_out(person)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            record_lock_out(credentials.get("email", ""))
            raise

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        record_failed_sign_in(credentials.get("email", ""))

    def set_password(self, user: User, password: str) -> None:
        """By a link that was mailed or handed over."""
        change_password(person=user, password=password, actor=user)

    def is_ajax(self, request: HttpRequest) -> bool:
        return False

    def add_message(self, *args: Any, **options: Any) -> None:
        """No message follows a person around: the page they land on shows what happened."""

    def send_password_reset_mail(self, user: User, email: str, context: dict[str, Any]) -> None:
        with transaction.atomic():
            record_reset_asked(user)
            mail_reset_link(user)

    def send_notification_mail(self, *args: Any, **options: Any) -> None:
        """Mails leave through portal.notices alone."""

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        # With the place in the key nobody can lock out somebody else from afar.
        return f"{credentials.get('email', '').lower()} from {self.get_client_ip(request)}"
