"""Mails that were not delivered, for platform admins: why, and trying again."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from portal.inventory.views import for_platform_admins
from portal.notices.selectors import undelivered
from portal.notices.services import retry_deliveries
from portal.reservations.context import PageRequest

PAGE_ROWS = 50


@require_GET
@for_platform_admins
def mail_list(request: PageRequest) -> HttpResponse:
    page = Paginator(undelivered().order_by("-pk"), PAGE_ROWS).get_page(request.GET.get("page"))
    return render(request, "notices/mail_list.html", {"page": page})


@require_POST
@for_platform_admins
def mail_retry(request: PageRequest, delivery_id: int) -> HttpResponse:
    """404 for one that is no failure, or none any more."""
    if not retry_deliveries(delivery_id):
        raise Http404
    return _answer(request, 1)


@require_POST
@for_platform_admins
def mail_retry_all(request: PageRequest) -> HttpResponse:
    return _answer(request, retry_deliveries())


def _answer(request: PageRequest, count: int) -> HttpResponse:
    said = ngettext("%(count)d mail is tried again.", "%(count)d mails are tried again.", count)
    messages.success(request, said % {"count": count})
    response = redirect("mail_list")
    response.status_code = 303
    return response
