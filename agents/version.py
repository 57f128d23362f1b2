"""What this agent calls itself: its version, and the release of it that the portal's installer put here."""

from pathlib import Path

VERSION = "0.1.0"
_RELEASE = Path(__file__).resolve().parents[1] / "RELEASE"


def agent_version() -> str:
    """As 0.1.0, or 0.1.0+RELEASE where it was installed from a portal."""
    try:
        return f"{VERSION}+{_RELEASE.read_text().strip()}"
    except OSError:
        return VERSION
