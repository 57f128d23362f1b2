"""Entrance and profile. Of allauth only what is listed here is reachable; its own addresses are not included."""

from django.urls import path, re_path
from django.views.decorators.http import require_http_methods

from portal.accounts.views import entrance, profile

form = require_http_methods(["GET", "HEAD", "POST"])

urlpatterns = [
    path("sign-in/", form(entrance.SignInView.as_view()), name="account_login"),
    path("sign-out/", entrance.SignOutView.as_view(), name="account_logout"),
    path("password/reset/", form(entrance.PasswordResetView.as_view()), name="account_reset_password"),
    path("password/reset/done/", entrance.PasswordResetDoneView.as_view(), name="account_reset_password_done"),
    re_path(
        r"^password/reset/key/(?P<uidb36>[0-9A-Za-z]{1,13})-(?P<key>[0-9A-Za-z-]{1,100})/$",
        form(entrance.PasswordSetView.as_view()),
        name="account_reset_password_from_key",
    ),
    path(
        "password/reset/key/done/", entrance.PasswordSetDoneView.as_view(), name="account_reset_password_from_key_done"
    ),
    path("profile/", profile.profile, name="profile"),
    path("profile/password/", profile.password_change, name="profile_password"),
    path("profile/notices/", profile.notices_change, name="profile_notices"),
    path("profile/tokens/", profile.token_create, name="token_create"),
    path("profile/tokens/<slug:token_key>/revoke/", profile.token_revoke, name="token_revoke"),
    path("language/", profile.set_language, name="set_language"),
]
