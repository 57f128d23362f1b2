"""What an operator sets in the environment reaches the settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def settings_with(names: tuple[str, ...], **environment: str) -> dict:
    """The settings of these names as a process reads them that starts with this environment."""
    code = f"import json; from portal import settings; print(json.dumps({{n: getattr(settings, n) for n in {names}}}))"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | environment, cwd=ROOT, capture_output=True,
                          text=True, timeout=60, check=True)  # fmt: skip
    return json.loads(done.stdout)


def test_mails_go_to_the_server_that_is_named_and_to_files_without_one():
    names = ("EMAIL_BACKEND", "EMAIL_HOST", "EMAIL_PORT", "EMAIL_HOST_USER", "EMAIL_USE_TLS")
    named = settings_with(names, EMAIL_HOST="mail.example.org", EMAIL_PORT="25", EMAIL_USER="berth", EMAIL_TLS="false")
    assert named.pop("EMAIL_BACKEND") == "django.core.mail.backends.smtp.EmailBackend"
    assert list(named.values()) == ["mail.example.org", 25, "berth", False]
    assert "filebased" in settings_with(names)["EMAIL_BACKEND"]


def test_an_https_address_makes_cookies_secure_and_is_remembered_by_browsers():
    names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_NAME", "SECURE_HSTS_SECONDS")
    safe = settings_with(names, PORTAL_URL="https://berth.example.org")
    assert safe["SESSION_COOKIE_SECURE"] and safe["CSRF_COOKIE_SECURE"] and safe["SECURE_HSTS_SECONDS"] > 0
    assert safe["SESSION_COOKIE_NAME"].startswith("__Host-")


def test_real_servers_are_taken_instead_of_the_embedded_ones():
    names = ("DATABASES", "REDIS_STORE_URL", "CELERY_BROKER_URL")
    urls = {"DATABASE_URL": "postgres://u:p@db.example.org/b", "REDIS_URL": "redis://:p@r.example.org:6379/0"}
    there = settings_with(names, **urls)
    database = there["DATABASES"]["default"]
    assert (database["HOST"], database["NAME"], database["CONN_HEALTH_CHECKS"]) == ("db.example.org", "b", True)
    assert "lock_timeout" in database["OPTIONS"]["options"]
    assert there["REDIS_STORE_URL"] == "redis://:p@r.example.org:6379/2"
    assert there["CELERY_BROKER_URL"] == "redis://:p@r.example.org:6379/0"
