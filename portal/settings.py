"""All settings of the portal. Each one that an operator may set is read from the environment, with its default here."""

from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import environ
from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy as _

from portal.demo.places import places_of, read_secrets
from portal.log_lines import to_stderr

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

PLACES = places_of(Path(env.str("BERTH_HOME", default=str(BASE_DIR / ".berth"))))

DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default="") or read_secrets(PLACES)["secret_key"]
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
# What people and nodes type: used in links of e-mails and in enrolment commands.
PORTAL_URL = env.str("PORTAL_URL", default="http://127.0.0.1:8000").rstrip("/")
# Folder of wheels that nodes get with the agent, where they reach no package index.
AGENT_WHEELS = env.str("AGENT_WHEELS", default="")
CSRF_TRUSTED_ORIGINS = [PORTAL_URL, *env.list("CSRF_TRUSTED_ORIGINS", default=[])]
HTTPS = PORTAL_URL.startswith("https://")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "allauth",
    "allauth.account",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "csp",
    "channels",
    "portal.audit",
    "portal.notices",
    "portal.accounts",
    "portal.tenants",
    "portal.inventory",
    "portal.ledger",
    "portal.workloads",
    "portal.quotas",
    "portal.reservations",
    "portal.advisor",
    "portal.live",
    "portal.reports",
    "portal.api",
    "portal.demo",
]

MIDDLEWARE = [
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.audit.middleware.OriginMiddleware",
    "portal.accounts.middleware.ReaderMiddleware",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
SILENCED_SYSTEM_CHECKS = ["auth.W004"]  # a constraint on lower(email) makes it unique
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.reservations.context.shell",
            ],
        },
    }
]

# ---- database: one, everywhere; embedded unless DATABASE_URL names a server
_TIMEOUTS = "-c statement_timeout=15000 -c lock_timeout=3000 -c idle_in_transaction_session_timeout=30000"
if env.str("DATABASE_URL", default=""):
    DATABASES = {"default": env.db("DATABASE_URL")}
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "berth",
            "USER": "berth",
            "PASSWORD": read_secrets(PLACES)["database_password"],
            "HOST": str(PLACES.sockets),
        }
    }
DATABASES["default"].setdefault("OPTIONS", {}).setdefault("options", _TIMEOUTS)
DATABASES["default"] |= {"CONN_MAX_AGE": env.int("CONN_MAX_AGE_SECONDS", default=60), "CONN_HEALTH_CHECKS": True}

# ---- Redis: a doorbell and the newest samples; losing all of it loses no data
_REDIS = env.str("REDIS_URL", default="") or f"unix://{PLACES.valkey_socket}"


def _redis_database(number: int) -> str:
    if _REDIS.startswith("unix://"):
        return f"{_REDIS}?db={number}"
    return f"{_REDIS.rstrip('/').removesuffix('/0')}/{number}"


# A server that hangs is worse than one that is gone: no request waits longer for it at a time.
_REDIS_PATIENCE = {"socket_timeout": 2, "socket_connect_timeout": 2}
REDIS_STORE_URL = _redis_database(2)
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {
            "hosts": [{"address": _redis_database(1), "socket_timeout": 20}],  # above the 5 s that a receive waits
            "prefix": "berth",
            "capacity": 200,
            "expiry": 15,
            "group_expiry": 7200,
        },
    }
}
CACHES = {
    "default": {
        "BACKEND": "portal.accounts.cache.ForgivingRedisCache",
        "LOCATION": _redis_database(3),
        "OPTIONS": {**_REDIS_PATIENCE, "retry": None},
    },
}

# ---- Celery: every task is idempotent and short; starts come from agents' schedules and from sweeps, never from an ETA
if _REDIS.startswith("unix://"):
    CELERY_BROKER_URL = f"redis+socket://{urlsplit(_REDIS).path}?virtual_host=0"
else:
    CELERY_BROKER_URL = _redis_database(0)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    **_REDIS_PATIENCE,
    "visibility_timeout": 900,
    "health_check_interval": 25,
    "socket_keepalive": True,
}
CELERY_VISIBILITY_TIMEOUT = 900
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SOFT_TIME_LIMIT = 240
CELERY_TASK_TIME_LIMIT = 300
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_TASK_ROUTES = dict.fromkeys(
    [f"scheduler.{name}" for name in ("roll_up", "forget_old", "sum_up", "check_sums", "deliver_mail")],
    {"queue": "reports"},
)
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 10
CELERY_WORKER_MAX_TASKS_PER_CHILD = 1000
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_BEAT_SCHEDULE_FILENAME = str(PLACES.home / "beat-schedule")

