"""A workload before it belongs to a reservation, checked against the grammar that every agent enforces again."""

import re
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from portal.tenants.models import Tenant
from portal.workloads.models import MOST_RESTARTS, RankLoss, Template, Workload

ENVIRONMENT_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
IMAGE = re.compile(r"[a-z0-9][a-z0-9._:/@-]{0,511}")
NOT_YOURS = ("LD_", "NVIDIA_", "CUDA_VISIBLE_DEVICES", "DOCKER_", "BERTH_")
LONGEST_COMMAND = 64
LONGEST_ITEM = 4096
LONGEST_VALUE = 8192
# A node's desired document holds every workload that it shall run within hours: none may fill it by itself.
LARGEST_BYTES = 32 * 1024


class DraftRefused(ValueError):
    """The workload cannot run as written; the text says what to change."""


@dataclass(frozen=True)
class WorkloadDraft:
    """``command`` is an argument list, never a shell line."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    grace_seconds: int = 30
    rank_loss: str = RankLoss.END
    restarts_most: int = 0


def draft_from_template(template: Template, name: str = "") -> WorkloadDraft:
    return WorkloadDraft(name or template.name, template.image, tuple(template.command), dict(template.environment))


def workload_from(draft: WorkloadDraft, tenant: Tenant) -> Workload:
    """The row of a workload that a reservation is about to own."""
    return workloads_from(draft, tenant, 1)[0]


def workloads_from(draft: WorkloadDraft, tenant: Tenant, count: int) -> list[Workload]:
    """One row for each of so many reservations."""
    return Workload.objects.bulk_create(
        Workload(
            tenant=tenant,
            name=draft.name,
            image=draft.image,
            command=list(draft.command),
            environment=draft.environment,
            grace_seconds=draft.grace_seconds,
            rank_loss=draft.rank_loss,
            restarts_most=draft.restarts_most,
        )
        for _number in range(count)
    )


def check_draft(draft: WorkloadDraft) -> WorkloadDraft:
    """Raise :class:`DraftRefused` with a sentence unless the workload keeps the grammar."""
    check_name(draft.name)
    if draft.image and not IMAGE.fullmatch(draft.image):
        raise DraftRefused(_("“%(image)s” is not an image name.") % {"image": draft.image[:80]})
    if not 0 <= draft.grace_seconds <= 600:
        raise DraftRefused(_("The time to save is 0 to 600 s."))
    _check_rank_loss(draft)
    _check_command(draft.command)
    _check_environment(draft.environment)
    parts = [*draft.command, *draft.environment, *draft.environment.values()]
    if sum(len(part.encode()) for part in parts) > LARGEST_BYTES:
        raise DraftRefused(
            _("Command and environment together have at most %(most)d kB.") % {"most": LARGEST_BYTES // 1024}
        )
    return draft


def _check_rank_loss(draft: WorkloadDraft) -> None:
    least = 1 if draft.rank_loss == RankLoss.RESTART else 0
    most = MOST_RESTARTS if least else 0
    if draft.rank_loss not in RankLoss.values or not least <= draft.restarts_most <= most:
        raise DraftRefused(
            _("When a rank is lost, the group ends, or starts again 1 to %(most)d times.") % {"most": MOST_RESTARTS})


def check_name(name: str) -> str:
    if not name.strip() or len(name) > 64 or not name.isprintable():
        raise DraftRefused(_("A name has 1 to 64 printable characters."))
    return name


def _check_command(command: tuple[str, ...]) -> None:
    if not command:
        raise DraftRefused(_("A command is needed."))
    if len(command) > LONGEST_COMMAND or any(len(item) > LONGEST_ITEM for item in command):
        raise DraftRefused(_("A command has at most 64 parts of 4,096 characters."))
    if command[0].startswith("-") or not command[0].strip():
        raise DraftRefused(_("The command must begin with a program."))
    if any("\0" in item for item in command):
        raise DraftRefused(_("A command cannot hold a NUL character."))


def _check_environment(environment: dict[str, str]) -> None:
    for name, value in environment.items():
        if not ENVIRONMENT_NAME.fullmatch(name):
            raise DraftRefused(_("“%(name)s” is not a name for a variable: use A–Z, 0–9 and _.") % {"name": name[:80]})
        if name == "PATH" or name.startswith(NOT_YOURS):
            raise DraftRefused(_("%(name)s is set by Berth and cannot be chosen.") % {"name": name})
        if len(value.encode()) > LONGEST_VALUE or "\0" in value:
            raise DraftRefused(_("The value of %(name)s is too long.") % {"name": name})
