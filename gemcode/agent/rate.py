"""How often something may happen: a token bucket on the monotonic clock. Pure but for reading that clock."""

import time
from collections.abc import Callable


class TokenBucket:
    """Holds at most one minute's worth. After a pause, or a suspend, there is never more than that to spend."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._capacity = max(1.0, per_minute)  # below one a minute, still one at a time
        self._clock = clock
        self._tokens = self._capacity
        self._updated = clock()

    def take(self) -> float:
        """Take one token: 0.0. Or take none: the seconds until there is one."""
        now = self._clock()
        gained = max(0.0, now - self._updated) * self.per_minute / 60
        self._tokens = min(self._capacity, self._tokens + gained)
        self._updated = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) * 60 / self.per_minute
