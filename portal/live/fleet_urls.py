from django.urls import path

from portal.live import fleet_views

urlpatterns = [
    path("fleet/", fleet_views.fleet, name="fleet"),
]
