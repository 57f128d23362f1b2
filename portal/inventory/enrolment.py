"""How a node joins and proves who it is: a one-time token, then a credential of its own. Both are kept as hashes."""

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from portal import events
from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.errors import EnrolmentRefused, InventoryRefused
from portal.inventory.models import EnrolmentToken, Gpu, Node, NodeState, Pool
from portal.inventory.tokens import new_token, token_hash


@transaction.atomic
def new_enrolment_token(*, node: Node, actor: User | None) -> str:
    """A token that lets one machine join as this node, once, within its lifetime. Earlier unused ones end."""
    if node.state == NodeState.RETIRED:
        raise InventoryRefused(_("%(node)s is retired. Add it as a new node.") % {"node": node})
    text, digest = new_token("berth_enrol")
    node.enrolment_tokens.filter(used_at__isnull=True).delete()
    EnrolmentToken.objects.create(
        node=node, token_hash=digest, created_by=actor, expires_at=timezone.now() + settings.ENROLMENT_TOKEN_LIFETIME
    )
    record_change(actor=actor, action="node.token", subject=node.name)
    return text


@transaction.atomic
def enrol(*, token: str, hostname: str) -> tuple[Node, str]:
    """Spend the token; returns the node and its new credential. An earlier credential of the node is void at once."""
    now = timezone.now()
    row = EnrolmentToken.objects.select_for_update().select_related("node").filter(token_hash=token_hash(token)).first()
    if row is None:
        raise EnrolmentRefused(_("This enrolment token is not known. Make a new one on the node's page."))
    if row.used_at is not None:
        raise EnrolmentRefused(_("This enrolment token was used already. Make a new one on the node's page."))
    if row.expires_at <= now or row.node.state == NodeState.RETIRED:
        raise EnrolmentRefused(_("This enrolment token has expired. Make a new one on the node's page."))
    EnrolmentToken.objects.filter(pk=row.pk, used_at__isnull=True).update(used_at=now)
    credential, digest = new_token("berth_node")
    Node.objects.filter(pk=row.node_id).update(credential_hash=digest, enrolled_at=now)
    record_change(actor=None, action="node.enrolled", subject=row.node.name, after={"hostname": hostname[:100]})
    events.tell_node_on_commit(row.node_id, "node.revoked")
    return Node.objects.get(pk=row.node_id), credential


def node_of_credential(credential: str) -> Node | None:
    """The node that holds this credential, unless it is retired."""
    if not credential:
        return None
    return Node.objects.exclude(state=NodeState.RETIRED).filter(credential_hash=token_hash(credential)).first()


@transaction.atomic
def retire_node(*, actor: User, node: Node) -> Node:
    """Take a node out for good: its credential is void at once. Refused while leases are bound to it.

    Locks the pools of its GPUs, then the node: no booking can bind a lease to it meanwhile.
    """
    pools = Gpu.objects.filter(node=node, pool__isnull=False).values("pool")
    list(Pool.objects.select_for_update(no_key=True).filter(pk__in=pools).order_by("pk"))
    node = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    held = node.gpus.filter(leases__state__in=["planned", "starting", "active", "stopping"]).distinct().count()
    if held:
        raise InventoryRefused(
            _("%(gpus)d GPUs of %(node)s hold leases. Drain it first.") % {"gpus": held, "node": node}
        )
    before = node.state
    Node.objects.filter(pk=node.pk).update(state=NodeState.RETIRED, credential_hash="")
    record_change(
        actor=actor, action="node.retired", subject=node.name, before={"state": before},
        after={"state": NodeState.RETIRED},
    )  # fmt: skip
    events.tell_node_on_commit(node.pk, "node.revoked")
    events.tell_everybody_on_commit("node.changed", node=node.pk)
    node.refresh_from_db()
    return node
