"""Addresses of recurring reservations and classes."""

from django.urls import path

from portal.reservations.views import series, series_new

ONE = "series/<int:number>/"

urlpatterns = [
    path("series/", series.series_list, name="series"),
    path("series/new/", series_new.series_new, name="series_new"),
    path("series/new/preview/", series_new.series_preview, name="series_preview"),
    path(ONE, series.series_one, name="series_one"),
    path(ONE + "change/", series.series_change, name="series_change"),
    path(ONE + "cancel/", series.series_cancel, name="series_cancel"),
    path(ONE + "skip/<str:date>/", series.series_skip, name="series_skip"),
    path(ONE + "people/", series.series_person_add, name="series_person_add"),
    path(ONE + "people/<int:user_id>/remove/", series.series_person_remove, name="series_person_remove"),
]
