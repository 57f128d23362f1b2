"""Who asks: a token in the header. A token in the address is never looked at."""

from django.utils.translation import gettext as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed

from portal.accounts.models import ApiToken, User
from portal.accounts.services import note_token_used


class TokenHeader(TokenAuthentication):
    """``Authorization: Bearer berth_...``; what is no text at all is an invalid token, not an error of ours."""

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        if not token.isascii() or not token.decode("ascii").isprintable():
            raise AuthenticationFailed(_("Invalid token."))
        user, held = super().authenticate_credentials(token)
        note_token_used(held)
        return user, held


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "portal.api.tokens.TokenHeader"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict:
        return {"type": "http", "scheme": "bearer", "description": "A token made on the profile page."}
