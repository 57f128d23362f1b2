"""Addresses of changing one's mind and of leads' answers."""

from django.urls import path

from portal.reservations.views import approvals, change

urlpatterns = [
    path("reservations/R-<int:number>/change/", change.reservation_change, name="reservation_change"),
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<int:approval_id>/approve/", approvals.approval_approve, name="approval_approve"),
    path("approvals/<int:approval_id>/refuse/", approvals.approval_refuse, name="approval_refuse"),
]