# ---- people
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["portal.accounts.backends.EmailBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
ACCOUNT_ADAPTER = "portal.accounts.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "none"  # an invitation reaches its address, or a lead hands it over
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_FORMS = {"user_token": "portal.accounts.forms.UserTokenForm"}
# Failed sign-ins: from one address of the network, and per e-mail address from there.
ACCOUNT_RATE_LIMITS = {"login": "60/m/ip", "login_failed": "30/10m/ip,5/10m/key", "reset_password": "20/h/ip,3/h/key"}
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"
SESSION_COOKIE_AGE = env.int("SESSION_SECONDS", default=14 * 86400)
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_NAME = "__Host-berth" if HTTPS else "berth_session"
EMAIL_HOST = env.str("EMAIL_HOST", default="")  # without one, mails are files that an admin can read
EMAIL_PORT = env.int("EMAIL_PORT", default=587)
EMAIL_HOST_USER = env.str("EMAIL_USER", default="")
EMAIL_HOST_PASSWORD = env.str("EMAIL_PASSWORD", default="")
EMAIL_USE_TLS = env.bool("EMAIL_TLS", default=True)
EMAIL_TIMEOUT = 10
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'filebased'}.EmailBackend"
EMAIL_FILE_PATH = str(PLACES.home / "mail")
DEFAULT_FROM_EMAIL = env.str("FROM_EMAIL", default="berth@localhost")
INVITATION_LIFETIME = timedelta(days=7)
ENROLMENT_TOKEN_LIFETIME = timedelta(minutes=15)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.api.tokens.TokenHeader",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.api.parsing.ShallowJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "portal.api.errors.answer",
    "DEFAULT_PAGINATION_CLASS": "portal.api.pages.NewestFirst",
    "PAGE_SIZE": 50,
}
REST_KNOX = {
    "TOKEN_TTL": timedelta(days=90), "AUTO_REFRESH": False, "TOKEN_PREFIX": "berth_", "AUTH_HEADER_PREFIX": "Bearer",
}  # fmt: skip
KNOX_TOKEN_MODEL = "accounts.ApiToken"
# knox's own migrations would make the table of the model that ours replaces, and its foreign key stops every flush.
MIGRATION_MODULES = {"knox": None}
SPECTACULAR_SETTINGS = {
    "TITLE": "Berth",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "portal.api.schema.name_refusals"],
}

# ---- languages, times, numbers
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hant", _("Traditional Chinese"))]
LANGUAGE_COOKIE_NAME = "berth_language"
LOCALE_PATHS = [BASE_DIR / "portal" / "locale"]
USE_I18N = True
FORMAT_MODULE_PATH = ["portal.formats"]
USE_TZ = True
TIME_ZONE = "UTC"

# ---- static files and headers
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "form-action": [SELF],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_SSL_REDIRECT = env.bool("SSL_REDIRECT", default=False)
SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=31536000 if HTTPS else 0)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("BEHIND_PROXY", default=False) else None
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20

# ---- Berth's own rules; a pool or tenant may be stricter
FREEZE_HORIZON = timedelta(seconds=env.int("FREEZE_HORIZON_SECONDS", default=7200))
PROTECTED_SECONDS = env.int("PROTECTED_SECONDS", default=1800)  # so long nothing that runs is displaced
NODE_SILENT_AFTER = timedelta(seconds=env.int("NODE_SILENT_AFTER_SECONDS", default=60))
DISPLACE_NOTICE = timedelta(seconds=env.int("DISPLACE_NOTICE_SECONDS", default=900))
APPROVAL_EXPIRES_AFTER = timedelta(seconds=env.int("APPROVAL_EXPIRES_AFTER_SECONDS", default=172_800))
OFFER_HOLD = timedelta(seconds=env.int("OFFER_HOLD_SECONDS", default=1800))  # a free place, for who waits
CONFIRM_BY_NOTICE_AFTER = timedelta(seconds=env.int("CONFIRM_BY_NOTICE_AFTER_SECONDS", default=3600))
STARTING_DEADLINE = timedelta(seconds=env.int("STARTING_DEADLINE_SECONDS", default=300))
SAMPLE_STALE_SECONDS = 3
SAMPLE_RETENTION = timedelta(days=env.int("SAMPLE_RETENTION_DAYS", default=14))

LOGGING = to_stderr(env.str("LOG_LEVEL", default="INFO"))
