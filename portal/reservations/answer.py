"""The answer beside the reserve form: fits and where, or why not and what instead; when it is free; what it costs."""

import datetime as dt
from dataclasses import dataclass

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.inventory.models import Profile
from portal.reservations.alternatives import Alternative
from portal.reservations.availability import FreeCount, Preview, free_counts, free_over_time, preview
from portal.reservations.canvas import Frame, GpuCanvas, Viewer, gpu_canvas
from portal.reservations.errors import GroupRefused, ReservationRefused
from portal.reservations.forms import FIELD_OF_REFUSAL, ReserveForm
from portal.reservations.group_asked import group_refusal, whole_profile, wholes_instead
from portal.reservations.models import LIVE, Lease
from portal.reservations.offer import CHART, Offer
from portal.reservations.outlook import Outlook
from portal.reservations.queue_line import Outcome, outcome_of, waiting_for
from portal.reservations.queueing import PASSES
from portal.reservations.templatetags.berth_format import window as window_text
from portal.reservations.ways_on import WayOn, ways_on

HOUR = dt.timedelta(hours=1)
CHART_PX, BAR_MOST_PX = 64, 54
WHOLE_POOLS_TRIED = 3


@dataclass(frozen=True)
class Bar:
    x: str
    y: float
    height: float
    inside: bool


@dataclass(frozen=True)
class Pick:
    profile: Profile
    count: FreeCount | None

    @property
    def cells(self) -> range:
        return range(self.profile.size)


@dataclass(frozen=True)
class Answer:
    """``preview`` is None while the form is not valid. ``refusal`` is why it cannot be booked as asked.

    ``soon`` is what comes of asking for no window. ``ahead`` is set where a refused window has a waitlist: how many
    wait for it already.
    """

    preview: Preview | None
    refusal: ReservationRefused | None
    ways: tuple[WayOn, ...]
    canvas: GpuCanvas | None
    bars: tuple[Bar, ...]
    most_free: int
    chart_frame: Frame | None
    moves_until: dt.datetime | None
    this_costs: int
    soon: Outcome | None = None
    ahead: int | None = None

    @property
    def fits(self) -> bool:
        return self.preview is not None and self.refusal is None


NO_ANSWER = Answer(None, None, (), None, (), 0, None, None, 0)


def picks_of(offer: Offer, during: DateTimeTZRange | None) -> list[Pick]:
    """The profiles with how many are free for the whole window, or for the next hour while there is none."""
    if offer.pool is None:
        return []
    now = timezone.now()
    counts = free_counts(offer.pool, during or DateTimeTZRange(now, now + HOUR, "[)"), outlook=offer.outlook)
    found = {count.profile.pk: count for count in counts}
    return [Pick(profile, found.get(profile.pk)) for profile in offer.profiles]


def answer_to(
    form: ReserveForm,
    viewer: Viewer,
    refusal: ReservationRefused | None = None,
    outlook: Outlook | None = None,
    *,
    asker: User,
) -> Answer:
    """What is shown beside a valid form; one query beyond the outlook. ``refusal`` is what booking itself said."""
    valid, during = form.is_valid(), form.request_window
    if not valid or during is None:
        return NO_ANSWER
    asked, outlook = form.cleaned_data, outlook or form.offer.outlook
    soon = _soon(form, asker) if form.soon else None
    if soon and soon.during and outlook and outlook.covers(soon.during):
        during = soon.during
    seen = _preview(form, during, outlook, asker)
    refusal = refusal or _refusal(form, soon.refusal if soon else seen.reason)
    bars, most, frame = _chart(form, during, outlook)
    frozen = during.lower - settings.FREEZE_HORIZON
    weight = asked["profile"].weight * asked["ranks"]
    alternatives = refusal.alternatives if refusal and not soon else ()
    if isinstance(refusal, GroupRefused):
        alternatives = _whole_gpus(form, during, asker)
    return Answer(
        preview=seen,
        refusal=refusal,
        ways=ways_on(asked["profile"], asked["ranks"], during, alternatives),
        canvas=_canvas(seen, asked["profile"], during, viewer) if refusal is None else None,
        bars=bars,
        most_free=most,
        chart_frame=frame,
        moves_until=frozen if frozen > timezone.now() else None,
        this_costs=seen.budget.cost(weight, during.lower, during.upper) if seen.budget else 0,
        soon=soon,
        ahead=waiting_for(asked["pool"], during) if refusal and not soon and isinstance(refusal, PASSES) else None,
    )


