"""Models, limits, thinking knobs and prices: data with a date, and the few questions asked of it. No I/O.

Taken from the public model and pricing pages of October and November 2026 (AS_OF). Prices are USD per million tokens.
"""

import difflib
import re
from collections.abc import Iterable
from datetime import date

from gemcode.agent.messages import Usage
from gemcode.frozen import frozen

AS_OF = date(2026, 11, 15)
DEFAULT_MODEL = "gemini-3.8-flash"


@frozen
class Price:
    """What a million tokens cost until `until` (inclusive), for prompts up to `prompt_limit` tokens."""

    input: float
    output: float
    cached: float
    until: date = date.max
    prompt_limit: int | None = None


@frozen
class ModelInfo:
    """One model. Without `thinking_levels` it takes a token budget instead of a level."""

    name: str
    prices: tuple[Price, ...]  # the first that applies counts
    thinking_levels: tuple[str, ...] = ()
    default_level: str = ""
    cache_minimum: int = 4096
    input_limit: int = 1_048_576
    output_limit: int = 65_536
    note: str = ""


_THREE = ("low", "medium", "high")
_FOUR = ("minimal", "low", "medium", "high")

MODELS: tuple[ModelInfo, ...] = (
    ModelInfo(
        "gemini-4-argon",
        (Price(2.00, 10.00, 0.10, until=date(2026, 11, 30)), Price(4.00, 20.00, 0.20)),
        _THREE,
        "medium",
        cache_minimum=6144,
        note="paid only; input and output share one window",
    ),
    ModelInfo(
        "gemini-3.8-flash",
        (Price(0.75, 3.75, 0.075, until=date(2026, 12, 31)), Price(1.50, 7.50, 0.15)),
        _THREE,
        "medium",
    ),
    ModelInfo("gemini-3.7-flash", (Price(0.75, 3.75, 0.075),), _THREE, "medium"),
    ModelInfo("gemini-3.6-flash", (Price(1.50, 7.50, 0.15),), _FOUR, "medium"),
    ModelInfo("gemini-3.5-flash", (Price(1.50, 9.00, 0.15),), _FOUR, "medium"),
    ModelInfo("gemini-3.5-flash-lite", (Price(0.30, 2.50, 0.03),), _FOUR, "minimal"),
    ModelInfo(
        "gemini-3.1-pro-preview",
        (Price(2.00, 12.00, 0.20, prompt_limit=200_000), Price(4.00, 18.00, 0.40)),
        _THREE,
        "high",
    ),
    ModelInfo(
        "gemini-3.1-pro-preview-customtools",
        (Price(2.00, 12.00, 0.20, prompt_limit=200_000), Price(4.00, 18.00, 0.40)),
        _THREE,
        "high",
    ),
    ModelInfo("gemini-3.1-flash-lite", (Price(0.25, 1.50, 0.025),), _FOUR, "minimal"),
    ModelInfo("gemini-3-flash-preview", (Price(0.50, 3.00, 0.05),), _FOUR, "high"),
    ModelInfo(
        "gemini-2.5-pro",
        (Price(1.25, 10.00, 0.125, prompt_limit=200_000), Price(2.50, 15.00, 0.25)),
        cache_minimum=2048,
        note="legacy",
    ),
    ModelInfo("gemini-2.5-flash", (Price(0.30, 2.50, 0.03),), cache_minimum=2048, note="legacy"),
    ModelInfo("gemini-2.5-flash-lite", (Price(0.10, 0.40, 0.01),), cache_minimum=2048, note="legacy"),
)

_BY_NAME = {model.name: model for model in MODELS}
_GENERATION = re.compile(r"gemini-(\d+)(?:\.(\d+))?(?![\d.])")
_NEWEST = (4, 0)


def find(name: str) -> ModelInfo | None:
    """The model of this name, with or without the service's `models/` prefix."""
    return _BY_NAME.get(name.removeprefix("models/"))


def closest(name: str, among: Iterable[str] = tuple(_BY_NAME)) -> tuple[str, ...]:
    """Up to three names that may have been meant."""
    return tuple(difflib.get_close_matches(name.removeprefix("models/"), tuple(among), n=3, cutoff=0.6))


def generation(name: str) -> tuple[int, int]:
    """(3, 8) for gemini-3.8-flash. A name that tells none, such as an alias for the latest, counts as the newest."""
    match = _GENERATION.search(name)
    return (int(match[1]), int(match[2] or 0)) if match else _NEWEST


def price_on(info: ModelInfo, today: date, prompt: int = 0) -> Price:
    """The price that applies to a prompt of so many tokens."""
    return next(
        price
        for price in info.prices
        if today <= price.until and (price.prompt_limit is None or prompt <= price.prompt_limit)
    )


def cost_usd(model: str, usage: Usage, today: date) -> float | None:
    """What these tokens cost; None when the price is not known. The prompt of one request picks the tier."""
    info = find(model)
    if info is None:
        return None
    price = price_on(info, today, usage.prompt)
    fresh = max(0, usage.prompt - usage.cached) + usage.tool_prompt
    millions = fresh * price.input + usage.cached * price.cached + (usage.output + usage.thought) * price.output
    return millions / 1_000_000
