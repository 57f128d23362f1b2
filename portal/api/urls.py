"""REST API v1, its schema and its documentation."""

from django.urls import path

from portal.api.views import (
    approvals,
    audit,
    availability,
    docs,
    fleet,
    fragmentation,
    limits,
    maintenance,
    notices,
    people,
    reservations,
    series,
    usage,
)

ONE = "api/v1/reservations/<int:reservation_id>/"
APPROVAL = "api/v1/approvals/<int:approval_id>/"
MAINTENANCE = "api/v1/maintenance/<int:maintenance_id>/"
SERIES = "api/v1/series/<int:series_id>/"
POOL = "api/v1/pools/<int:pool_id>/"
TENANT = "api/v1/tenants/<int:tenant_id>/"

urlpatterns = [
    path("api/v1/me/", people.MeView.as_view(), name="api_me"),
    path("api/v1/tenants/", people.TenantsView.as_view(), name="api_tenants"),
    path(TENANT + "policy/", limits.PolicyView.as_view(), name="api_policy"),
    path(TENANT + "quota/<int:pool_id>/", limits.QuotaView.as_view(), name="api_quota"),
    path(TENANT + "quota/<int:pool_id>/<int:quota_id>/", limits.QuotaRowView.as_view(), name="api_quota_row"),
    path("api/v1/pools/", fleet.PoolsView.as_view(), name="api_pools"),
    path(POOL + "free/", availability.FreeView.as_view(), name="api_free"),
    path(POOL + "free-over-time/", availability.FreeOverTimeView.as_view(), name="api_free_over_time"),
    path(POOL + "fragmentation/", fragmentation.FragmentationView.as_view(), name="api_fragmentation"),
    path("api/v1/availability/", availability.AvailabilityView.as_view(), name="api_availability"),
    path("api/v1/approvals/", approvals.ApprovalsView.as_view(), name="api_approvals"),
    path(APPROVAL + "approve/", approvals.ApproveView.as_view(), name="api_approve"),
    path(APPROVAL + "refuse/", approvals.RefuseView.as_view(), name="api_refuse"),
    path("api/v1/reservations/", reservations.ReservationsView.as_view(), name="api_reservations"),
    path(ONE, reservations.ReservationView.as_view(), name="api_reservation"),
    path(ONE + "release/", reservations.ReleaseView.as_view(), name="api_release"),
    path(ONE + "cancel/", reservations.CancelView.as_view(), name="api_cancel"),
    path(ONE + "accept/", reservations.AcceptView.as_view(), name="api_accept"),
    path(ONE + "decline/", reservations.DeclineView.as_view(), name="api_decline"),
    path(ONE + "log/", reservations.LogView.as_view(), name="api_log"),
    path("api/v1/nodes/<int:node_id>/rack/", fleet.RackView.as_view(), name="api_node_rack"),
    path("api/v1/nodes/<int:node_id>/state/", maintenance.ServiceView.as_view(), name="api_node_state"),
    path("api/v1/maintenance/", maintenance.MaintenancesView.as_view(), name="api_maintenance"),
    path("api/v1/maintenance/preview/", maintenance.PreviewView.as_view(), name="api_maintenance_preview"),
    path(MAINTENANCE, maintenance.MaintenanceView.as_view(), name="api_maintenance_one"),
    path(MAINTENANCE + "cancel/", maintenance.CancelView.as_view(), name="api_maintenance_cancel"),
    path(MAINTENANCE + "end/", maintenance.EndView.as_view(), name="api_maintenance_end"),
    path("api/v1/series/", series.SeriesListView.as_view(), name="api_series"),
    path(SERIES, series.SeriesView.as_view(), name="api_series_one"),
    path(SERIES + "skip/", series.SeriesSkipView.as_view(), name="api_series_skip"),
    path(SERIES + "people/", series.RosterView.as_view(), name="api_series_people"),
    path(SERIES + "people/<int:user_id>/", series.RosterPersonView.as_view(), name="api_series_person"),
    path("api/v1/fleet/", fleet.FleetView.as_view(), name="api_fleet"),
    path("api/v1/notices/", notices.NoticesView.as_view(), name="api_notices"),
    path("api/v1/notices/<int:notice_id>/read/", notices.NoticeReadView.as_view(), name="api_notice_read"),
    path("api/v1/usage/", usage.UsageView.as_view(), name="api_usage"),
    path("api/v1/audit/", audit.AuditView.as_view(), name="api_audit"),
    path("api/schema/", docs.SchemaView.as_view(), name="api_schema"),
    path("api/docs/", docs.DocsView.as_view(), name="api_docs"),
]
