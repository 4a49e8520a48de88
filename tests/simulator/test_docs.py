"""The examples of docs/simulator.md are parsed and played, and its tables name everything that exists."""

import json
import re
from pathlib import Path
from typing import get_args

import httpx2
import pytest

from gemcode.simulator.errors import READY_MADE
from gemcode.simulator.reply import FaultKind
from gemcode.simulator.scenario import ReplySpec, Scenario, parse_scenario
from gemcode.simulator.server import Simulator, running_simulator

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", blocks("json"))
def test_an_example_scenario_plays_to_its_end(block: str) -> None:
    scenario = parse_scenario(json.loads(block))
    with running_simulator(scenario) as simulator:
        for reply in scenario.replies:
            for _ in range(2 if reply.repeat == "forever" else reply.repeat):
                ask(simulator, scenario, reply)
    assert simulator.violations == []
    assert len(simulator.requests) >= len(scenario.replies)


def ask(simulator: Simulator, scenario: Scenario, reply: ReplySpec) -> None:
    model = scenario.model or "gemini-3.8-flash"
    url = f"{simulator.url}/v1beta/models/{model}:streamGenerateContent?alt=sse&key=k"
    body = {"contents": [{"role": "user", "parts": [{"text": reply.match or "hi"}]}]}
    try:
        response = httpx2.post(url, json=body, trust_env=False, timeout=10)
    except httpx2.TransportError:
        assert reply.fault is not None
    else:
        assert (response.status_code == 200) is (reply.http_error is None)


@pytest.mark.parametrize("block", blocks("python"))
def test_an_example_program_runs(block: str) -> None:
    exec(compile(block, "docs/simulator.md", "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert len(blocks("json")) >= 5
    assert len(blocks("python")) == 1


def test_every_field_error_and_fault_is_named_on_the_page() -> None:
    words = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert set(READY_MADE) <= words
    assert set(get_args(FaultKind)) <= words
    assert set(ReplySpec.model_fields) <= words
