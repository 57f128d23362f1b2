"""Sign-in by e-mail, whatever its case."""

from django.contrib.auth.backends import BaseBackend

from portal.accounts.models import User


class EmailBackend(BaseBackend):
    """Takes ``email`` or, from allauth, ``username``; a disabled person never gets in."""

    def authenticate(self, request, email=None, username=None, password=None, **credentials):
        address = email or username
        if not address or password is None:
            return None
        user = User.objects.filter(email__iexact=address).first()
        if user is None:
            User().set_password(password)  # the same time is spent whether or not the address is known
            return None
        return user if user.check_password(password) and user.is_active else None

    def get_user(self, user_id):
        return User.objects.filter(pk=user_id, is_active=True).first()
