"""REST API v1, its schema and its documentation."""

from django.urls import path

from portal.api.views import people

urlpatterns = [
    path("api/v1/me/", people.MeView.as_view(), name="api_me"),
    path("api/v1/tenants/", people.TenantsView.as_view(), name="api_tenants"),
]
