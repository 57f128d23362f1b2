"""What views get: the types of the requests of people who are signed in, and numbers out of an address."""

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails
from rest_framework.request import Request

from portal.accounts.models import User

NUMBER_DIGITS = 18  # what a bigint holds, whatever the digits are


class SignedInRequest(HttpRequest):
    """As the middlewares leave it for a view behind ``login_required``."""

    user: User
    htmx: HtmxDetails


class SignedInApiRequest(Request):
    """As the API's authentication and ``IsAuthenticated`` leave it."""

    user: User


def number_in(text: str) -> int | None:
    """The number that an address names, such as an id; None where it is none, or longer than any of ours."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS else None
