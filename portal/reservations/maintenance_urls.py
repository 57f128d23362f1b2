"""Addresses of maintenance, and of a node's service by hand."""

from django.urls import path

from portal.reservations.views import maintenance_ways

urlpatterns = [
    path("maintenance/R-<int:number>/", maintenance_ways.maintenance_ways, name="maintenance_ways"),
]
