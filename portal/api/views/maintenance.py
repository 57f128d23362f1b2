"""Maintenance: read by everyone signed in, planned and ended by platform admins; a node's service by hand."""

from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.requests import SignedInApiRequest
from portal.api.pages import listed, page_of
from portal.api.shapes.maintenance import (
    EffectShape,
    EndAsked,
    ListAsked,
    MaintenanceAsked,
    MaintenanceShape,
    PlannedShape,
    ServiceAsked,
    ServiceShape,
    WindowAsked,
    effect_of,
    effects_shown,
)
from portal.api.shapes.reservations import RefusalShape
from portal.inventory.models import Node, NodeState, Pool
from portal.reservations.draining import set_service
from portal.reservations.maintenance import (
    cancel_maintenance,
    change_maintenance,
    end_maintenance,
    plan_maintenance,
    preview_maintenance,
)
from portal.reservations.maintenance_effects import Affected
from portal.reservations.maintenance_listing import rows
from portal.reservations.models import Maintenance
from portal.reservations.windows import make_window
from portal.tenants.selectors import is_platform_admin

REFUSED = {404: RefusalShape, 409: RefusalShape, 422: RefusalShape}


def _for_admins(request: SignedInApiRequest) -> None:
    if not is_platform_admin(request.user):
        raise Http404


def _target(asked: dict) -> dict:
    nodes = Node.objects.exclude(state=NodeState.RETIRED)
    node = get_object_or_404(nodes, pk=asked["node"]) if "node" in asked else None
    pool = get_object_or_404(Pool, pk=asked["pool"]) if "pool" in asked else None
    return {"node": node, "pool": pool, "during": make_window(asked["start"], asked["end"])}


def _planned(row: Maintenance, affected: Affected) -> dict:
    return {"maintenance": MaintenanceShape(row).data, "affected": effects_shown(affected)}


class MaintenancesView(APIView):
    @extend_schema(operation_id="maintenance", parameters=[ListAsked], responses=page_of(MaintenanceShape))
    def get(self, request: SignedInApiRequest) -> Response:
        """What is ahead, under way and over, newest first."""
        asked = ListAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        found = rows()
        if asked.validated_data["open"]:
            found = found.filter(ended_at__isnull=True, cancelled_at__isnull=True)
        return listed(self, request, found, lambda page: MaintenanceShape(page, many=True).data)

    @extend_schema(
        operation_id="plan_maintenance", request=MaintenanceAsked, responses={201: PlannedShape, **REFUSED}
    )
    def post(self, request: SignedInApiRequest) -> Response:
        """Plan it. Who is affected is moved, cut short or told, and named in the answer."""
        _for_admins(request)
        asked = MaintenanceAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        what = _target(asked.validated_data)
        row, affected = plan_maintenance(actor=request.user, reason=asked.validated_data["reason"], **what)
        return Response(_planned(row, affected), status=201)


class PreviewView(APIView):
    @extend_schema(
        operation_id="preview_maintenance", parameters=[WindowAsked], responses={200: EffectShape(many=True), **REFUSED}
    )
    def get(self, request: SignedInApiRequest) -> Response:
        """Who would be affected, and how; nothing is changed."""
        _for_admins(request)
        asked = WindowAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        return Response(effects_shown(preview_maintenance(**_target(asked.validated_data))))


class MaintenanceView(APIView):
    @extend_schema(operation_id="one_maintenance", responses={200: MaintenanceShape, 404: RefusalShape})
    def get(self, request: SignedInApiRequest, maintenance_id: int) -> Response:
        return Response(MaintenanceShape(get_object_or_404(rows(), pk=maintenance_id)).data)

    @extend_schema(operation_id="change_maintenance", request=EndAsked, responses={200: PlannedShape, **REFUSED})
    def patch(self, request: SignedInApiRequest, maintenance_id: int) -> Response:
        """Move its end."""
        _for_admins(request)
        row = get_object_or_404(rows(), pk=maintenance_id)
        asked = EndAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        ends_at = asked.validated_data["end"].replace(microsecond=0)
        return Response(_planned(*change_maintenance(actor=request.user, maintenance=row, ends_at=ends_at)))


class CancelView(APIView):
    @extend_schema(operation_id="cancel_maintenance", request=None, responses={200: MaintenanceShape, **REFUSED})
    def post(self, request: SignedInApiRequest, maintenance_id: int) -> Response:
        """Before it has begun."""
        _for_admins(request)
        row = get_object_or_404(rows(), pk=maintenance_id)
        return Response(MaintenanceShape(cancel_maintenance(actor=request.user, maintenance=row)).data)


class EndView(APIView):
    @extend_schema(operation_id="end_maintenance", request=None, responses={200: MaintenanceShape, **REFUSED})
    def post(self, request: SignedInApiRequest, maintenance_id: int) -> Response:
        """Before its time, once it has begun; its nodes come back at once."""
        _for_admins(request)
        row = get_object_or_404(rows(), pk=maintenance_id)
        return Response(MaintenanceShape(end_maintenance(actor=request.user, maintenance=row)).data)


class ServiceView(APIView):
    @extend_schema(operation_id="set_node_state", request=ServiceAsked, responses={200: ServiceShape, **REFUSED})
    def post(self, request: SignedInApiRequest, node_id: int) -> Response:
        """Cordon, drain, or put back. Who is affected is named in the answer."""
        _for_admins(request)
        node = get_object_or_404(Node, pk=node_id)
        asked = ServiceAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        wish = asked.validated_data
        node, affected = set_service(
            actor=request.user, node=node, state=NodeState(wish["state"]), until=wish.get("until")
        )
        effects = list(map(effect_of, affected.effects))
        told = {"node": node.pk, "state": node.state, "until": node.drain_until, "affected": effects}
        return Response(ServiceShape(told).data)
