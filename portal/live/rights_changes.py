"""Whatever code takes a right away, that person's sockets hear of it. The minute's check finds what this misses."""

from django.contrib.auth.signals import user_logged_out
from django.db.models.signals import post_delete, post_save

from portal import events
from portal.accounts.models import User
from portal.live.watches import session_mark
from portal.tenants.models import Membership


def _user_saved(sender, instance: User, created: bool, update_fields=None, **_signal) -> None:
    if created or (update_fields is not None and not {"is_active", "password"} & set(update_fields)):
        return
    events.tell_user_on_commit(instance.pk, "rights.changed")


def _membership_changed(sender, instance: Membership, **_signal) -> None:
    events.tell_user_on_commit(instance.user_id, "rights.changed")


def _signed_out(sender, request, user, **_signal) -> None:
    """The session is still there when this is sent, so the message names it."""
    session_key = getattr(request.session, "session_key", None) if request is not None else None
    if user is not None and session_key:
        events.tell_user_on_commit(user.pk, "rights.changed", session=session_mark(session_key))


def connect() -> None:
    post_save.connect(_user_saved, sender=User, dispatch_uid="live.user_saved")
    post_save.connect(_membership_changed, sender=Membership, dispatch_uid="live.membership_saved")
    post_delete.connect(_membership_changed, sender=Membership, dispatch_uid="live.membership_deleted")
    user_logged_out.connect(_signed_out, dispatch_uid="live.signed_out")
