"""Where log lines go: to standard error, one line each, for whatever supervises the process to keep."""

import logging
import re

# Whoever knows the rest of such an address has the right that it gives: it is a password, and no log keeps one.
SECRET = re.compile(r"(/calendar/(?!feeds/)|/invitation/|/password/reset/key/(?!done/))[^/\s?]+")


class WithoutSecrets(logging.Filter):
    """Django names the path of what it answers with 404, 405 or 429; the secret of an address is left out."""

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        if SECRET.search(line):
            record.msg, record.args = SECRET.sub(r"\1***", line), ()
        return True


def to_stderr(level: str) -> dict:
    """The LOGGING setting for this least level."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"secrets": {"()": WithoutSecrets}},
        "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["secrets"]}},
        "root": {"handlers": ["stderr"], "level": level},
    }