def _preview(form: ReserveForm, during: DateTimeTZRange, outlook: Outlook | None, asker: User) -> Preview:
    """The form offers the tenants in which the asker may book, and takes no other."""
    asked = form.cleaned_data
    image = form.draft.image if form.draft else None
    return preview(
        asked["tenant"], asked["pool"], asked["profile"], asked["ranks"], during, image=image, outlook=outlook,
        owner=asker, known_member=True)  # fmt: skip


def _refusal(form: ReserveForm, no_place: ReservationRefused | None) -> ReservationRefused | None:
    """What can never work comes before what has no place now."""
    asked = form.cleaned_data
    return group_refusal(asked["tenant"], asked["profile"], asked["ranks"], form.together) or no_place


def _whole_gpus(form: ReserveForm, during: DateTimeTZRange, asker: User) -> tuple[Alternative, ...]:
    """In place of slices that cannot work as one group: as many whole GPUs then, or when there are."""
    tenant, ranks = form.cleaned_data["tenant"], form.cleaned_data["ranks"]
    later: tuple[Alternative, ...] = ()
    for pool in wholes_instead(tenant)[:WHOLE_POOLS_TRIED]:
        profile = whole_profile(pool)
        seen = preview(tenant, pool, profile, ranks, during, owner=asker, known_member=True)
        if seen.fits:
            return (Alternative("other_pool", pool, profile, ranks, during, seen.price_slice_seconds, seen.placements),)
        later = later or seen.alternatives
    return later


def _soon(form: ReserveForm, asker: User) -> Outcome:
    asked, during = form.cleaned_data, form.request_window
    assert during is not None
    seconds = int((during.upper - during.lower).total_seconds())
    return outcome_of(
        asker=asker, tenant=asked["tenant"], pool=asked["pool"], profile=asked["profile"], ranks=asked["ranks"],
        seconds=seconds, workload=form.draft, now=timezone.now())  # fmt: skip


def field_refused(form: ReserveForm, refusal: ReservationRefused) -> None:
    """Put a refusal that names a field beside it."""
    form.add_error(FIELD_OF_REFUSAL.get(refusal.field, "start_time"), refusal.message)


def _canvas(seen: Preview, profile: Profile, during: DateTimeTZRange, viewer: Viewer) -> GpuCanvas | None:
    if not seen.placements:
        return None
    gpu = seen.placements[0].gpu
    length = during.upper - during.lower
    before, after = max(2 * HOUR, length / 2), max(3 * HOUR, length * 0.75)
    frame = Frame(during.lower - before, during.upper + after, most_ticks=6)
    leases = Lease.objects.filter(gpu=gpu, state__in=LIVE, during__overlap=(frame.since, frame.until))
    related = leases.select_related("reservation__tenant", "reservation__profile", "reservation__workload", "gpu__node")
    title, text = _("Yours: %(profile)s") % {"profile": profile.name}, window_text(during)
    ghosts = [
        (one.start, one.end, during.lower, during.upper, title, text) for one in seen.placements if one.gpu.pk == gpu.pk
    ]
    return gpu_canvas(gpu, frame, related, viewer, ghosts)


def _chart(form: ReserveForm, during: DateTimeTZRange, outlook: Outlook | None) -> tuple[tuple[Bar, ...], int, Frame]:
    """One bar an hour for two days: how many fit for all of that hour."""
    asked = form.cleaned_data
    hours = int(CHART / HOUR)
    counts = free_over_time(asked["pool"], asked["profile"], form.now, hours, HOUR, outlook=outlook)
    most = max((count for _at, count in counts), default=0)
    scale = BAR_MOST_PX / most if most else 0
    bars = tuple(
        Bar(
            x=f"{100 * number / hours:.4g}%",
            y=CHART_PX - max(1.0, count * scale),
            height=max(1.0, count * scale),
            inside=at < during.upper and at + HOUR > during.lower,
        )
        for number, (at, count) in enumerate(counts)
    )
    return bars, most, Frame(form.now, form.now + CHART, most_ticks=5)
