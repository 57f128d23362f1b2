"""One's own page: name, language, zone, password and API tokens."""

from django.conf import settings
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import translation
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django.views.i18n import set_language as django_set_language

from portal.accounts import services
from portal.accounts.forms import PasswordForm, ProfileForm, TokenForm
from portal.accounts.models import ApiToken, User
from portal.accounts.requests import SignedInRequest
from portal.accounts.zones import zone_names
from portal.notices.forms import PreferenceForm, form_of
from portal.notices.selectors import preferences_of
from portal.notices.services import set_preferences


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def profile(request: SignedInRequest) -> HttpResponse:
    if request.method != "POST":
        return _page(request)
    form = ProfileForm(request.POST)
    if not form.is_valid():
        return _page(request, status=422, profile_form=form)
    services.change_profile(person=request.user, **form.cleaned_data)
    response = redirect("profile")
    _remember_language(response, form.cleaned_data["language"])
    return response


@login_required
@require_POST
@sensitive_post_parameters()
def password_change(request: SignedInRequest) -> HttpResponse:
    """Keeps this session and ends all others."""
    form = PasswordForm(request.POST, user=request.user)
    if not form.is_valid():
        return _page(request, status=422, password_form=form)
    services.change_password(person=request.user, password=form.cleaned_data["new_password"], actor=request.user)
    update_session_auth_hash(request, request.user)
    return _page(request, password_changed=True)


@login_required
@require_POST
@never_cache
def token_create(request: SignedInRequest) -> HttpResponse:
    """Shows the token's text, this once."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, status=422, token_form=form)
    token, text = services.create_token(person=request.user, **form.cleaned_data)
    return _page(request, new_token=token, new_token_text=text)


@login_required
@require_POST
def token_revoke(request: SignedInRequest, token_key: str) -> HttpResponse:
    token = get_object_or_404(ApiToken, user=request.user, token_key=token_key)
    services.revoke_token(token=token, actor=request.user)
    return redirect("profile")


@login_required
@require_POST
def notices_change(request: SignedInRequest) -> HttpResponse:
    """What is wanted by e-mail, and when to be reminded."""
    form = PreferenceForm(request.POST)
    if not form.is_valid():
        return _page(request, status=422, notice_form=form)
    set_preferences(user_id=request.user.pk, **form.wishes())
    return _page(request, notices_saved=True)


@require_POST
def set_language(request: HttpRequest) -> HttpResponse:
    """For everyone; who is signed in keeps it in their profile."""
    language = request.POST.get("language", "")
    known = language in dict(settings.LANGUAGES)
    if known and isinstance(request.user, User):
        user = request.user
        services.change_profile(person=user, name=user.name, language=language, time_zone=user.time_zone)
    return django_set_language(request)


def _page(request: SignedInRequest, status: int = 200, **shown: Form | ApiToken | str | bool) -> HttpResponse:
    user = request.user
    about = {"name": user.name, "language": user.language, "time_zone": user.time_zone}
    context = {
        "profile_form": ProfileForm(initial=about),
        "password_form": PasswordForm(user=user),
        "token_form": TokenForm(),
        "tokens": ApiToken.objects.filter(user=user),
        "zones": zone_names(),
        "notice_form": shown.get("notice_form") or form_of(preferences_of([user.pk])[user.pk]),
        **shown,
    }
    return render(request, "accounts/profile.html", context, status=status)


def _remember_language(response: HttpResponse, language: str) -> None:
    """The cookie goes before the profile in every request, so it follows the choice."""
    translation.activate(language)
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME, language, max_age=365 * 86400, samesite="Lax", secure=settings.HTTPS
    )
