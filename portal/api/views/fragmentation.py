"""How broken up the free slices of a pool are: seen by everyone signed in, as the fleet is."""

import datetime as dt

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from psycopg2.extras import DateTimeTZRange
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import User
from portal.accounts.requests import SignedInApiRequest
from portal.api.asking import FragmentationAsked
from portal.api.booking import profile_named
from portal.api.shapes.fragmentation import FragmentationShape
from portal.api.shapes.reservations import RefusalShape
from portal.inventory.models import Pool
from portal.reservations.fragmentation import LeaseMove, Plan, layout_of
from portal.reservations.selectors import reservations_of
from portal.reservations.windows import check_window, make_window

AN_HOUR = dt.timedelta(hours=1)


class FragmentationView(APIView):
    @extend_schema(
        operation_id="fragmentation",
        parameters=[FragmentationAsked],
        responses={200: FragmentationShape, 404: RefusalShape, 422: RefusalShape},
    )
    def get(self, request: SignedInApiRequest, pool_id: int) -> Response:
        """What fits in the window, or from now for an hour, beside what would fit if all were packed anew. With a
        ``profile``: the planned leases that would move where, so that ``more`` of it fit. Nothing is moved by asking.
        """
        pool = get_object_or_404(Pool, pk=pool_id)
        asked = FragmentationAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        data, now = asked.validated_data, timezone.now()
        during = DateTimeTZRange(now, now + AN_HOUR, "[)")
        if "start" in data:
            during = check_window(make_window(data["start"], data["end"]), pool, now)
        profile = profile_named(pool, data["profile"]) if "profile" in data else None
        found = layout_of(pool, during, now, profile, data["more"])
        shown = {
            "start": during.lower,
            "end": during.upper,
            "slices": found.broken.slices,
            "free": found.broken.free,
            "stranded": found.broken.stranded,
            "profiles": found.broken.rooms,
            "plan": _plan(found.plan, request.user) if found.plan else None,
        }
        return Response(FragmentationShape(shown).data)


def _plan(plan: Plan, user: User) -> dict:
    ids = {move.reservation_id for move in plan.moves}
    seen = set(reservations_of(user).filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()
    return {
        "profile": plan.profile,
        "asked": plan.asked,
        "bookable": plan.bookable,
        "won": plan.won,
        "moves": [_move(move, move.reservation_id in seen) for move in plan.moves],
        "refusal": plan.refusal,
    }


def _move(move: LeaseMove, shown: bool) -> dict:
    return {
        "lease": move.lease_id if shown else None,
        "reservation": move.reservation_id if shown else None,
        "before": move.before,
        "after": move.after,
    }
