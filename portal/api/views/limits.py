"""Quotas and policies of a tenant: read by who sees it, set by who decides about its limits."""

from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from psycopg2.extras import DateTimeTZRange
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import User
from portal.accounts.requests import SignedInApiRequest
from portal.api.shapes.limits import (
    PolicyAsked,
    PolicyChangedShape,
    PolicyShape,
    QuotaAsked,
    QuotaChangedShape,
    QuotaShape,
    UncoveredShape,
    hours_asked,
    policy_shown,
    quota_shown,
    uncovered_shown,
)
from portal.api.shapes.reservations import RefusalShape
from portal.inventory.models import Pool
from portal.quotas.models import Policy, Quota
from portal.quotas.policies import FIELDS, policy_of
from portal.quotas.selectors import with_hours
from portal.quotas.services import may_set_limits
from portal.reservations.narrowing import change_policy, change_quota, drop_quota
from portal.tenants.models import Tenant
from portal.tenants.selectors import tenants_of

REFUSED = {404: RefusalShape, 409: RefusalShape, 422: RefusalShape}


class QuotaView(APIView):
    @extend_schema(operation_id="quota", responses={200: QuotaShape(many=True), 404: RefusalShape})
    def get(self, request: SignedInApiRequest, tenant_id: int, pool_id: int) -> Response:
        """The tenant's own rows in the pool, in order of time; those above it bind it too."""
        tenant = get_object_or_404(tenants_of(request.user), pk=tenant_id)
        pool = get_object_or_404(Pool, pk=pool_id)
        return Response([_in_shape(row) for row in with_hours(Quota.objects.filter(tenant=tenant, pool=pool))])

    @extend_schema(operation_id="set_quota", request=QuotaAsked, responses={200: QuotaChangedShape, **REFUSED})
    def put(self, request: SignedInApiRequest, tenant_id: int, pool_id: int) -> Response:
        """Set one row. What it no longer covers is named; nothing is ended."""
        tenant = _limited(request.user, tenant_id)
        pool = get_object_or_404(Pool, pk=pool_id)
        asked = QuotaAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        data = asked.validated_data
        row = get_object_or_404(Quota, tenant=tenant, pool=pool, pk=data["id"]) if "id" in data else None
        quota, uncovered = change_quota(
            actor=request.user, tenant=tenant, pool=pool, guaranteed=data["guaranteed"], limit=data["limit"],
            valid=DateTimeTZRange(data["valid_from"], data["valid_until"], "[)") if _in_order(data) else EMPTY,
            hours=hours_asked(data["hours"]) if "hours" in data else None, quota=row)  # fmt: skip
        return Response({"quota": _in_shape(quota), "uncovered": uncovered_shown(uncovered)})


class QuotaRowView(APIView):
    @extend_schema(operation_id="remove_quota", responses={200: UncoveredShape(many=True), **REFUSED})
    def delete(self, request: SignedInApiRequest, tenant_id: int, pool_id: int, quota_id: int) -> Response:
        """Take one row away, and name what is no longer covered."""
        tenant = _limited(request.user, tenant_id)
        row = get_object_or_404(Quota.objects.select_related("pool"), tenant=tenant, pool=pool_id, pk=quota_id)
        uncovered = drop_quota(actor=request.user, tenant=tenant, pool=row.pool, quota_id=row.pk)
        return Response(uncovered_shown(uncovered))


class PolicyView(APIView):
    @extend_schema(operation_id="policy", responses={200: PolicyShape, 404: RefusalShape})
    def get(self, request: SignedInApiRequest, tenant_id: int) -> Response:
        """What is set for the tenant, what counts for it, and whose each value is."""
        return Response(_policy(get_object_or_404(tenants_of(request.user), pk=tenant_id)))

    @extend_schema(operation_id="set_policy", request=PolicyAsked, responses={200: PolicyChangedShape, **REFUSED})
    def put(self, request: SignedInApiRequest, tenant_id: int) -> Response:
        """Set the whole policy; it may only be tighter than what stands above."""
        tenant = _limited(request.user, tenant_id)
        asked = PolicyAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        _row, uncovered = change_policy(actor=request.user, tenant=tenant, **asked.validated_data)
        return Response(_policy(tenant) | {"uncovered": uncovered_shown(uncovered)})


EMPTY = DateTimeTZRange(empty=True)


def _in_order(data: dict[str, Any]) -> bool:
    """The driver makes no range that ends before it starts; the service says what is wrong with an empty one."""
    since, until = data["valid_from"], data["valid_until"]
    return since is None or until is None or since < until


def _limited(user: User, tenant_id: int) -> Tenant:
    """The tenant, where this person decides about its limits; else it is not there for them."""
    tenant = get_object_or_404(tenants_of(user).select_related("parent"), pk=tenant_id)
    if not may_set_limits(user, tenant):
        raise Http404
    return tenant


def _in_shape(quota: Quota) -> dict[str, Any]:
    return QuotaShape(quota_shown(quota)).data


def _policy(tenant: Tenant) -> dict[str, Any]:
    row = Policy.objects.filter(tenant=tenant).first()
    own = {name: getattr(row, name) if row else None for name in FIELDS}
    return policy_shown(own, policy_of(tenant))
