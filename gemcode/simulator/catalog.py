"""Which models the simulated service knows, and their limits. Its own table on purpose: an oracle shares no data with
the client that it judges."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

MINIMAL_TO_HIGH = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
LOW_TO_HIGH = ("LOW", "MEDIUM", "HIGH")
GENERATION_METHODS = ("generateContent", "countTokens", "createCachedContent", "batchGenerateContent")
ALIASES: Mapping[str, str] = {  # exist on v1beta only
    "gemini-flash-latest": "gemini-3.8-flash",
    "gemini-flash-lite-latest": "gemini-3.5-flash-lite",
    "gemini-pro-latest": "gemini-3.1-pro-preview",
}


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model: what it accepts, and how its replies are shaped (`generation` decides that)."""

    name: str
    generation: tuple[int, int]
    levels: tuple[str, ...] = ()  # thinking levels it accepts; none = the field itself is refused
    default_level: str = ""
    budget: tuple[int, int] | None = None  # accepted thinking budgets; None = refused
    thinking_can_be_off: bool = False
    input_limit: int = 1_048_576
    output_limit: int = 65_536
    unary_output_limit: int = 65_536
    cache_minimum: int = 4096
    explicit_cache: bool = True
    methods: tuple[str, ...] = GENERATION_METHODS

    @property
    def needs_signatures(self) -> bool:
        return self.generation >= (3, 0)

    @property
    def gives_call_ids(self) -> bool:
        return self.generation >= (3, 1)

    @property
    def matches_call_ids(self) -> bool:
        return self.generation >= (3, 5)

    @property
    def continues(self) -> bool:
        return self.generation >= (4, 0)


ANY_BUDGET = (1, 65_536)  # numeric budgets are tolerated on these 3.x models

CURRENT: Sequence[KnownModel] = (
    KnownModel(
        "gemini-4-argon",
        (4, 0),
        LOW_TO_HIGH,
        "MEDIUM",
        unary_output_limit=32_768,
        cache_minimum=6144,
        explicit_cache=False,
    ),
    KnownModel("gemini-3.8-flash", (3, 8), LOW_TO_HIGH, "MEDIUM", ANY_BUDGET, True),
    KnownModel("gemini-3.7-flash", (3, 7), LOW_TO_HIGH, "MEDIUM", ANY_BUDGET, True),
    KnownModel("gemini-3.6-flash", (3, 6), MINIMAL_TO_HIGH, "MEDIUM", ANY_BUDGET, True),
    KnownModel("gemini-3.5-flash", (3, 5), MINIMAL_TO_HIGH, "MEDIUM", ANY_BUDGET, True),
    KnownModel("gemini-3.5-flash-lite", (3, 5), MINIMAL_TO_HIGH, "MINIMAL", ANY_BUDGET, True),
    KnownModel("gemini-3.1-pro-preview", (3, 1), LOW_TO_HIGH, "HIGH", (128, 32_768)),
    KnownModel("gemini-3.1-pro-preview-customtools", (3, 1), LOW_TO_HIGH, "HIGH", (128, 32_768)),
    KnownModel("gemini-3.1-flash-lite", (3, 1), MINIMAL_TO_HIGH, "MINIMAL", ANY_BUDGET, True),
    KnownModel("gemini-3-flash-preview", (3, 0), MINIMAL_TO_HIGH, "HIGH", ANY_BUDGET, True),
    KnownModel("gemini-2.5-pro", (2, 5), budget=(128, 32_768), cache_minimum=2048),
    KnownModel("gemini-2.5-flash", (2, 5), budget=(1, 24_576), thinking_can_be_off=True, cache_minimum=2048),
    KnownModel("gemini-2.5-flash-lite", (2, 5), budget=(1, 24_576), thinking_can_be_off=True, cache_minimum=2048),
)
_BY_NAME: Mapping[str, KnownModel] = {model.name: model for model in CURRENT}

# Models that are gone or have another purpose still answer, so that recorded traffic can be replayed; they are not
# listed. What they accept is not known well, so they are judged leniently.
_FAMILY = re.compile(
    r"gemini-(?P<version>1\.0|1\.5|2\.0|2\.5|3|3\.1|3\.5)-(?P<tier>pro|flash-lite|flash-8b|flash)"
    r"(?:-(?:\d{3,4}|\d\d-\d\d|\d\d-\d{4}|preview|exp|latest|image|tts|thinking|generation|customtools))*"
)
_OTHER = re.compile(
    r"(?:gemini-pro(?:-vision)?|gemma-[234]n?-[a-z0-9-]+|learnlm-[a-z0-9.-]+|gemini-(?:robotics-er|omni|exp)-[a-z0-9.-]+"
    r"|gemini-2\.5-computer-use-preview-10-2025|nano-banana-pro-preview|(?:antigravity|deep-research)-[a-z0-9-]+)"
)


def find_model(version: str, name: str) -> KnownModel | None:
    """The model of that name, or None when the service of this API version does not know it."""
    if name in ALIASES:
        return replace(_BY_NAME[ALIASES[name]], name=name) if version != "v1" else None
    if name in _BY_NAME:
        return _BY_NAME[name]
    if match := _FAMILY.fullmatch(name):
        major, _, minor = match["version"].partition(".")
        generation = (int(major), int(minor or 0))
        levels = MINIMAL_TO_HIGH if generation >= (3, 0) else ()
        return KnownModel(name, generation, levels, budget=ANY_BUDGET, thinking_can_be_off=True, cache_minimum=2048)
    return unlisted_model(name) if _OTHER.fullmatch(name) else None


def unlisted_model(name: str) -> KnownModel:
    """A model of which only the name is known: judged by the rules that hold for every model."""
    version = re.match(r"gemini-(\d+)(?:\.(\d+))?-", name)
    generation = (int(version[1]), int(version[2] or 0)) if version else (2, 0)
    return KnownModel(name, generation, MINIMAL_TO_HIGH, budget=ANY_BUDGET, thinking_can_be_off=True)


def listing(version: str) -> list[KnownModel]:
    """What models.list shows on this API version."""
    aliases = [replace(_BY_NAME[target], name=alias) for alias, target in ALIASES.items()]
    return [*CURRENT, *(aliases if version != "v1" else [])]


def description(model: KnownModel) -> dict[str, Any]:
    """One item of models.list."""
    title = model.name.replace("-", " ").title()
    methods = [name for name in model.methods if model.explicit_cache or name != "createCachedContent"]
    return {
        "name": f"models/{model.name}",
        "version": "001",
        "displayName": title,
        "description": f"{title}, simulated.",
        "inputTokenLimit": model.input_limit,
        "outputTokenLimit": model.output_limit,
        "supportedGenerationMethods": methods,
        "temperature": 1,
        "topP": 0.95,
        "topK": 64,
        "maxTemperature": 2,
        "thinking": True,
    }
