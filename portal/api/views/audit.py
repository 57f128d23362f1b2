"""The audit trail, for platform admins and for those who lead a tenant; to everybody else it does not exist."""

from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.requests import SignedInApiRequest
from portal.api.asking import AuditAsked
from portal.api.pages import listed, page_of
from portal.api.shapes.audit import AuditEntryShape
from portal.api.shapes.reservations import RefusalShape
from portal.audit.selectors import Wanted, entries_matching
from portal.reports.audit_trail import entries_of
from portal.tenants.models import Role
from portal.tenants.selectors import tenants_of


class AuditView(APIView):
    @extend_schema(
        operation_id="audit", parameters=[AuditAsked],
        responses={200: page_of(AuditEntryShape), 404: RefusalShape, 422: RefusalShape},
    )  # fmt: skip
    def get(self, request: SignedInApiRequest) -> Response:
        """Who changed what, when, from where: newest first, each entry with what was before and after."""
        seen = entries_of(request.user)
        if seen is None:
            raise Http404
        asked = AuditAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        rows = entries_matching(seen, _wanted(request, asked.validated_data))
        return listed(self, request, rows, lambda page: AuditEntryShape(page, many=True).data)


def _wanted(request: SignedInApiRequest, asked: dict) -> Wanted:
    path = ""
    if "tenant" in asked:
        path = get_object_or_404(tenants_of(request.user, Role.LEAD), pk=asked["tenant"]).path
    return Wanted(
        since=asked.get("since"),
        until=asked.get("until"),
        actor_id=asked.get("actor"),
        group=asked.get("group", ""),
        action=asked.get("action", ""),
        tenant_path=path,
        subject=asked.get("subject", ""),
        via=asked.get("via", ""),
    )
