"""Who may do what at every address. Reviewed by hand: a new address without a row here fails the suite.

The world: an organisation with two teams, ours and another. ``{tenant}``, ``{reservation}`` and so on in an address, a
query or a body stand for ids of ours. A role without prefix is held in our team, ``other_`` in the other; ``token`` is
a program of our member. Whoever is not in ``may`` gets ``no`` when signed in, and is sent to sign in when not.
"""

import re
from dataclasses import dataclass, field

NOBODY_SIGNED_IN = ("anonymous", "disabled", "dead_token")
OTHERS = ("other_viewer", "other_member", "other_lead", "other_admin")
OURS = ("viewer", "member", "lead", "admin")
SESSIONS = ("no_tenant", *OURS, *OTHERS, "platform_admin")
ROLES = (*NOBODY_SIGNED_IN, "token", *SESSIONS)

EVERYBODY = frozenset(ROLES)
SIGNED_IN = frozenset((*SESSIONS, "token"))
SEES_US = frozenset((*OURS, "platform_admin", "token"))
MEMBERS = SEES_US - {"viewer"}
LEADS = frozenset(("lead", "admin", "platform_admin"))
ADMINS = frozenset(("admin", "platform_admin"))
SOME_ADMIN = ADMINS | {"other_admin"}
PLATFORM = frozenset(("platform_admin",))
SOME_LEAD = LEADS | {"other_lead", "other_admin"}
# Our reservation belongs to our member: themselves, their program, and whoever leads the team.
GIVES_BACK = LEADS | {"member", "token"}
ITS_OWNER = frozenset(("member",))
NOT_IN_YET = frozenset((*NOBODY_SIGNED_IN, "token"))
BOOK_SOMEWHERE = SIGNED_IN - {"no_tenant", "viewer", "other_viewer"}
# The limits of a tenant are set from above: for our team, by the admins of the organisation.
FROM_ABOVE = PLATFORM


@dataclass(frozen=True)
class Row:
    """One verb at one address. ``no``: what a signed-in person gets who may not, ``but`` where it differs for one role.

    ``csrf`` False: no session is used.
    """

    verb: str
    url: str
    may: frozenset[str]
    ok: int = 200
    no: int = 404
    body: dict = field(default_factory=dict)
    but: dict[str, int] = field(default_factory=dict)
    csrf: bool = True

    @property
    def is_api(self) -> bool:
        return self.url.startswith("/api/")

    @property
    def names_something(self) -> bool:
        return bool(re.search(r"{\w+}", f"{self.url} {self.body}"))


def reads(url: str, may: frozenset[str] = SIGNED_IN, **more) -> Row:
    return Row("GET", url, may, **more)


def writes(url: str, may: frozenset[str] = SIGNED_IN, ok: int = 302, **more) -> Row:
    return Row("POST", url, may, ok, **more)


PEOPLE = "/tenants/{tenant}/people/"
ONE = "/api/v1/reservations/{reservation}/"
WINDOW = "start={start}&end={end}"
BOOKING = {
    "tenant": "{tenant}", "pool": "{pool}", "profile": "1g.10gb", "start": "{start}", "end": "{end}",
    "workload": {"name": "x", "command": ["x"]},
}  # fmt: skip
ONE_SERIES = "/api/v1/series/{series}/"
SERIES = {name: BOOKING[name] for name in ("tenant", "pool", "profile", "workload")} | {
    "name": "course", "rule": "FREQ=DAILY;COUNT=2", "time_zone": "UTC", "first_date": "{start:.10}",
    "opens": "22:59", "closes": "23:59",
}  # fmt: skip

