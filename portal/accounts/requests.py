"""The types of requests of people who are signed in: what views behind ``login_required`` and the API's get."""

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails
from rest_framework.request import Request

from portal.accounts.models import User


class SignedInRequest(HttpRequest):
    """As the middlewares leave it."""

    user: User
    htmx: HtmxDetails


class SignedInApiRequest(Request):
    """As the API's authentication and ``IsAuthenticated`` leave it."""

    user: User
