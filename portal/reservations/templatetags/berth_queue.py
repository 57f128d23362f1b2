"""What pages say about requests that wait."""

from django import template

from portal.reservations.models import Reservation, Wait
from portal.reservations.queue_reasons import reason_sentence
from portal.reservations.windows import length

register = template.Library()


@register.filter
def wait_reason(reservation: Reservation) -> str:
    """The one reason why it waits; nothing for what waits no more."""
    wait: Wait | None = getattr(reservation, "wait", None)
    return reason_sentence(wait) if wait else ""


@register.filter
def wait_length(reservation: Reservation) -> str:
    """For how long it is to run."""
    return length(reservation.wait.seconds)
