"""How fast one peer may send."""

import time


class Allowance:
    """``per_second`` on average and ``burst`` at once."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = self._left = burst
        self._at = time.monotonic()

    def take(self, amount: float = 1) -> bool:
        """Whether that much is still allowed now."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < amount:
            return False
        self._left -= amount
        return True
