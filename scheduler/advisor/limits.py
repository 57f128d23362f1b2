"""The thresholds of the rules: data in ``thresholds.toml``, read once."""

import tomllib
from pathlib import Path
from typing import Any

LIMITS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "thresholds.toml").read_text())
