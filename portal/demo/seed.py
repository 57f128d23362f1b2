"""Writes the organisation of the demo. Everything is looked up first: seeding twice changes nothing."""

from django.contrib.auth.hashers import check_password, make_password
from django.db import transaction

from agents.drivers.simulator.models import load_models
from portal.accounts.models import User
from portal.demo.organisation import KINDS, PEOPLE, ROOT, SLICE_HOUR_SECONDS, TEAMS, Kind, Person, Team
from portal.demo.simulated import NODES
from portal.inventory.enrolment import new_enrolment_token
from portal.inventory.models import Node, Pool
from portal.inventory.services import create_node
from portal.quotas.models import Budget, Quota
from portal.tenants.models import Membership, Tenant
from portal.workloads.models import Template

TIME_ZONE = "Europe/Vienna"


@transaction.atomic
def seed_organisation(password: str) -> list[dict[str, str]]:
    """Tenants, pools, quotas, budgets, people, templates; returns the accounts as ``{"email", "what"}``."""
    pools = {name: _pool(name, model, mig) for name, (model, mig) in _pools_wanted().items()}
    tenants: dict[str, Tenant] = {}
    for team in (ROOT, *TEAMS):
        tenants[team.name] = _tenant(team, tenants.get(team.parent))
        _limits(team, tenants[team.name], pools)
    encoded = _encoded(password)
    for person in PEOPLE:
        _person(person, tenants[person.tenant], encoded)
    for position, kind in enumerate(KINDS):
        _template(kind, tenants[ROOT.name], position)
    return [{"email": person.email, "what": _said(person)} for person in PEOPLE]


def _said(person: Person) -> str:
    reads = "" if person.language == "en" else "; reads Chinese, as the foot of the menu can change"
    return f"{person.role.value} of {person.tenant}{reads}"


def _pools_wanted() -> dict[str, tuple[str, bool]]:
    """Name -> (model as the driver calls it, MIG). A node's pool is for its first GPU; others follow their model."""
    models = load_models()
    wanted = {node.pool: (models[node.gpus[0][0]].product, node.gpus[0][1]) for node in NODES}
    return wanted | {"L40S": (models["L40S"].product, False)}


def _pool(name: str, gpu_model: str, mig: bool) -> Pool:
    return Pool.objects.get_or_create(name=name, defaults={"gpu_model": gpu_model, "mig": mig})[0]


def _tenant(team: Team, parent: Tenant | None) -> Tenant:
    found = Tenant.objects.filter(name=team.name, parent=parent).first()
    if found is not None:
        return found
    made = Tenant.objects.create(
        name=team.name, code=team.code, hue=team.hue, parent=parent, path=f"new {team.name}", time_zone=TIME_ZONE
    )
    made.path = f"{parent.path if parent else '/'}{made.pk}/"
    made.save(update_fields=["path"])
    return made


def _limits(team: Team, tenant: Tenant, pools: dict[str, Pool]) -> None:
    for pool, guaranteed, limit in team.quotas:
        Quota.objects.get_or_create(
            tenant=tenant, pool=pools[pool], defaults={"guaranteed": guaranteed, "limit": limit}
        )
    Budget.objects.get_or_create(
        tenant=tenant, defaults={"slice_seconds": team.budget_slice_hours * SLICE_HOUR_SECONDS}
    )


def _encoded(password: str) -> str:
    """One hash for all of the demo's accounts, since each costs a third of a second; the stored one where it fits."""
    known = User.objects.filter(email=PEOPLE[0].email).first()
    if known is not None and check_password(password, known.password):
        return known.password
    return make_password(password)


def _person(person: Person, tenant: Tenant, encoded_password: str) -> None:
    user, made = User.objects.get_or_create(
        email=person.email,
        defaults={
            "name": person.name,
            "language": person.language,
            "time_zone": TIME_ZONE,
            "password": encoded_password,
        },
    )
    if not made and user.password != encoded_password:
        User.objects.filter(pk=user.pk).update(password=encoded_password)
    Membership.objects.get_or_create(user=user, tenant=tenant, defaults={"role": person.role})


def _template(kind: Kind, tenant: Tenant, position: int) -> None:
    Template.objects.get_or_create(
        tenant=tenant,
        name=kind.name,
        defaults={
            "summary": kind.summary,
            "command": ["python3", "-c", kind.source.strip()],
            "position": position,
        },
    )


def admit_nodes(wanted: dict[str, str]) -> dict[str, str]:
    """Name -> pool in, name -> one-time enrolment token out."""
    tokens = {}
    for name, pool in wanted.items():
        node = Node.objects.filter(name=name).first()
        node = node or create_node(actor=None, name=name, pool=Pool.objects.get(name=pool))
        tokens[name] = new_enrolment_token(node=node, actor=None)
    return tokens
