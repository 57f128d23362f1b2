"""The people of a tenant, and the way in by invitation."""

from django.urls import path

from portal.tenants import joining, views

PEOPLE = "tenants/<int:tenant_id>/people/"

urlpatterns = [
    path(PEOPLE, views.people, name="people"),
    path(PEOPLE + "invite/", views.people_invite, name="people_invite"),
    path(PEOPLE + "<int:user_id>/role/", views.people_role, name="people_role"),
    path(PEOPLE + "<int:user_id>/remove/", views.people_remove, name="people_remove"),
    path(PEOPLE + "<int:user_id>/disable/", views.people_disable, name="people_disable"),
    path(PEOPLE + "<int:user_id>/enable/", views.people_enable, name="people_enable"),
    path(PEOPLE + "<int:user_id>/reset/", views.people_reset, name="people_reset"),
    path(
        "tenants/<int:tenant_id>/invitations/<int:invitation_id>/withdraw/",
        views.invitation_withdraw,
        name="invitation_withdraw",
    ),
    path("invitation/<str:token>/", joining.invitation, name="invitation"),
]
