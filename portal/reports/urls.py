from django.urls import path

from portal.reports import tenant_views, views

urlpatterns = [
    path("usage/", views.usage, name="usage"),
    path("tenants/", tenant_views.tenants, name="tenants"),
    path("tenants/add/", tenant_views.tenant_add, name="tenant_add"),
    path("tenants/<int:tenant_id>/quota/", tenant_views.tenant_quota, name="tenant_quota"),
    path("tenants/<int:tenant_id>/budget/", tenant_views.tenant_budget, name="tenant_budget"),
]
