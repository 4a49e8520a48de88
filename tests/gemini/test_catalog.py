from datetime import date

import pytest

from gemcode.agent.messages import Usage
from gemcode.gemini import catalog

TODAY = date(2026, 11, 20)


def test_the_default_model_is_in_the_catalog() -> None:
    assert catalog.find(catalog.DEFAULT_MODEL) is not None
    assert catalog.find("models/gemini-3.8-flash") is catalog.find("gemini-3.8-flash")
    assert catalog.find("gemini-0") is None


@pytest.mark.parametrize("model", catalog.MODELS, ids=lambda model: model.name)
def test_every_model_has_a_price_for_any_day_and_a_default_level_it_knows(model: catalog.ModelInfo) -> None:
    assert catalog.cost_usd(model.name, Usage(prompt=10**6, output=1), date(2040, 1, 1))
    assert model.default_level in model.thinking_levels or not model.thinking_levels
    assert all(price.cached < price.input < price.output for price in model.prices)


@pytest.mark.parametrize(
    ("model", "usage", "day", "cost"),
    [
        ("gemini-3.8-flash", Usage(prompt=10**6), TODAY, 0.75),
        ("gemini-3.8-flash", Usage(prompt=10**6), date(2026, 12, 31), 0.75),
        ("gemini-3.8-flash", Usage(prompt=10**6), date(2027, 1, 1), 1.50),
        ("gemini-3.8-flash", Usage(prompt=10**6, cached=10**6), TODAY, 0.075),
        ("gemini-3.8-flash", Usage(output=10**6, thought=10**6), TODAY, 7.50),
        ("gemini-3.8-flash", Usage(tool_prompt=10**6), TODAY, 0.75),
        ("gemini-4-argon", Usage(prompt=10**6), date(2026, 12, 1), 4.00),
        ("gemini-3.1-pro-preview", Usage(prompt=200_000), TODAY, 0.40),
        ("gemini-3.1-pro-preview", Usage(prompt=200_001), TODAY, 0.800004),
        ("gemini-2.5-pro", Usage(prompt=200_001, output=1000), TODAY, 0.5150025),
        ("unknown", Usage(prompt=10**6), TODAY, None),
    ],
)
def test_the_cost_follows_day_and_tier(model: str, usage: Usage, day: date, cost: float | None) -> None:
    assert catalog.cost_usd(model, usage, day) == (None if cost is None else pytest.approx(cost))


def test_close_names_are_found() -> None:
    assert catalog.closest("models/gemini-3.6-flahs")[0] == "gemini-3.6-flash"
    assert catalog.closest("zzz") == ()
    assert catalog.closest("alphb", ["alpha", "beta"]) == ("alpha",)


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("gemini-3.8-flash", (3, 8)),
        ("models/gemini-4-argon", (4, 0)),
        ("gemini-3-flash-preview", (3, 0)),
        ("gemini-2.5-pro", (2, 5)),
        ("gemini-flash-latest", (4, 0)),
        ("tuned-thing", (4, 0)),
    ],
)
def test_the_generation_is_read_from_the_name(name: str, generation: tuple[int, int]) -> None:
    assert catalog.generation(name) == generation
