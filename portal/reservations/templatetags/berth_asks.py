"""What pages say of approvals and of what is borrowed."""

import datetime as dt

from django import template
from django.conf import settings
from django.template.context import RequestContext

from portal.reservations.context import shell_of
from portal.reservations.questions import approvals_for
from portal.reservations.request import Request
from portal.reservations.standing import standing_of, terms_of
from portal.reservations.templatetags.berth_format import duration
from portal.tenants.models import Role

register = template.Library()
SHOWN_IN_INBOX = 10


@register.simple_tag
def displace_notice_minutes() -> int:
    return int(settings.DISPLACE_NOTICE.total_seconds() // 60)


@register.filter
def seconds_after(when: dt.datetime, other: dt.datetime) -> int:
    return int((when - other).total_seconds())


@register.filter
def longer_by(when: dt.datetime, other: dt.datetime) -> str:
    return duration(seconds_after(when, other))


@register.inclusion_tag("reservations/standing.html", takes_context=True)
def standing(context: RequestContext, reservation) -> dict:
    return {"standing": standing_of(reservation, context["request"].user), "reservation": reservation}


@register.inclusion_tag("reservations/terms.html", takes_context=True)
def terms(context: RequestContext, form) -> dict:
    """Of a valid reserve form's request: whether a lead is asked, and whether it would be borrowed."""
    asked, during, user = form.cleaned_data, form.request_window, context["request"].user
    request = Request(user, user, asked["tenant"], asked["pool"], asked["profile"], asked["ranks"], during)
    outlook = form.offer.outlook
    known = outlook is not None and outlook.covers(during) and asked["pool"].pk in outlook.pools
    leads = shell_of(context["request"]).may(asked["tenant"], Role.LEAD)
    return {"terms": terms_of(request, outlook, leads=leads) if known else None, "tenant": asked["tenant"]}


@register.inclusion_tag("approvals/waiting.html", takes_context=True)
def approvals_waiting(context: RequestContext) -> dict:
    """The open questions that the reader may answer, the most urgent first; one query and one for what they are of."""
    rows = approvals_for(context["request"].user).filter(decision="").select_related("asked_by", "tenant")
    found = rows.order_by("expires_at").prefetch_related("reservations__workload", "reservations__profile")
    waiting = list(found[: SHOWN_IN_INBOX + 1])
    return {"waiting": waiting[:SHOWN_IN_INBOX], "more": len(waiting) > SHOWN_IN_INBOX}
