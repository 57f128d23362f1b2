from django.urls import path

from portal.reservations import timeline_views

urlpatterns = [
    path("timeline/", timeline_views.timeline, name="timeline"),
]
