"""The cache holds counters of failed sign-ins and nothing else, so losing it must not keep anyone out."""

import logging
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

log = logging.getLogger(__name__)


class ForgivingRedisCache(RedisCache):
    """Behaves as an empty cache while Redis cannot be reached, and says so in the log."""

    def _or(self, instead: Any, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (RedisError, OSError) as error:
            log.warning("cache not reached, sign-ins are not counted: %s", error)
            return instead

    def add(self, *args: Any, **options: Any) -> bool:
        return self._or(True, lambda: super(ForgivingRedisCache, self).add(*args, **options))

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._or(default, lambda: super(ForgivingRedisCache, self).get(key, default, version))

    def set(self, *args: Any, **options: Any) -> None:
        self._or(None, lambda: super(ForgivingRedisCache, self).set(*args, **options))

    def delete(self, *args: Any, **options: Any) -> bool:
        return self._or(False, lambda: super(ForgivingRedisCache, self).delete(*args, **options))
