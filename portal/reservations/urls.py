"""Addresses of the shell and of pages about reservations."""

from django.urls import path

from portal.reservations.views import home, node_loss, queue, rail, reservation, reserve, shell

urlpatterns = [
    path("", home.home, name="home"),
    path("rail/", rail.home_rail, name="home_rail"),
    path("find/", shell.find, name="find"),
    path("tenant/", shell.tenant_choose, name="tenant_choose"),
    path("reserve/", reserve.reserve, name="reserve"),
    path("reserve/preview/", reserve.reserve_preview, name="reserve_preview"),
    path("reservations/", home.reservation_list, name="reservation_list"),
    path("reservations/R-<int:number>/", reservation.reservation, name="reservation"),
    path("reservations/R-<int:number>/release/", reservation.reservation_release, name="reservation_release"),
    path("reservations/R-<int:number>/log/", reservation.reservation_log, name="reservation_log"),
    path("reservations/R-<int:number>/accept/", queue.offer_accept, name="offer_accept"),
    path("reservations/R-<int:number>/decline/", queue.offer_decline, name="offer_decline"),
    path("queue/", queue.queue, name="queue"),
    path("nodes/<int:node_id>/write-off/", node_loss.node_write_off, name="node_write_off"),
]
