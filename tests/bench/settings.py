"""The portal's settings, and beside its addresses an empty view to measure against."""

from portal.settings import *  # noqa: F403

ROOT_URLCONF = "tests.bench.urls"
