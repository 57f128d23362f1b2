"""Reservations: listed, read, booked, given back. What is not the asker's is 404, as if it did not exist."""

from django.db.models import Prefetch, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.requests import SignedInApiRequest
from portal.api.asking import LogAsked, ReservationAsked, ReservationsAsked
from portal.api.booking import book
from portal.api.changing import ChangeAsked
from portal.api.pages import listed, page_of
from portal.api.shapes.reservations import LogShape, RefusalShape, ReservationShape
from portal.live.store import output_tail
from portal.reservations.cancelling import cancel_reservation
from portal.reservations.changing import release_reservation
from portal.reservations.errors import HasStarted
from portal.reservations.models import Lease, LeaseLog, LeaseState, Reservation
from portal.reservations.moving import change_reservation
from portal.reservations.selectors import may_change, reservations_of
from portal.reservations.waitlist import accept_offer, decline_offer
from portal.reservations.windows import make_window
from portal.tenants.selectors import tenants_of

KEY = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER,
    description="Up to 100 printable characters of your choice. Repeating a request with its key books once.",
)  # fmt: skip
REFUSALS = {404: RefusalShape, 409: RefusalShape, 422: RefusalShape, 503: RefusalShape}


class ReservationsView(APIView):
    @extend_schema(operation_id="reservations", parameters=[ReservationsAsked], responses=page_of(ReservationShape))
    def get(self, request: SignedInApiRequest) -> Response:
        """The reservations of all tenants that the asker may see, newest first."""
        asked = ReservationsAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        rows = _filtered(_seen_by(request), request, asked.validated_data)
        return listed(self, request, rows, lambda page: ReservationShape(page, many=True).data)

    @extend_schema(
        operation_id="book",
        parameters=[KEY],
        request=ReservationAsked,
        responses={200: ReservationShape, 201: ReservationShape, **REFUSALS},
    )
    def post(self, request: SignedInApiRequest) -> Response:
        """Book all ranks or none, or queue what names no window.

        200 instead of 201 says that the key was used before for this same request.
        """
        asked = ReservationAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        reservation = book(request, asked.validated_data)
        found = _seen_by(request).get(pk=reservation.pk)
        return Response(ReservationShape(found).data, status=200 if reservation.was_booked_before else 201)


class ReservationView(APIView):
    @extend_schema(operation_id="reservation", responses={200: ReservationShape, 404: RefusalShape})
    def get(self, request: SignedInApiRequest, reservation_id: int) -> Response:
        return Response(ReservationShape(_one(request, reservation_id)).data)

    @extend_schema(operation_id="change", request=ChangeAsked, responses={200: ReservationShape, **REFUSALS})
    def patch(self, request: SignedInApiRequest, reservation_id: int) -> Response:
        """Extend, shorten, move or rename, all ranks or none. What has started keeps its start; what is over stays."""
        reservation = _changeable(request, reservation_id)
        asked = ChangeAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        changes = asked.validated_data
        during = None
        if "start" in changes or "end" in changes:
            held = reservation.during
            during = make_window(changes.get("start", held.lower), changes.get("end", held.upper))
        change_reservation(reservation=reservation, actor=request.user, during=during, name=changes.get("name"))
        return Response(ReservationShape(_one(request, reservation_id)).data)

    @extend_schema(operation_id="delete", responses={200: ReservationShape, **REFUSALS})
    def delete(self, request: SignedInApiRequest, reservation_id: int) -> Response:
        """Cancel what has not started, as the verb does: a reservation is never forgotten."""
        return _cancelled(request, reservation_id)


class ReleaseView(APIView):
    @extend_schema(operation_id="release", request=None, responses={200: ReservationShape, **REFUSALS})
    def post(self, request: SignedInApiRequest, reservation_id: int) -> Response:
        """Give everything back: ended early when it has started, cancelled when it has not."""
        release_reservation(reservation=_changeable(request, reservation_id), actor=request.user)
        return Response(ReservationShape(_one(request, reservation_id)).data)


