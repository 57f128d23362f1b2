"""HTTP addresses of live; the sockets are in routing.py."""

from django.urls import path

from portal.live.enrol_views import node_enrol

urlpatterns = [
    path("agent/v1/enrol", node_enrol, name="node_enrol"),
]
