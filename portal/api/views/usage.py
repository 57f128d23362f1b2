"""What a tenant and everything below it reserved, ran and used: the numbers of its usage page."""

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.middleware import zone_of
from portal.accounts.requests import SignedInApiRequest
from portal.api.asking import UsageAsked
from portal.api.shapes.reservations import RefusalShape
from portal.api.shapes.usage import UsageShape
from portal.reports.periods import Choice, PeriodRefused, Span, period_of
from portal.reports.usage import usage_of
from portal.tenants.models import Tenant
from portal.tenants.selectors import tenants_of


class UsageView(APIView):
    @extend_schema(
        operation_id="usage",
        parameters=[UsageAsked],
        responses={200: UsageShape, 404: RefusalShape, 422: RefusalShape},
    )
    def get(self, request: SignedInApiRequest) -> Response:
        """Weighted slice-seconds by day, member and reservation; at most 366 days."""
        asked = UsageAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        tenant = get_object_or_404(tenants_of(request.user), pk=asked.validated_data["tenant"])
        span = _span(tenant, asked.validated_data)
        found = usage_of(tenant, span, timezone.now())
        told = {
            "tenant": tenant.pk,
            "since": span.first,
            "until": span.last,
            "time_zone": tenant.time_zone,
            "total": found.total,
            "by_day": [{"date": day.date, "figures": figures} for day, figures in found.by_day],
            "by_member": found.by_member,
            "by_reservation": found.by_reservation,
        }
        return Response(UsageShape(told).data)


def _span(tenant: Tenant, asked: dict) -> Span:
    now, zone = timezone.now(), zone_of(tenant.time_zone)
    first, last = asked["since"].isoformat(), asked["until"].isoformat()
    try:
        return period_of(Choice.CUSTOM, first, last, today=now.astimezone(zone).date(), zone=zone)
    except PeriodRefused as error:
        raise ValidationError({"until": [str(error)]}) from error
