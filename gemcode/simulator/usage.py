"""Token counts: bytes over four, and the implicit cache as a common byte prefix. Estimates, but consistent ones."""

import math
from collections.abc import Mapping
from typing import Any

from gemcode.simulator.signatures import canonical_json

BYTES_PER_TOKEN = 4
MEDIA_TOKENS = 258  # an image costs this much whatever its size
REMEMBERED_PROMPTS = 8


def count_text(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


def prompt_text(request: Mapping[str, Any]) -> str:
    """What the model reads, in the order of the real prefix: system text, tools, contents. Canonical, so that a longer
    history starts with the bytes of the shorter one."""
    pieces = [canonical_json(_without_media(request.get(key))) for key in ("system_instruction", "tools")]
    pieces += [canonical_json(_without_media(content)) for content in request.get("contents", [])]
    return "\n".join(piece for piece in pieces if piece != "null")


def count_prompt(request: Mapping[str, Any]) -> int:
    return count_text(prompt_text(request))


def _without_media(value: Any) -> Any:
    if isinstance(value, dict):
        if "mime_type" in value and isinstance(value.get("data"), bytes):
            return {**value, "data": "." * (MEDIA_TOKENS * BYTES_PER_TOKEN)}
        return {key: _without_media(item) for key, item in value.items()}
    return [_without_media(item) for item in value] if isinstance(value, list) else value


class ImplicitCache:
    """Remembers the last prompts of each model and says how much of a new one repeats."""

    def __init__(self) -> None:
        self._prompts: dict[str, list[bytes]] = {}

    def hit(self, model: str, prompt: str, minimum: int) -> int:
        """Cached tokens of this prompt (0 below the minimum); the prompt is remembered for the next request."""
        encoded = prompt.encode("utf-8", "surrogatepass")
        earlier = self._prompts.setdefault(model, [])
        tokens = max((_common_prefix(encoded, other) for other in earlier), default=0) // BYTES_PER_TOKEN
        earlier.append(encoded)
        del earlier[:-REMEMBERED_PROMPTS]
        return tokens if tokens >= minimum else 0


def _common_prefix(left: bytes, right: bytes) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:  # binary search: comparing slices runs at memory speed
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low
