"""Questions to the leads: listed and answered. What one may not answer is 404, as if it did not exist."""

from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.requests import SignedInApiRequest
from portal.api.changing import ApprovalsAsked, ApproveAsked, RefuseAsked
from portal.api.pages import listed, page_of
from portal.api.shapes.approvals import ApprovalShape
from portal.api.shapes.reservations import RefusalShape
from portal.reservations.approving import approve, refuse
from portal.reservations.models import Approval, Reservation
from portal.reservations.questions import approvals_for

REFUSALS = {404: RefusalShape, 409: RefusalShape, 422: RefusalShape, 503: RefusalShape}


class ApprovalsView(APIView):
    @extend_schema(operation_id="approvals", parameters=[ApprovalsAsked], responses=page_of(ApprovalShape))
    def get(self, request: SignedInApiRequest) -> Response:
        """The questions that the asker may answer as a lead, newest first."""
        asked = ApprovalsAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        rows = _answerable(request)
        if asked.validated_data["open"]:
            rows = rows.filter(decision="")
        return listed(self, request, rows, lambda page: ApprovalShape(page, many=True).data)


class ApproveView(APIView):
    @extend_schema(operation_id="approve", request=ApproveAsked, responses={200: ApprovalShape, **REFUSALS})
    def post(self, request: SignedInApiRequest, approval_id: int) -> Response:
        """Turn what is held into a promise. Who comes second is told 409."""
        approval = get_object_or_404(_answerable(request), pk=approval_id)
        asked = ApproveAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        approve(approval=approval, actor=request.user, note=asked.validated_data["note"])
        return Response(ApprovalShape(_answerable(request).get(pk=approval_id)).data)


class RefuseView(APIView):
    @extend_schema(operation_id="refuse", request=RefuseAsked, responses={200: ApprovalShape, **REFUSALS})
    def post(self, request: SignedInApiRequest, approval_id: int) -> Response:
        """Give what is held back, with the reason."""
        approval = get_object_or_404(_answerable(request), pk=approval_id)
        asked = RefuseAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        refuse(approval=approval, actor=request.user, note=asked.validated_data["note"])
        return Response(ApprovalShape(_answerable(request).get(pk=approval_id)).data)


def _answerable(request: SignedInApiRequest) -> QuerySet[Approval]:
    about = Reservation.objects.select_related("owner", "pool", "profile").order_by("pk")
    rows = approvals_for(request.user).select_related("tenant", "asked_by", "decided_by")
    return rows.prefetch_related(Prefetch("reservations", queryset=about))