class CancelView(APIView):
    @extend_schema(operation_id="cancel", request=None, responses={200: ReservationShape, **REFUSALS})
    def post(self, request: SignedInApiRequest, reservation_id: int) -> Response:
        """Cancel what has not started; what has is refused, and release is for that."""
        return _cancelled(request, reservation_id)


class AcceptView(APIView):
    @extend_schema(operation_id="accept_offer", request=None, responses={200: ReservationShape, **REFUSALS})
    def post(self, request: SignedInApiRequest, reservation_id: int) -> Response:
        """Take the window that is offered from the waitlist; 409 when the offer is gone."""
        accept_offer(reservation=_changeable(request, reservation_id), actor=request.user)
        return Response(ReservationShape(_one(request, reservation_id)).data)


class DeclineView(APIView):
    @extend_schema(operation_id="decline_offer", request=None, responses={200: ReservationShape, **REFUSALS})
    def post(self, request: SignedInApiRequest, reservation_id: int) -> Response:
        """Leave the waitlist: what was offered goes to the next; 409 when the offer is gone."""
        decline_offer(reservation=_changeable(request, reservation_id), actor=request.user)
        return Response(ReservationShape(_one(request, reservation_id)).data)


class LogView(APIView):
    @extend_schema(operation_id="log", parameters=[LogAsked], responses={200: LogShape, 404: RefusalShape})
    def get(self, request: SignedInApiRequest, reservation_id: int) -> Response:
        """The end of what one rank wrote. The first question about a running one may find nothing: ask again."""
        asked = LogAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        reservation = _one(request, reservation_id)
        rank = asked.validated_data["rank"]
        lease = next((lease for lease in reservation.leases.all() if lease.rank == rank), None)
        if lease is None:
            raise Http404
        return Response(LogShape({"lease": lease.pk, "rank": rank, "text": _text(lease)}).data)


def _cancelled(request: SignedInApiRequest, reservation_id: int) -> Response:
    try:
        cancel_reservation(reservation=_changeable(request, reservation_id), actor=request.user)
    except HasStarted as refusal:
        refusal.evidence = {"release": reverse("api_release", args=[reservation_id])}
        raise
    return Response(ReservationShape(_one(request, reservation_id)).data)


def _text(lease: Lease) -> str:
    if lease.state in (LeaseState.ENDED, LeaseState.FAILED):
        return LeaseLog.objects.filter(lease=lease).values_list("tail", flat=True).first() or ""
    return output_tail(lease.pk, lease.gpu.node_id)


def _seen_by(request: SignedInApiRequest) -> QuerySet[Reservation]:
    leases = Lease.objects.select_related("gpu__node").order_by("rank", "-pk")
    related = ("tenant", "owner", "pool", "profile", "workload", "wait")
    return reservations_of(request.user).select_related(*related).prefetch_related(Prefetch("leases", queryset=leases))


def _one(request: SignedInApiRequest, reservation_id: int) -> Reservation:
    return get_object_or_404(_seen_by(request), pk=reservation_id)


def _changeable(request: SignedInApiRequest, reservation_id: int) -> Reservation:
    reservation = _one(request, reservation_id)
    if not may_change(request.user, reservation):
        raise Http404
    return reservation


def _filtered(rows: QuerySet[Reservation], request: SignedInApiRequest, asked: dict) -> QuerySet[Reservation]:
    if "state" in asked:
        rows = rows.filter(state=asked["state"])
    if "tenant" in asked:
        top = get_object_or_404(tenants_of(request.user), pk=asked["tenant"])
        rows = rows.filter(tenant__path__startswith=top.path)
    if "pool" in asked:
        rows = rows.filter(pool_id=asked["pool"])
    return rows.filter(owner=request.user) if asked["mine"] else rows
