"""All eleven Claude Code tools, in every dialect that can declare them: declared, called and answered."""

from typing import Any

import anthropic
import jsonschema
import pytest

from gemcode.gateway import lossy
from gemcode.gateway.schema import normalize
from gemcode.simulator.reply import Call, HttpError, RecordedRequest, Reply
from gemcode.simulator.rules import check_request
from tests.gateway.agents import AGENTS, Outcome, Tool
from tests.gateway.claude_tools import CALLS, TOOLS
from tests.gateway.support import MODEL, no_violations, stage

BY_NAME = {tool["name"]: tool for tool in TOOLS}


def runnable() -> list[Tool]:
    answer = Outcome("done")
    return [Tool(tool["name"], tool["input_schema"], lambda arguments: answer) for tool in TOOLS]


def brain(request: RecordedRequest) -> Reply:
    """Calls one tool after the other, and the rest in parallel."""
    names = list(CALLS)
    done = sum("functionCall" in p or "function_call" in p for content in request.contents for p in content["parts"])
    if done < 4:
        return Reply.calls(Call(names[done], CALLS[names[done]]))
    if done < len(names):
        return Reply.calls(*[Call(name, CALLS[name]) for name in names[done:]])
    return Reply.says("All done.")


@pytest.mark.parametrize("name", AGENTS)
def test_all_eleven_are_declared_called_and_answered(name: str) -> None:
    assert len(TOOLS) == len(CALLS) == 11
    with stage(brain) as made:
        run = AGENTS[name](made.url).ask("go", runnable(), stream=True)
        assert run.text == "All done." and dict(run.calls) == CALLS
        assert len(made.upstream[0].body["tools"][0]["functionDeclarations"]) == 11
        no_violations(made)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_calls_are_valid_for_the_schema_before_and_after(name: str) -> None:
    schema: dict[str, Any] = BY_NAME[name]["input_schema"]
    jsonschema.validate(CALLS[name], schema)
    jsonschema.validate(CALLS[name], normalize(schema))


@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_rung_of_the_ladder_is_accepted(level: int) -> None:
    declarations = [
        {
            "name": tool["name"],
            "description": "d",
            "parameters": lossy.to_openapi(normalize(tool["input_schema"]), level),
        }
        for tool in TOOLS
    ]
    body = {"contents": [{"parts": [{"text": "x"}]}], "tools": [{"functionDeclarations": declarations}]}
    check_request("v1beta", MODEL, "generateContent", body)


def refuse_full_schemas(request: RecordedRequest) -> Reply:
    """A model that does not know parametersJsonSchema, and finds enums too many."""
    text = str(request.body["tools"])
    if "parametersJsonSchema" in text:
        message = "Unknown name \"parametersJsonSchema\" at 'tools[0].function_declarations[0]': Cannot find field."
    elif "'enum'" in text:
        message = "The specified schema produces a constraint that has too many states for serving."
    else:
        return Reply.says("Fine.")
    error = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    return Reply(error=HttpError(400, error))


def test_a_model_that_refuses_full_schemas_gets_simpler_ones_and_is_remembered() -> None:
    with stage(refuse_full_schemas) as made:
        agent = AGENTS["anthropic"](made.url)
        assert agent.ask("go", runnable()).text == "Fine."
        assert len(made.upstream) == 4  # full, then the three rungs
        assert agent.ask("again", runnable()).text == "Fine."
        assert len(made.upstream) == 5


def test_a_refusal_that_no_rung_helps_is_told_and_not_remembered() -> None:
    message = "Something about function_declarations that has nothing to do with their schema."
    error = HttpError(400, {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})
    with stage(*[Reply(error=error)] * 4, Reply.says("Fine.")) as made:
        agent = AGENTS["anthropic"](made.url)
        with pytest.raises(anthropic.BadRequestError, match="nothing to do"):
            agent.ask("go", runnable())
        assert agent.ask("again", runnable()).text == "Fine."
        assert "parametersJsonSchema" in str(made.upstream[-1].body)
