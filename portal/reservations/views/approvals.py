"""Questions to the leads: what is asked, what it costs whom, and the answer."""

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Page, Paginator
from django.db.models import Prefetch, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from portal.quotas.models import Budget
from portal.quotas.periods import period_at
from portal.reservations.approving import approve, refuse
from portal.reservations.context import PageRequest
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Approval, Reservation, State
from portal.reservations.questions import approvals_for
from portal.reservations.spending import BudgetStatus, statuses_of

PAGE_ROWS = 25


@dataclass(frozen=True)
class Question:
    """``held`` are the reservations that hang on the answer; ``budget`` is the tightest that binds them, in the period
    of the first, with what they would cost already counted in."""

    approval: Approval
    held: list[Reservation]
    budget: BudgetStatus | None
    note: str = ""
    refusal: ReservationRefused | None = None

    @property
    def first(self) -> Reservation | None:
        return self.held[0] if self.held else None

    @property
    def borrowed(self) -> bool:
        return any(one.borrowed for one in self.held)

    @property
    def others(self) -> int:
        """What is spent and committed besides this."""
        return self.budget.spent + self.budget.committed - self.approval.price_slice_seconds if self.budget else 0


@login_required
@require_GET
def approvals(request: PageRequest) -> HttpResponse:
    """The open ones that the reader may answer, the most urgent first; or those that were decided."""
    return _page(request)


@login_required
@require_POST
def approval_approve(request: PageRequest, approval_id: int) -> HttpResponse:
    return _answer(request, approval_id, approve, _("Approved: %(name)s."))


@login_required
@require_POST
def approval_refuse(request: PageRequest, approval_id: int) -> HttpResponse:
    """Without a note the page comes back and asks for one."""
    return _answer(request, approval_id, refuse, _("Refused: %(name)s."))


def _answer(request: PageRequest, approval_id: int, decide: Callable, said: str) -> HttpResponse:
    approval = get_object_or_404(_answerable(request), pk=approval_id)
    note = request.POST.get("note", "")[:500]
    held = approval.reservations.all()
    name = held[0].workload.name if held else ""
    try:
        decide(approval=approval, actor=request.user, note=note)
    except ReservationRefused as refusal:
        return _page(request, approval, note, refusal)
    messages.success(request, said % {"name": name})
    response = redirect("approvals")
    response.status_code = 303
    return response


def _page(
    request: PageRequest, answered: Approval | None = None, note: str = "", refusal: ReservationRefused | None = None
) -> HttpResponse:
    decided = request.GET.get("show") == "decided"
    rows = _answerable(request)
    rows = rows.exclude(decision="").order_by("-decided_at", "-pk") if decided else rows.filter(decision="")
    page = Paginator(rows if decided else rows.order_by("expires_at", "pk"), PAGE_ROWS).get_page(
        request.GET.get("page")
    )
    questions = [
        _with_answer(question, note, refusal) if answered and question.approval.pk == answered.pk else question
        for question in _questions(page)
    ]
    context = {"page": page, "questions": questions, "decided": decided, "refusal": refusal, "answered": answered}
    return render(request, "approvals/list.html", context, status=refusal.status if refusal else 200)


def _with_answer(question: Question, note: str, refusal: ReservationRefused | None) -> Question:
    return Question(question.approval, question.held, question.budget, note, refusal)


def _answerable(request: PageRequest) -> QuerySet[Approval]:
    about = Reservation.objects.select_related("owner", "pool", "profile", "workload", "tenant").order_by("pk")
    rows = approvals_for(request.user).select_related("tenant", "asked_by", "decided_by")
    return rows.prefetch_related(Prefetch("reservations", queryset=about))


def _questions(page: Page) -> list[Question]:
    """Budgets of all at once: two queries whatever the number of questions."""
    held = {approval.pk: _held(approval) for approval in page}
    ids = {above for approval in page for above in approval.tenant.ancestor_ids}
    budgets = list(Budget.objects.filter(tenant_id__in=ids).select_related("tenant").order_by("tenant__path"))
    asked = [
        (approval.pk, budget, period_at(budget, rows[0].starts_at))
        for approval in page
        if (rows := held[approval.pk])
        for budget in budgets
        if budget.tenant_id in approval.tenant.ancestor_ids
    ]
    statuses = statuses_of([(budget, period) for _pk, budget, period in asked], timezone.now())
    found: dict[int, BudgetStatus] = {}
    for (pk, _budget, _period), status in zip(asked, statuses, strict=True):
        if pk not in found or status.left < found[pk].left:
            found[pk] = status
    return [Question(approval, held[approval.pk], found.get(approval.pk)) for approval in page]


def _held(approval: Approval) -> list[Reservation]:
    rows = list(approval.reservations.all())
    return rows if approval.decision else [one for one in rows if one.state == State.REQUESTED]
