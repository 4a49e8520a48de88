from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.caps import capped, json_size
from gemcode.agent.messages import ToolMessage, ToolResult
from gemcode.agent.registry import Limits
from gemcode.agent.tool import Output
from tests.agent.generated import JSON
from tests.agent.test_loop import Bench, make_agent, run
from tests.scripted import ScriptedModel, calls, says


@given(st.sampled_from(["output", "error"]), JSON | st.text().map(lambda text: text * 500), st.integers(500, 2000))
def test_no_result_is_larger_than_its_cap(key: str, value: Any, limit: int) -> None:
    result = ToolResult("c", "read", {key: value})
    found = capped(result, limit)
    assert found.ok == result.ok
    assert found is result or json_size(found.response) <= 3 * limit + 300  # escapes may grow, but not without end
    assert (found is result) == (json_size(result.response) <= limit)


@pytest.mark.parametrize("value", ["x" * 10_000, ["x" * 100] * 100, {"content": "\n" * 10_000}])
def test_a_tool_that_gives_too_much_is_cut_and_the_model_is_told(value: Any) -> None:
    bench = Bench()
    bench.read = lambda _: Output(value)
    agent = make_agent(bench, ScriptedModel(calls(("read", {"path": "a"})), says("ok")))
    agent.registry = bench.registry(limits=Limits(result_bytes=1024))
    run(agent)
    message = agent.history[2]
    assert isinstance(message, ToolMessage)
    response = message.results[0].response
    assert len(response["output"]) <= 2048
    assert "beginning only" in response["notes"][0]
