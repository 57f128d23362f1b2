"""Every service that changes a state or a right tells the audit trail: against the reviewed table in audit_table.py."""

import pytest

from portal.audit.actions import ACTIONS, GROUPS, group_of
from portal.audit.models import AuditEntry
from portal.inventory.enrolment import enrol, new_enrolment_token, retire_node
from portal.inventory.models import NodeState
from portal.inventory.services import change_pool, create_node, create_pool, set_node_state
from tests.db.audit_calls import actions_of, functions, services
from tests.db.audit_table import RECORDS, UNRECORDED
from tests.factories import make_user


def test_every_service_has_a_row():
    missing = services() - set(RECORDS) - set(UNRECORDED)
    assert not missing, f"add rows to tests/db/audit_table.py: {sorted(missing)}"


def test_every_row_has_a_service():
    assert not {path for path in (*RECORDS, *UNRECORDED) if path not in functions()}
    assert not set(RECORDS) & set(UNRECORDED)


@pytest.mark.parametrize("path", RECORDS)
def test_a_service_records_what_the_table_says(path):
    assert RECORDS[path] <= actions_of(path), f"{path} records {sorted(actions_of(path))}"


def test_what_is_said_to_record_nothing_records_nothing():
    assert {path: actions_of(path) for path in UNRECORDED if actions_of(path)} == {}


def test_every_action_has_a_word_and_a_group():
    recorded = {action for one in functions().values() for action in one.actions}
    assert len(recorded) > 30
    wordless = {action for action in recorded if "*" not in action and action not in ACTIONS}
    assert not wordless, "add a word for each to portal/audit/actions.py"
    assert {group_of(action) for action in {*recorded, *ACTIONS}} <= set(GROUPS)


def test_the_search_for_services_can_fail():
    assert "portal.accounts.services.create_token" in services()
    assert "portal.tenants.selectors.tenants_of" not in services()
    assert actions_of("portal.tenants.people.accept_invitation") == {"member.joined", "person.created"}
    assert actions_of("portal.tenants.selectors.tenants_of") == set()


@pytest.mark.django_db
def test_a_nodes_life_is_told_with_what_was_before_and_after():
    admin = make_user("ada")
    pool = create_pool(actor=admin, name="H100 MIG", longest_window_seconds=7200)
    change_pool(actor=admin, pool=pool, longest_window_seconds=86400)
    node = create_node(actor=admin, name="quay-01", pool=pool)
    enrol(token=new_enrolment_token(node=node, actor=admin), hostname="machine-1")
    set_node_state(actor=admin, node=node, state=NodeState.CORDONED)
    retire_node(actor=admin, node=node)
    told = AuditEntry.objects.order_by("id").values_list("action", "actor", "subject", "before", "after")
    assert list(told) == [
        ("pool.created", admin.pk, "H100 MIG", {}, {"longest_window_seconds": 7200}),
        ("pool.changed", admin.pk, "H100 MIG", {"longest_window_seconds": 7200}, {"longest_window_seconds": 86400}),
        ("node.created", admin.pk, "quay-01", {}, {"pool": "H100 MIG"}),
        ("node.token", admin.pk, "quay-01", {}, {}),
        ("node.enrolled", None, "quay-01", {}, {"hostname": "machine-1"}),
        ("node.state", admin.pk, "quay-01", {"state": "ready"}, {"state": "cordoned"}),
        ("node.retired", admin.pk, "quay-01", {"state": "cordoned"}, {"state": "retired"}),
    ]
