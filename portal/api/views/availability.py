"""What is free, and what a request would get: nothing is booked or held by asking."""

import datetime as dt

from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.requests import SignedInApiRequest
from portal.api.alternatives import alternatives_shown
from portal.api.asking import AvailabilityAsked, FreeAsked, FreeOverTimeAsked
from portal.api.booking import profile_named
from portal.api.shapes.reservations import AvailabilityShape, FreeAtShape, FreeShape, RefusalShape
from portal.inventory.models import Pool
from portal.reservations.availability import Preview, free_counts, free_over_time, preview
from portal.reservations.windows import check_window, make_window
from portal.tenants.models import ROLE_RANK, Role
from portal.tenants.selectors import tenant_and_roles


class AvailabilityView(APIView):
    @extend_schema(
        operation_id="availability",
        parameters=[AvailabilityAsked],
        responses={200: AvailabilityShape, 404: RefusalShape, 422: RefusalShape},
    )
    def get(self, request: SignedInApiRequest) -> Response:
        """What booking this would answer now: where it would sit and its price, or why not and three ways on."""
        asked = AvailabilityAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        data = asked.validated_data
        seen = tenant_and_roles(request.user, data["tenant"])
        if seen is None:
            raise Http404
        tenant, roles = seen
        pool = get_object_or_404(Pool, pk=data["pool"])
        profile = profile_named(pool, data["profile"])
        during = make_window(data["start"], data["end"])
        member = tenant.closed_at is None and any(ROLE_RANK[role] >= ROLE_RANK[Role.MEMBER] for role in roles)
        answer = preview(
            tenant, pool, profile, data["ranks"], during, owner=request.user, known_member=member
        )
        return Response(_shown(answer))


class FreeView(APIView):
    @extend_schema(
        operation_id="free", parameters=[FreeAsked], responses={200: FreeShape(many=True), 404: RefusalShape}
    )
    def get(self, request: SignedInApiRequest, pool_id: int) -> Response:
        """For each profile of the pool, how many fit for the whole window, and when one fits next if none does."""
        pool = get_object_or_404(Pool, pk=pool_id)
        asked = FreeAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        during = make_window(asked.validated_data["start"], asked.validated_data["end"])
        if (during.upper - during.lower).total_seconds() > pool.longest_window_seconds:
            check_window(during, pool, during.lower)
        return Response(
            [
                {"profile": count.profile.name, "free": count.free, "next_free_at": count.next_free_at}
                for count in free_counts(pool, during)
            ]
        )


class FreeOverTimeView(APIView):
    @extend_schema(
        operation_id="free_over_time",
        parameters=[FreeOverTimeAsked],
        responses={200: FreeAtShape(many=True), 404: RefusalShape},
    )
    def get(self, request: SignedInApiRequest, pool_id: int) -> Response:
        """How many of a profile are free in each step of the hours from ``since``."""
        pool = get_object_or_404(Pool, pk=pool_id)
        asked = FreeOverTimeAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        data = asked.validated_data
        profile = profile_named(pool, data["profile"])
        step = dt.timedelta(minutes=data["step_minutes"])
        counts = free_over_time(pool, profile, data["since"], data["hours"], step)
        return Response([{"at": at, "free": free} for at, free in counts])


def _shown(answer: Preview) -> dict:
    reason = answer.reason
    told = {"code": reason.code, "message": reason.message, "evidence": reason.evidence} if reason else None
    return {
        "fits": answer.fits,
        "placements": [{"gpu": place.gpu.pk, "start": place.start, "end": place.end} for place in answer.placements],
        "reason": told,
        "alternatives": alternatives_shown(answer.alternatives),
        "price_slice_seconds": answer.price_slice_seconds,
        "budget_left_slice_seconds": answer.budget.left if answer.budget else None,
        "held_peak": answer.held_peak if answer.quota else None,
        "quota_guaranteed": answer.quota_guaranteed if answer.quota else None,
        "quota_limit": answer.quota_limit if answer.quota else None,
    }
