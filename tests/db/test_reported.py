"""What a node says of its GPUs and their profiles, and how far its word goes."""

import msgspec
import pytest

from agents.protocol import GpuFact, ProfileFact
from portal.inventory.models import Gpu, Node, Profile
from portal.inventory.reported import record_gpus
from tests.factories import make_pool_with_gpus, profile_of

pytestmark = pytest.mark.django_db


def facts_of(node: Node, **changes) -> tuple[GpuFact, ...]:
    """The node's GPUs with the profiles that are known of them; ``changes`` are laid over each 3g.40gb."""
    found = []
    for gpu in Gpu.objects.filter(node=node):
        shapes = [
            ProfileFact(
                name=row.name, profile_id=row.nvml_profile_id, size=row.size, starts=tuple(row.starts),
                compute_slices=row.compute_slices, memory_mib=row.memory_mib, max_count=row.max_count)
            for row in Profile.objects.filter(gpu_model=gpu.model, mig=gpu.mig_enabled)]  # fmt: skip
        told = tuple(msgspec.structs.replace(one, **changes) if one.name == "3g.40gb" else one for one in shapes)
        found.append(GpuFact(
            uuid=gpu.uuid, index=gpu.index, model=gpu.model, memory_mib=gpu.memory_mib, profiles=told,
            memory_slices=gpu.memory_slices, compute_slices=gpu.compute_slices, mig_capable=gpu.mig_capable,
            mig_enabled=gpu.mig_enabled))  # fmt: skip
    return tuple(found)


def test_a_node_cannot_change_how_the_gpus_of_others_are_cut():
    pool = make_pool_with_gpus("H100", gpus=2, nodes=2)
    before = profile_of(pool, "3g.40gb")
    liar = pool.nodes.order_by("pk").first()
    record_gpus(liar, facts_of(liar, size=1, starts=(0, 1, 2, 3), profile_id=99, max_count=7))
    after = profile_of(pool, "3g.40gb")
    assert (after.size, after.starts, after.nvml_profile_id) == (before.size, before.starts, before.nvml_profile_id)


def test_the_only_node_of_a_model_may_correct_what_it_said():
    pool = make_pool_with_gpus("H100", gpus=1)
    weight = profile_of(pool, "3g.40gb").weight
    record_gpus(pool.nodes.get(), facts_of(pool.nodes.get(), memory_mib=40_000))
    assert (profile_of(pool, "3g.40gb").memory_mib, profile_of(pool, "3g.40gb").weight) == (40_000, weight)


def test_a_report_that_says_nothing_new_costs_the_same_for_eight_gpus_as_for_one(django_assert_max_num_queries):
    for gpus in (1, 8):
        node = make_pool_with_gpus("H100", gpus=gpus).nodes.get()
        told = facts_of(node)
        with django_assert_max_num_queries(10):
            record_gpus(node, told)


@pytest.mark.parametrize("change", [{"model": "NVIDIA A30"}, {"mig_enabled": False}])
def test_a_gpu_of_another_model_or_mode_is_not_taken_into_a_pool(change):
    """Neither one that joins nor one that has changed: what is in a pool is cut alike."""
    pool = make_pool_with_gpus("H100", gpus=2)
    node = pool.nodes.get()
    first, second = facts_of(node)
    joining = msgspec.structs.replace(first, uuid="GPU-new", index=2, **change)
    record_gpus(node, (first, msgspec.structs.replace(second, **change), joining))
    assert dict(node.gpus.order_by("index").values_list("index", "pool")) == {0: pool.pk, 1: None, 2: None}
    record_gpus(node, (first, second))
    assert dict(node.gpus.filter(present=True).values_list("index", "pool")) == {0: pool.pk, 1: pool.pk}