TABLE: dict[str, tuple[Row, ...]] = {
    "health": (reads("/healthz", EVERYBODY),),
    # ---- getting in
    "account_login": (
        reads("/sign-in/", NOT_IN_YET, no=302),
        writes("/sign-in/", NOT_IN_YET, 422, no=302, body={"login": "x"}),
    ),
    "account_logout": (writes("/sign-out/", EVERYBODY),),
    "account_reset_password": (
        reads("/password/reset/", EVERYBODY),
        writes("/password/reset/", EVERYBODY, 422, body={"email": "x"}),
    ),
    "account_reset_password_done": (reads("/password/reset/done/", EVERYBODY),),
    "account_reset_password_from_key": (
        reads("/password/reset/key/1-x/", EVERYBODY, ok=404),
        writes("/password/reset/key/1-x/", EVERYBODY, 404),
    ),
    "account_reset_password_from_key_done": (reads("/password/reset/key/done/", EVERYBODY),),
    "invitation": (
        reads("/invitation/x/", EVERYBODY, ok=404),
        writes("/invitation/x/", EVERYBODY, 404),
    ),
    "set_language": (writes("/language/", EVERYBODY, body={"language": "en"}),),
    # ---- oneself
    "profile": (reads("/profile/"), writes("/profile/", ok=422)),
    "profile_notices": (writes("/profile/notices/", ok=200),),
    "profile_password": (writes("/profile/password/", ok=422),),
    "token_create": (writes("/profile/tokens/", ok=422),),
    "token_revoke": (writes("/profile/tokens/{token_key}/revoke/", ITS_OWNER),),
    # ---- what one was told
    "inbox": (reads("/inbox/"),),
    "inbox_count": (reads("/inbox/count/"),),
    "inbox_news": (reads("/inbox/news/?after=0"),),
    "inbox_read": (writes("/inbox/read/", ok=303),),
    "notice_open": (reads("/inbox/{notice}/", ITS_OWNER, ok=302),),
    "notice_read": (writes("/inbox/{notice}/read/", ITS_OWNER, 303),),
    "mail_list": (reads("/mail/", PLATFORM),),
    "mail_retry_all": (writes("/mail/retry/", PLATFORM, 303),),
    "mail_retry": (writes("/mail/{delivery}/retry/", PLATFORM, 303),),
    # ---- people of a tenant
    "people": (reads(PEOPLE, SEES_US),),
    "people_invite": (writes(PEOPLE + "invite/", LEADS, 200, body={"email": "new@example.org", "role": "member"}),),
    "people_role": (writes(PEOPLE + "{user}/role/", LEADS, body={"role": "viewer"}),),
    "people_remove": (writes(PEOPLE + "{user}/remove/", LEADS),),
    "people_disable": (writes(PEOPLE + "{user}/disable/", LEADS),),
    "people_enable": (writes(PEOPLE + "{user}/enable/", LEADS),),
    "people_reset": (writes(PEOPLE + "{user}/reset/", LEADS, 200),),
    "invitation_withdraw": (writes("/tenants/{tenant}/invitations/{invitation}/withdraw/", LEADS),),
    # ---- pages
    "home": (reads("/"),),
    "home_rail": (reads("/rail/"),),
    "find": (reads("/find/"),),
    "tenant_choose": (writes("/tenant/", SEES_US, body={"tenant": "{tenant}"}),),
    "reserve": (reads("/reserve/", BOOK_SOMEWHERE, no=403), writes("/reserve/", BOOK_SOMEWHERE, 422, no=403)),
    "reserve_preview": (reads("/reserve/preview/", BOOK_SOMEWHERE, no=403),),
    "reservation_list": (reads("/reservations/"),),
    "reservation": (reads("/reservations/R-{reservation}/", SEES_US),),
    "reservation_release": (
        reads("/reservations/R-{reservation}/release/", GIVES_BACK),
        writes("/reservations/R-{reservation}/release/", GIVES_BACK, 303),
    ),
    "reservation_log": (reads("/reservations/R-{ended}/log/", SEES_US),),
    "reservation_change": (
        reads("/reservations/R-{reservation}/change/", GIVES_BACK),
        writes("/reservations/R-{reservation}/change/", GIVES_BACK, 303, body={"name": "other"}),
    ),
    "approvals": (reads("/approvals/"),),
    "approval_approve": (writes("/approvals/{approval}/approve/", LEADS, 303),),
    "approval_refuse": (writes("/approvals/{approval}/refuse/", LEADS, 303, body={"note": "no"}),),
    "queue": (reads("/queue/"), reads("/queue/?pool={pool}")),
    "offer_accept": (writes("/reservations/R-{reservation}/accept/", GIVES_BACK, 303),),
    "offer_decline": (writes("/reservations/R-{reservation}/decline/", GIVES_BACK, 303),),
    "series": (reads("/series/"),),
    "series_new": (reads("/series/new/", BOOK_SOMEWHERE, no=403), writes("/series/new/", BOOK_SOMEWHERE, 422, no=403)),
    "series_preview": (reads("/series/new/preview/", BOOK_SOMEWHERE, no=403),),
    "series_one": (reads("/series/{series}/", SEES_US),),
    "series_change": (writes("/series/{series}/change/", LEADS, 422),),
    "series_cancel": (reads("/series/{series}/cancel/", LEADS), writes("/series/{series}/cancel/", LEADS, 303)),
    "series_skip": (
        reads("/series/{series}/skip/{occurrence}/", LEADS),
        writes("/series/{series}/skip/{occurrence}/", LEADS, 303),
    ),
    "series_person_add": (writes("/series/{series}/people/", LEADS, 422),),
    "series_person_remove": (writes("/series/{series}/people/{user}/remove/", LEADS, 303),),
    "timeline": (reads("/timeline/"),),
    "fleet": (reads("/fleet/"),),
    "usage": (reads("/usage/?tenant={tenant}", SEES_US),),
    "tenants": (reads("/tenants/"),),
    "tenant_add": (reads("/tenants/add/", SOME_ADMIN), writes("/tenants/add/", SOME_ADMIN, 422)),
    "tenant_quota": (writes("/tenants/{tenant}/quota/", FROM_ABOVE, 422),),
    "tenant_budget": (writes("/tenants/{tenant}/budget/", FROM_ABOVE, 422),),
    "tenant_quota_period": (writes("/tenants/{tenant}/quota/period/", FROM_ABOVE, 422),),
    "tenant_quota_remove": (writes("/tenants/{tenant}/quota/{quota}/remove/", FROM_ABOVE),),
    "tenant_policy": (writes("/tenants/{tenant}/policy/", FROM_ABOVE),),
    "tenant_uncovered": (reads("/tenants/{tenant}/uncovered/", FROM_ABOVE),),
    "audit": (reads("/audit/", SOME_LEAD), reads("/audit/?tenant={tenant}", LEADS)),
    # ---- maintenance
    "maintenance": (reads("/maintenance/"),),
    "maintenance_plan": (reads("/maintenance/plan/", PLATFORM), writes("/maintenance/plan/", PLATFORM, 422)),
    "maintenance_preview": (reads("/maintenance/preview/", PLATFORM),),
    "maintenance_one": (
        reads("/maintenance/{maintenance}/"),
        writes("/maintenance/{maintenance}/", PLATFORM, 422),
    ),
    "maintenance_end": (writes("/maintenance/{maintenance}/end/", PLATFORM, 303),),
    "maintenance_ways": (
        reads("/maintenance/R-{reservation}/", GIVES_BACK),
        writes("/maintenance/R-{reservation}/", GIVES_BACK, 422),
    ),
    # ---- calendar addresses
    "calendar": (reads("/calendar/"),),
    "calendar_make": (
        writes("/calendar/feeds/", SEES_US, 200, body={"what": "tenant-{tenant}"}),
        writes("/calendar/feeds/", PLATFORM, 200, body={"what": "node-{node}"}),
    ),
    "calendar_revoke": (writes("/calendar/feeds/{calendar_feed}/revoke/", ITS_OWNER),),
    "calendar_feed": (reads("/calendar/nobodys.ics", EVERYBODY, ok=404),),
    # ---- pools and nodes
    "nodes": (reads("/nodes/", PLATFORM),),
    "node_add": (reads("/nodes/add/", PLATFORM), writes("/nodes/add/", PLATFORM, 422)),
    "pool_add": (reads("/nodes/pools/add/", PLATFORM), writes("/nodes/pools/add/", PLATFORM, 422)),
    "pool": (reads("/nodes/pools/{pool}/", PLATFORM), writes("/nodes/pools/{pool}/", PLATFORM, 422)),
    "profile_weight": (writes("/nodes/pools/{pool}/weights/{profile}/", PLATFORM, body={"weight": "2"}),),
    "node": (reads("/nodes/{node}/", PLATFORM),),
    "node_token": (writes("/nodes/{node}/token/", PLATFORM, 200),),
    "node_state": (
        reads("/nodes/{node}/state/?state=draining", PLATFORM),
        writes("/nodes/{node}/state/", PLATFORM, body={"state": "cordoned"}),
    ),
    "node_rack": (writes("/nodes/{node}/rack/", PLATFORM, body={"rack": "r1"}),),
    "node_retire": (writes("/nodes/{node}/retire/", PLATFORM, 409),),
    "node_write_off": (writes("/nodes/{node}/write-off/", PLATFORM),),
    "node_enrol": (writes("/agent/v1/enrol", EVERYBODY, 400, csrf=False),),
    "agent_installer": (reads("/agent/v1/install.sh", EVERYBODY),),
    "agent_archive": (reads("/agent/v1/agent.tar.gz", EVERYBODY),),
    # ---- API
    "api_me": (reads("/api/v1/me/"),),
    "api_tenants": (reads("/api/v1/tenants/"),),
    "api_policy": (
        reads("/api/v1/tenants/{tenant}/policy/", SEES_US),
        Row("PUT", "/api/v1/tenants/{tenant}/policy/", FROM_ABOVE, body={"longest_window_seconds": "3600"}),
    ),
    "api_quota": (
        reads("/api/v1/tenants/{tenant}/quota/{pool}/", SEES_US),
        Row("PUT", "/api/v1/tenants/{tenant}/quota/{pool}/", FROM_ABOVE, body={"guaranteed": "0", "limit": "7"}),
    ),
    "api_quota_row": (Row("DELETE", "/api/v1/tenants/{tenant}/quota/{pool}/{quota}/", FROM_ABOVE),),
    "api_pools": (reads("/api/v1/pools/"),),
    "api_fragmentation": (reads("/api/v1/pools/{pool}/fragmentation/?profile=1g.10gb"),),
    "api_free": (reads("/api/v1/pools/{pool}/free/?" + WINDOW),),
    "api_free_over_time": (reads("/api/v1/pools/{pool}/free-over-time/?profile=1g.10gb&since={start}"),),
    "api_availability": (
        reads("/api/v1/availability/?tenant={tenant}&pool={pool}&profile=1g.10gb&" + WINDOW, SEES_US),
    ),
    "api_reservations": (
        reads("/api/v1/reservations/"),
        reads("/api/v1/reservations/?tenant={tenant}", SEES_US),
        writes("/api/v1/reservations/", MEMBERS, 201, body=BOOKING, but={"viewer": 409}),
    ),
    "api_reservation": (
        reads(ONE, SEES_US),
        Row("PATCH", ONE, GIVES_BACK, body={"name": "other"}),
        Row("DELETE", ONE, GIVES_BACK),
    ),
    "api_approvals": (reads("/api/v1/approvals/"),),
    "api_approve": (writes("/api/v1/approvals/{approval}/approve/", LEADS, 200),),
    "api_refuse": (writes("/api/v1/approvals/{approval}/refuse/", LEADS, 200, body={"note": "no"}),),
    "api_release": (writes(ONE + "release/", GIVES_BACK, 200),),
    "api_cancel": (writes(ONE + "cancel/", GIVES_BACK, 200),),
    "api_accept": (writes(ONE + "accept/", GIVES_BACK, 409),),
    "api_decline": (writes(ONE + "decline/", GIVES_BACK, 409),),
    "api_log": (reads(ONE + "log/", SEES_US),),
    "api_series": (
        reads("/api/v1/series/"),
        reads("/api/v1/series/?tenant={tenant}", SEES_US),
        writes("/api/v1/series/", MEMBERS, 201, body=SERIES, but={"viewer": 409}),
    ),
    "api_series_one": (
        reads(ONE_SERIES, SEES_US), Row("DELETE", ONE_SERIES, LEADS), Row("PATCH", ONE_SERIES, LEADS, 422)),
    "api_series_people": (writes(ONE_SERIES + "people/", LEADS, 422),),
    "api_series_person": (Row("DELETE", ONE_SERIES + "people/{user}/", LEADS),),
    "api_series_skip": (writes(ONE_SERIES + "skip/", LEADS, 200, body={"date": "{occurrence}"}),),
    "api_fleet": (reads("/api/v1/fleet/"),),
    "api_maintenance": (
        reads("/api/v1/maintenance/"),
        writes("/api/v1/maintenance/", PLATFORM, 201,
               body={"node": "{node}", "start": "{start}", "end": "{end}", "reason": "new driver"}),
    ),
    "api_maintenance_preview": (reads("/api/v1/maintenance/preview/?pool={pool}&" + WINDOW, PLATFORM),),
    "api_maintenance_one": (
        reads("/api/v1/maintenance/{maintenance}/"),
        Row("PATCH", "/api/v1/maintenance/{maintenance}/", PLATFORM, 422),
    ),
    "api_maintenance_cancel": (writes("/api/v1/maintenance/{maintenance}/cancel/", PLATFORM, 200),),
    "api_maintenance_end": (writes("/api/v1/maintenance/{maintenance}/end/", PLATFORM, 409),),
    "api_node_state": (writes("/api/v1/nodes/{node}/state/", PLATFORM, 200, body={"state": "cordoned"}),),
    "api_node_rack": (writes("/api/v1/nodes/{node}/rack/", PLATFORM, 200, body={"rack": "r1"}),),
    "api_audit": (reads("/api/v1/audit/", SOME_LEAD), reads("/api/v1/audit/?tenant={tenant}", LEADS)),
    "api_usage": (reads("/api/v1/usage/?tenant={tenant}&since=2026-11-01&until=2026-11-30", SEES_US),),
    "api_notices": (reads("/api/v1/notices/"),),
    "api_notice_read": (writes("/api/v1/notices/{notice}/read/", ITS_OWNER | {"token"}, 200),),
    "api_schema": (reads("/api/schema/", EVERYBODY),),
    "api_docs": (reads("/api/docs/", EVERYBODY),),
}

# Sockets: who is accepted. An agent proves itself by a credential in a header, which none of these people has.
SOCKETS: dict[str, frozenset[str]] = {
    "/live/": frozenset(SESSIONS),
    "/agent/v1/socket": frozenset(),
}
