from django.urls import path

from portal.reports import audit_views, tenant_views, views

urlpatterns = [
    path("usage/", views.usage, name="usage"),
    path("audit/", audit_views.audit, name="audit"),
    path("tenants/", tenant_views.tenants, name="tenants"),
    path("tenants/add/", tenant_views.tenant_add, name="tenant_add"),
    path("tenants/<int:tenant_id>/quota/", tenant_views.tenant_quota, name="tenant_quota"),
    path("tenants/<int:tenant_id>/budget/", tenant_views.tenant_budget, name="tenant_budget"),
]
