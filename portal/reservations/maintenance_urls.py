"""Addresses of maintenance, and of a node's service by hand."""

from django.urls import path

from portal.reservations.views import maintenance, maintenance_ways, node_service

urlpatterns = [
    path("maintenance/", maintenance.maintenance_list, name="maintenance"),
    path("maintenance/plan/", maintenance.maintenance_plan, name="maintenance_plan"),
    path("maintenance/preview/", maintenance.maintenance_preview, name="maintenance_preview"),
    path("maintenance/<int:number>/", maintenance.maintenance_one, name="maintenance_one"),
    path("maintenance/<int:number>/end/", maintenance.maintenance_end, name="maintenance_end"),
    path("maintenance/R-<int:number>/", maintenance_ways.maintenance_ways, name="maintenance_ways"),
    path("nodes/<int:node_id>/state/", node_service.node_state, name="node_state"),
]
