from django.urls import path

from portal.reports import audit_views, tenant_limits, tenant_views, views

urlpatterns = [
    path("usage/", views.usage, name="usage"),
    path("audit/", audit_views.audit, name="audit"),
    path("tenants/", tenant_views.tenants, name="tenants"),
    path("tenants/add/", tenant_views.tenant_add, name="tenant_add"),
    path("tenants/<int:tenant_id>/quota/", tenant_limits.tenant_quota, name="tenant_quota"),
    path("tenants/<int:tenant_id>/quota/period/", tenant_limits.tenant_quota_period, name="tenant_quota_period"),
    path(
        "tenants/<int:tenant_id>/quota/<int:quota_id>/remove/",
        tenant_limits.tenant_quota_remove,
        name="tenant_quota_remove",
    ),
    path("tenants/<int:tenant_id>/budget/", tenant_limits.tenant_budget, name="tenant_budget"),
    path("tenants/<int:tenant_id>/uncovered/", tenant_views.tenant_uncovered, name="tenant_uncovered"),
    path("tenants/<int:tenant_id>/policy/", tenant_limits.tenant_policy, name="tenant_policy"),
]
