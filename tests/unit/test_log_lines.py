"""What the log never keeps."""

import logging
import logging.config

import pytest

from portal.log_lines import to_stderr


@pytest.fixture
def handler() -> logging.Handler:
    """The one of the setting, as logging builds it; no logger is touched."""
    configurator = logging.config.DictConfigurator(to_stderr("INFO"))
    config = configurator.config
    for name in ("filters", "formatters"):
        make = getattr(configurator, f"configure_{name.removesuffix('s')}")
        for key in config[name]:
            config[name][key] = make(config[name][key])
    return configurator.configure_handler(config["handlers"]["stderr"])


def line_of(handler: logging.Handler, path: str) -> str:
    record = logging.LogRecord("django.request", logging.WARNING, "", 1, "%s: %s", ("Not Found", path), None)
    assert handler.filter(record)
    return handler.format(record)


@pytest.mark.parametrize(
    "path", ["/calendar/s3cret-_token.ics", "/invitation/s3cret-_token/", "/password/reset/key/1-s3cret-_token/"]
)
def test_an_address_that_is_a_right_is_not_in_the_log(handler, path):
    line = line_of(handler, path)
    assert "s3cret" not in line
    assert path.split("s3cret")[0].rpartition("/")[0] in line


@pytest.mark.parametrize(
    "path", ["/calendar/feeds/3/revoke/", "/reservations/R-77/", "/tenants/1/invitations/5/withdraw/"]
)
def test_other_addresses_stay_whole(handler, path):
    assert line_of(handler, path).endswith(f"Not Found: {path}")
