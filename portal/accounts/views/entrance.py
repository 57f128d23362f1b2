"""Getting in and out, and setting a forgotten password. allauth does it; the pages and the answers are ours."""

from typing import Any

from allauth.account import views as allauth_views
from django.forms import Form
from django.http import HttpResponse
from django.urls import reverse_lazy

LOCKED_OUT = "too_many_login_attempts"


class SignInView(allauth_views.LoginView):
    """Wrong credentials are 422, a lock-out 429; neither tells whether the address is known."""

    template_name = "accounts/sign_in.html"

    def form_invalid(self, form: Form) -> HttpResponse:
        locked_out = form.has_error("__all__", LOCKED_OUT)
        return self.render_to_response(
            self.get_context_data(form=form, locked_out=locked_out), status=429 if locked_out else 422
        )


class SignOutView(allauth_views.LogoutView):
    http_method_names = ("post", "options")


class PasswordResetView(allauth_views.PasswordResetView):
    template_name = "accounts/password_reset.html"

    def form_invalid(self, form: Form) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=422)


class PasswordResetDoneView(allauth_views.PasswordResetDoneView):
    template_name = "accounts/password_reset_done.html"


class PasswordSetView(allauth_views.PasswordResetFromKeyView):
    template_name = "accounts/password_set.html"
    success_url = reverse_lazy("account_reset_password_from_key_done")

    def form_invalid(self, form: Form) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=422)

    def render_to_response(self, context: dict[str, Any], **options: Any) -> HttpResponse:
        if context.get("token_fail"):
            options["status"] = 404
        return super().render_to_response(context, **options)


class PasswordSetDoneView(allauth_views.PasswordResetFromKeyDoneView):
    template_name = "accounts/password_set_done.html"
