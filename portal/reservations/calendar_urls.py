"""Addresses of calendars. That of a feed needs no session."""

from django.urls import path

from portal.reservations.views import calendar

urlpatterns = [
    path("calendar/", calendar.calendar, name="calendar"),
    path("calendar/feeds/", calendar.calendar_make, name="calendar_make"),
    path("calendar/feeds/<int:feed_id>/revoke/", calendar.calendar_revoke, name="calendar_revoke"),
    path("calendar/<slug:token>.ics", calendar.calendar_feed, name="calendar_feed"),
]
