"""Where log lines go: to standard error, one line each, for whatever supervises the process to keep."""


def to_stderr(level: str) -> dict:
    """The LOGGING setting for this least level."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
    }
