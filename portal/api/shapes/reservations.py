"""Reservations, leases and availability as the API tells them. All is read-only: changes are verbs of their own."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.reservations.group_words import detail_of
from portal.reservations.models import EndReason, Lease, LeaseState, Reservation, State, Wait
from portal.reservations.queue_reasons import reason_sentence
from portal.workloads.models import RankLoss


class NamedShape(serializers.Serializer):
    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()


class SpanShape(serializers.Serializer):
    """Memory slices ``[start, end)``."""

    start = serializers.IntegerField(source="lower")
    end = serializers.IntegerField(source="upper")


class LeaseShape(serializers.Serializer):
    id = serializers.IntegerField(source="pk")
    rank = serializers.IntegerField()
    state = serializers.ChoiceField(choices=LeaseState.choices)
    node = serializers.CharField(source="gpu.node.name")
    node_id = serializers.IntegerField(source="gpu.node_id")
    gpu = serializers.IntegerField(source="gpu_id")
    gpu_index = serializers.IntegerField(source="gpu.index")
    gpu_uuid = serializers.CharField(source="gpu.uuid")
    span = SpanShape()
    mig_uuid = serializers.CharField()
    start = serializers.DateTimeField(source="during.lower")
    end = serializers.DateTimeField(source="during.upper")
    frozen_at = serializers.DateTimeField(allow_null=True)
    starting_at = serializers.DateTimeField(allow_null=True)
    active_at = serializers.DateTimeField(allow_null=True)
    stopping_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    detail = serializers.SerializerMethodField()

    def get_detail(self, lease: Lease) -> str:
        return detail_of(lease)


class WorkloadShape(serializers.Serializer):
    """Of the environment only the names: values are for the workload alone."""

    name = serializers.CharField()
    image = serializers.CharField()
    command = serializers.ListField(child=serializers.CharField())
    environment_names = serializers.SerializerMethodField()
    grace_seconds = serializers.IntegerField()
    rank_loss = serializers.ChoiceField(choices=RankLoss.choices)
    restarts_most = serializers.IntegerField()
    restarts = serializers.IntegerField(help_text="how often the group was started again")

    def get_environment_names(self, workload) -> list[str]:
        return sorted(workload.environment)


class WaitShape(serializers.Serializer):
    """Why a queued reservation waits. Its start and end are an estimate, unless it waits for exactly its window."""

    fixed = serializers.BooleanField(help_text="waits for exactly its window")
    seconds = serializers.IntegerField()
    since = serializers.DateTimeField()
    not_before = serializers.DateTimeField()
    give_up_at = serializers.DateTimeField()
    estimated_at = serializers.DateTimeField(allow_null=True, help_text="null: no start is in sight")
    reason = serializers.CharField(help_text="no_room, behind, limit, budget, person, maintenance and others")
    message = serializers.SerializerMethodField()
    evidence = serializers.DictField()
    checked_at = serializers.DateTimeField(allow_null=True)
    offers_lapsed = serializers.IntegerField()

    def get_message(self, wait: Wait) -> str:
        return reason_sentence(wait)


class ReservationShape(serializers.Serializer):
    id = serializers.IntegerField(source="pk")
    number = serializers.CharField()
    tenant = NamedShape()
    owner = NamedShape()
    pool = NamedShape()
    profile = serializers.CharField(source="profile.name")
    ranks = serializers.IntegerField()
    weight = serializers.IntegerField(help_text="of one rank")
    start = serializers.DateTimeField(source="during.lower")
    end = serializers.DateTimeField(source="during.upper")
    state = serializers.ChoiceField(choices=State.choices)
    end_reason = serializers.ChoiceField(choices=EndReason.choices, allow_blank=True)
    end_detail = serializers.CharField()
    price_slice_seconds = serializers.IntegerField(help_text="weighted slice-seconds of the whole window")
    node = serializers.IntegerField(
        source="pinned_node_id", allow_null=True, help_text="where all of it is to sit, if that was asked for"
    )
    together = serializers.BooleanField(
        allow_null=True, help_text="whether its ranks work as one group; null: several whole GPUs do"
    )
    borrowed = serializers.BooleanField(help_text="held above the guarantee: may be displaced")
    approval = serializers.IntegerField(source="approval_id", allow_null=True)
    continues = serializers.IntegerField(
        source="continues_id", allow_null=True, help_text="the reservation of which this is the rest"
    )
    created_at = serializers.DateTimeField()
    running_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    hold_expires_at = serializers.DateTimeField(
        allow_null=True, help_text="until when a request or an offer holds its place"
    )
    wait = serializers.SerializerMethodField()
    workload = WorkloadShape()
    leases = LeaseShape(many=True)

    @extend_schema_field(WaitShape(allow_null=True))
    def get_wait(self, reservation: Reservation) -> dict | None:
        wait = getattr(reservation, "wait", None)
        return WaitShape(wait).data if wait is not None else None


class LogShape(serializers.Serializer):
    """The end of what one rank wrote, up to 64 KiB."""

    lease = serializers.IntegerField()
    rank = serializers.IntegerField()
    text = serializers.CharField(allow_blank=True)


class PlacementShape(serializers.Serializer):
    gpu = serializers.IntegerField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()


class AlternativeShape(serializers.Serializer):
    """A request that would be taken: repeat yours with these values."""

    kind = serializers.CharField()
    pool = serializers.IntegerField()
    profile = serializers.CharField()
    ranks = serializers.IntegerField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    price_slice_seconds = serializers.IntegerField()


class RefusalShape(serializers.Serializer):
    """Every answer of 4xx and 503: one code, one sentence, the numbers behind it, and up to three ways on."""

    code = serializers.CharField()
    message = serializers.CharField()
    evidence = serializers.DictField()
    alternatives = AlternativeShape(many=True)


class ReasonShape(serializers.Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    evidence = serializers.DictField()


class AvailabilityShape(serializers.Serializer):
    fits = serializers.BooleanField()
    placements = PlacementShape(many=True)
    reason = ReasonShape(allow_null=True)
    alternatives = AlternativeShape(many=True)
    price_slice_seconds = serializers.IntegerField()
    budget_left_slice_seconds = serializers.IntegerField(
        allow_null=True, help_text="before this; null: no budget binds"
    )
    held_peak = serializers.IntegerField(allow_null=True)
    quota_guaranteed = serializers.IntegerField(allow_null=True)
    quota_limit = serializers.IntegerField(allow_null=True)


class FreeShape(serializers.Serializer):
    profile = serializers.CharField()
    free = serializers.IntegerField()
    next_free_at = serializers.DateTimeField(allow_null=True)


class FreeAtShape(serializers.Serializer):
    at = serializers.DateTimeField()
    free = serializers.IntegerField()
