"""HTTP addresses of live; the sockets are in routing.py."""

from django.urls import path

from portal.live.enrol_views import node_enrol
from portal.live.installer_views import agent_archive, agent_installer

urlpatterns = [
    path("agent/v1/enrol", node_enrol, name="node_enrol"),
    path("agent/v1/install.sh", agent_installer, name="agent_installer"),
    path("agent/v1/agent.tar.gz", agent_archive, name="agent_archive"),
]
