"""Following the link of an invitation."""

from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.accounts.entrances import record_sign_in
from portal.accounts.forms import JoinForm
from portal.accounts.models import User
from portal.tenants.errors import TenantRefused
from portal.tenants.models import Invitation
from portal.tenants.people import accept_invitation, open_invitation

BACKEND = "portal.accounts.backends.EmailBackend"


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters()
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Who is signed in joins with one click; who is new takes a name and a password; a known address signs in first."""
    found = open_invitation(token)
    if found is None:
        return render(request, "tenants/invitation_gone.html", status=404)
    if isinstance(request.user, User):
        return _join(request, request.user, token, found)
    known = User.objects.filter(email__iexact=found.email).exists()
    if known:
        return render(request, "tenants/invitation.html", {"invitation": found, "known": True})
    return _begin(request, token, found)


def _join(request: HttpRequest, person: User, token: str, found: Invitation) -> HttpResponse:
    if request.method != "POST":
        return render(request, "tenants/invitation.html", {"invitation": found})
    try:
        accept_invitation(token=token, person=person)
    except TenantRefused as refusal:
        return render(request, "tenants/invitation.html", {"invitation": found, "refusal": refusal.message}, status=409)
    return redirect("/")


def _begin(request: HttpRequest, token: str, found: Invitation) -> HttpResponse:
    form = JoinForm(request.POST or None, user=User(email=found.email))
    if not form.is_valid():
        status = 422 if form.is_bound else 200
        return render(request, "tenants/invitation.html", {"invitation": found, "form": form}, status=status)
    name, password = form.cleaned_data["name"], form.cleaned_data["new_password"]
    try:
        person = accept_invitation(token=token, name=name, password=password, language=get_language() or "en")
    except TenantRefused as refusal:
        return render(
            request,
            "tenants/invitation.html",
            {"invitation": found, "form": form, "refusal": refusal.message},
            status=409,
        )
    login(request, person, backend=BACKEND)
    record_sign_in(person)
    return redirect("/")
