"""Links that let a person set a password: good once, for a while, and dead once the password is changed."""

from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.notices.mail import send_mail_on_commit


def reset_link(person: User) -> str:
    """The address where ``person`` sets a new password without the old one."""
    parts = {"uidb36": user_pk_to_url_str(person), "key": default_token_generator.make_token(person)}
    return settings.PORTAL_URL + reverse("account_reset_password_from_key", kwargs=parts)


def mail_reset_link(person: User) -> None:
    with translation.override(person.language):
        subject = _("Set your password for Berth")
        text = _("Open this link to set a new password:\n\n%(link)s\n\nIf you did not ask for it, nothing changes.")
        send_mail_on_commit(person.email, str(subject), text % {"link": reset_link(person)})
