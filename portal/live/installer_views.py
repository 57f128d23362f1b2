"""What a machine fetches to become a node: the installer, filled in for this portal, and the agent. None is secret."""

import shlex

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from portal.inventory.agent_package import agent_package


@require_safe
def agent_installer(request: HttpRequest) -> HttpResponse:
    """A shell script that checks what it fetches by the sum that it carries."""
    package = agent_package()
    facts = {"portal": settings.PORTAL_URL, "sha256": package.sha256, "release": package.release}
    quoted = {name: shlex.quote(fact) for name, fact in facts.items()}
    script = render_to_string("nodes/install.sh", quoted | {"has_wheels": package.has_wheels})
    return HttpResponse(script, "text/x-shellscript; charset=utf-8", headers={"Cache-Control": "no-cache"})


@require_safe
def agent_archive(request: HttpRequest) -> HttpResponse:
    package = agent_package()
    name = f'attachment; filename="berth-agent-{package.release}.tar.gz"'
    return HttpResponse(
        package.content, "application/gzip", headers={"Content-Disposition": name, "Cache-Control": "no-cache"}
    )
