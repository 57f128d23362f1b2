"""Joining: a node's agent spends its one-time token here, over HTTP, without session or cookie."""

import logging

import msgspec
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from redis.exceptions import RedisError

from agents.enrol_format import Enrol, Enrolled
from agents.protocol import SUPPORTED_VERSIONS
from portal.inventory.enrolment import enrol
from portal.inventory.errors import EnrolmentRefused

log = logging.getLogger(__name__)

REFUSALS_MOST = 20
REFUSALS_SECONDS = 60
BODY_BYTES_MOST = 4096


@csrf_exempt  # the token in the body is the credential; there is no session that a foreign page could use
@require_POST
def node_enrol(request: HttpRequest) -> HttpResponse:
    """200 with the node's credential, shown once; 403 for a wrong, used or expired token; 429 after many."""
    address = request.META.get("REMOTE_ADDR", "")
    if _refusals(address) >= REFUSALS_MOST:
        answer = _refused("too_many", _("Too many tokens were refused. Try again in a minute."), 429)
        answer["Retry-After"] = str(REFUSALS_SECONDS)
        return answer
    try:
        asked = msgspec.json.decode(_body(request), type=Enrol)
    except (msgspec.MsgspecError, ValueError) as error:
        return _refused("bad_request", _("This is no enrolment: %(why)s") % {"why": str(error)[:200]}, 400)
    if asked.version not in SUPPORTED_VERSIONS:
        return _refused("bad_version", _("Update this agent: its version is not spoken here."), 400)
    try:
        node, credential = enrol(token=asked.token, hostname=asked.hostname.replace("\0", ""))
    except EnrolmentRefused as refusal:
        _count_refusal(address)
        return _refused("token_refused", str(refusal), 403)
    enrolled = Enrolled(node_id=node.pk, node_name=node.name, credential=credential)
    return HttpResponse(
        msgspec.json.encode(enrolled), content_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _body(request: HttpRequest) -> bytes:
    if len(request.body) > BODY_BYTES_MOST:
        raise ValueError(_("it is longer than %(bytes)d bytes") % {"bytes": BODY_BYTES_MOST})
    return request.body


def _refused(code: str, detail: str, status: int) -> HttpResponse:
    return JsonResponse({"code": code, "detail": detail}, status=status)


def _refusals(address: str) -> int:
    """Without Redis nothing is counted: tokens have 256 bits, the limit only keeps noise away."""
    try:
        return cache.get(_key(address), 0)
    except (RedisError, OSError) as error:
        log.warning("refused enrolments cannot be counted: %s", error)
        return 0


def _count_refusal(address: str) -> None:
    try:
        cache.add(_key(address), 0, REFUSALS_SECONDS)
        cache.incr(_key(address))
    except (RedisError, OSError, ValueError) as error:  # ValueError: it expired in between
        log.warning("a refused enrolment is not counted: %s", error)


def _key(address: str) -> str:
    return f"enrolment-refused:{address}"
