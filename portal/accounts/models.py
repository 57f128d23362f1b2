"""People. A user signs in by e-mail; what they may do comes from memberships in tenants, never from flags here."""

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _
from knox.models import AbstractAuthToken


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields) -> "User":
        user = self.model(email=self.normalize_email(email).lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def get_by_natural_key(self, email: str | None) -> "User":
        return self.get(email__iexact=email)


class User(AbstractBaseUser):  # type: ignore[django-manager-missing]  # knox is untyped, and so its manager of tokens
    """A person. ``is_active`` False means disabled: signed out everywhere, tokens and sockets dead."""

    email = models.EmailField(_("e-mail"), max_length=254)
    name = models.CharField(_("name"), max_length=100)
    language = models.CharField(_("language"), max_length=10, choices=settings.LANGUAGES, default="en")
    time_zone = models.CharField(_("time zone"), max_length=64, default="UTC")
    is_active = models.BooleanField(default=True)
    # Part of what a session is checked against: raising it ends every session of this person.
    sign_in_round = models.PositiveIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=timezone.now)

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["name"]

    objects = UserManager()

    class Meta:
        constraints = [models.UniqueConstraint(Lower("email"), name="user_email_once")]

    def __str__(self) -> str:
        return self.name or self.email

    @property
    def initials(self) -> str:
        words = self.name.split() or [self.email]
        return (words[0][:1] + (words[-1][:1] if len(words) > 1 else words[0][1:2])).upper()

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        salt = "portal.accounts.models.User.session"
        return salted_hmac(salt, f"{self.sign_in_round} {self.password}", secret=secret, algorithm="sha256").hexdigest()


class ApiToken(AbstractAuthToken):
    """Lets a program act as its owner. The text is shown once; only its hash is kept, and it always expires."""

    name = models.CharField(_("name"), max_length=64)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created"]
        constraints = [models.CheckConstraint(condition=models.Q(expiry__isnull=False), name="api_token_expires")]

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"
