"""The reader's zone and language for the length of a request."""

import zoneinfo

from django.conf import settings
from django.utils import timezone, translation


class ReaderMiddleware:
    """Activates the person's time zone, and their language unless the language cookie says otherwise."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        user = request.user
        if user.is_authenticated:
            timezone.activate(zone_of(user.time_zone))
            if settings.LANGUAGE_COOKIE_NAME not in request.COOKIES:
                translation.activate(user.language)
                request.LANGUAGE_CODE = translation.get_language()
        response = self.get_response(request)
        timezone.deactivate()
        return response


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """The zone of this name, or UTC for one that this machine's database no longer has."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return zoneinfo.ZoneInfo("UTC")
