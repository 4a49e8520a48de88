"""Explicit caches (cachedContents): create, get, list, change the expiry, delete. Held in memory only."""

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gemcode.simulator.catalog import find_model
from gemcode.simulator.errors import cache_not_found, cache_too_small, invalid_argument, model_not_found
from gemcode.simulator.payload import read_payload
from gemcode.simulator.usage import count_prompt

MINIMUM_TOKENS = 1024
DEFAULT_TTL = timedelta(hours=1)


@dataclass(slots=True)
class _Cache:
    public: dict[str, Any]
    expires: datetime


def check_cache(version: str, body: Any) -> dict[str, Any]:
    """The canonical body of a cachedContents create; raises Rejected."""
    parsed = read_payload("CachedContent", body, version)
    name = str(parsed.get("model", "")).removeprefix("models/")
    model = find_model(version, name)
    if model is None or not model.explicit_cache:
        raise model_not_found(version, name, "createCachedContent")
    tokens = count_prompt(parsed)
    if tokens < MINIMUM_TOKENS:
        raise cache_too_small(tokens, MINIMUM_TOKENS)
    return parsed


class Caches:
    """The caches of one running simulator."""

    def __init__(self) -> None:
        self._caches: dict[str, _Cache] = {}

    def tokens(self, name: str) -> int:
        """Tokens of a live cache; raises Rejected if it is gone or was never there."""
        return int(self._live(name).public["usageMetadata"]["totalTokenCount"])

    def handle(self, method: str, version: str, name: str | None, body: Any) -> dict[str, Any]:
        """One call of the cachedContents resource."""
        if name is None:
            if method == "POST":
                return self._create(version, body)
            now = datetime.now(UTC)
            return {"cachedContents": [cache.public for cache in self._caches.values() if cache.expires > now]}
        cache = self._live(f"cachedContents/{name}")
        if method == "DELETE":
            del self._caches[f"cachedContents/{name}"]
            return {}
        if method == "PATCH":
            self._expire(cache, read_payload("CachedContent", body, version))
        return cache.public

    def _create(self, version: str, body: Any) -> dict[str, Any]:
        parsed = check_cache(version, body)
        now = _stamp(datetime.now(UTC))
        public = {
            "name": f"cachedContents/{secrets.token_hex(12)}",
            "model": parsed["model"],
            "displayName": parsed.get("display_name", ""),
            "createTime": now,
            "updateTime": now,
            "usageMetadata": {"totalTokenCount": count_prompt(parsed)},
        }
        cache = _Cache(public, datetime.now(UTC) + DEFAULT_TTL)
        self._expire(cache, parsed)
        self._caches[public["name"]] = cache
        return public

    def _expire(self, cache: _Cache, parsed: dict[str, Any]) -> None:
        for field, read in (("ttl", _after), ("expire_time", _moment)):
            if field in parsed:
                try:
                    cache.expires = read(parsed[field])
                except (ValueError, OverflowError):
                    raise invalid_argument(f"Invalid value at 'cached_content.{field}', {parsed[field]}") from None
                break
        cache.public["expireTime"] = _stamp(cache.expires)

    def _live(self, name: str) -> _Cache:
        cache = self._caches.get(name)
        if cache is None or cache.expires <= datetime.now(UTC):
            raise cache_not_found()
        return cache


def _after(duration: str) -> datetime:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)s", duration)
    if match is None:
        raise ValueError(duration)
    return datetime.now(UTC) + timedelta(seconds=float(match[1]))


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)  # a time needs its zone
    return moment.astimezone(UTC)


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
