"""The official SDKs over real HTTP, gateway in front of the strict simulator.

Nothing is refused upstream, every signature comes back, and the sentinel is not needed.
"""

import base64
from typing import Any

import httpx2
import pytest

from gemcode.simulator.reply import Call, RecordedRequest, Reply, Text
from tests.gateway.agents import AGENTS, PNG, Agent, Outcome, Tool
from tests.gateway.support import TOKEN, Stage, no_violations, stage

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": True}
UNICODE = {
    "path": "naïve/文件 \U0001f600.txt",
    "text": 'quote " backslash \\ newline \n tab \t',
    "n": 3,
    "deep": {"a": [1, None, True]},
}
CALLS = ("functionCall", "function_call")
SIGNATURES = ("thoughtSignature", "thought_signature")


def echo(arguments: dict[str, Any]) -> Outcome:
    return Outcome(f"contents of {arguments.get('path', '')}")


READ = Tool("read", PATH, echo)
FAIL = Tool("fail", PATH, lambda arguments: Outcome("no such file", failed=True))
SHOW = Tool("show", PATH, lambda arguments: Outcome("a picture", image=PNG))


@pytest.fixture(params=AGENTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def agent(name: str, made: Stage) -> Agent:
    return AGENTS[name](made.url)


def get(part: dict[str, Any], keys: tuple[str, str]) -> Any:
    return next((part[key] for key in keys if key in part), None)


def steps_of(request: RecordedRequest) -> list[tuple[bool, int]]:
    """For each model step with calls: is its first call signed, and how many calls it has."""
    found = []
    for content in request.contents:
        calls = [part for part in content["parts"] if get(part, CALLS)]
        if calls:
            found.append((bool(get(calls[0], SIGNATURES)), len(calls)))
    return found


def sentinels(made: Stage) -> int:
    escapes = (b"skip_thought_signature_validator", base64.b64encode(b"skip_thought_signature_validator"))
    bodies = [str(request.body).encode() for request in made.upstream]
    lines = httpx2.get(f"{made.url}/metrics", headers={"x-api-key": TOKEN}).text.splitlines()
    counted = sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("gemcode_gateway_sentinel"))
    assert (counted > 0) == any(escape in body for body in bodies for escape in escapes)
    return counted


def in_order(made: Stage) -> None:
    no_violations(made)
    for request in made.upstream:
        assert all(signed for signed, _ in steps_of(request)), "a step came back without its signature"
    assert sentinels(made) == 0


def test_a_plain_answer(name: str, stream: bool) -> None:
    with stage(Reply.says("Hel", "lo ", "wörld")) as made:
        assert agent(name, made).ask("hi", [], stream=stream).text == "Hello wörld"
        in_order(made)


def test_one_call(name: str, stream: bool) -> None:
    with stage(Reply.calls(Call("read", {"path": "a"})), Reply.says("Done.")) as made:
        run = agent(name, made).ask("go", [READ], stream=stream)
        assert (run.text, run.calls, run.steps) == ("Done.", [("read", {"path": "a"})], 2)
        (result,) = made.upstream[1].results
        assert result["name"] == "read" and result["response"] == {"output": "contents of a"}
        in_order(made)


def test_parallel_calls_are_answered_in_their_order(name: str, stream: bool) -> None:
    first = Reply.calls(Call("read", {"path": "a"}), Call("show", {"path": "b"}), Call("read", {"path": "c"}))
    with stage(first, Reply.says("Done.")) as made:
        run = agent(name, made).ask("go", [READ, SHOW], stream=stream)
        assert [call for call, _ in run.calls] == ["read", "show", "read"]
        assert [result["name"] for result in made.upstream[1].results] == ["read", "show", "read"]
        assert steps_of(made.upstream[1]) == [(True, 3)]
        in_order(made)


def test_text_beside_a_call_arrives(name: str, stream: bool) -> None:
    with stage(Reply(steps=(Text("I look. "), Call("read", {"path": "a"}))), Reply.says("Done.")) as made:
        assert agent(name, made).ask("go", [READ], stream=stream).text == "I look. Done."
        in_order(made)


def test_thirty_steps_and_a_second_question(name: str, stream: bool) -> None:
    def brain(request: RecordedRequest) -> Reply:
        asked = sum(len(content["parts"]) for content in request.contents if content["role"] == "model")
        if len(steps_of(request)) < 30:
            return Reply.calls(*[Call("read", {"path": f"{asked}-{at}"}) for at in range(1 + asked % 2)])
        return Reply.says("Thirty.")

    with stage(brain) as made:
        client = agent(name, made)
        run = client.ask("go", [READ], stream=stream)
        assert run.steps == 31 and run.text == "Thirty."
        assert client.ask("and?", [READ], stream=stream).text == "Thirty."
        assert len(steps_of(made.upstream[-1])) == 30
        in_order(made)


@pytest.mark.parametrize(
    ("choice", "mode", "names"), [("required", "ANY", None), ("read", "ANY", ["read"]), ("none", "NONE", None)]
)
def test_the_choice_of_a_tool_is_heeded(name: str, choice: str, mode: str, names: list[str] | None) -> None:
    reply = Reply.says("No.") if choice == "none" else Reply.calls(Call("read", {"path": "a"}))
    with stage(reply, Reply.says("Done.")) as made:
        agent(name, made).ask("go", [READ, FAIL], choice)
        config = made.upstream[0].body.get("toolConfig", {}).get("functionCallingConfig", {})
        if name == "bedrock" and choice == "none":
            assert "tools" not in made.upstream[0].body  # the dialect has no word for it but leaving the tools out
        else:
            assert config["mode"] == mode and config.get("allowedFunctionNames") == names
        in_order(made)


def test_a_failed_tool_is_told_as_failed(name: str) -> None:
    with stage(Reply.calls(Call("fail", {"path": "a"})), Reply.says("Pity.")) as made:
        agent(name, made).ask("go", [FAIL])
        (result,) = made.upstream[1].results
        key = "output" if name in ("responses", "chat") else "error"  # those two have no flag for it
        assert result["response"] == {key: "no such file"}
        in_order(made)


def test_an_image_comes_along_with_the_result(name: str) -> None:
    with stage(Reply.calls(Call("show", {"path": "a"})), Reply.says("Nice.")) as made:
        agent(name, made).ask("go", [SHOW])
        (result,) = made.upstream[1].results
        (part,) = result["parts"]
        blob = part.get("inlineData") or part["inline_data"]
        data = blob["data"].replace("-", "+").replace("_", "/")
        assert base64.b64decode(data) == PNG and (blob.get("mimeType") or blob.get("mime_type")) == "image/png"
        assert result["response"] == {"output": "a picture"}
        in_order(made)


@pytest.mark.parametrize("arguments", [UNICODE, {}], ids=["unicode", "empty"])
def test_arguments_arrive_and_come_back_unchanged(name: str, arguments: dict[str, Any], stream: bool) -> None:
    with stage(Reply.calls(Call("read", arguments)), Reply.says("Done.")) as made:
        run = agent(name, made).ask("go", [READ], stream=stream)
        assert run.calls == [("read", arguments)]
        parts = [part for content in made.upstream[1].contents for part in content["parts"]]
        (call,) = [get(part, CALLS) for part in parts if get(part, CALLS)]
        assert call.get("args", {}) == arguments
        in_order(made)


@pytest.mark.parametrize("name", ["anthropic", "responses", "chat"])  # the other two know no such names themselves
def test_names_that_gemini_would_refuse_come_back_as_they_were(name: str) -> None:
    odd = [Tool("mcp server/read.file", PATH, echo), Tool("7" * 90, PATH, echo)]

    def brain(request: RecordedRequest) -> Reply:
        declared = [item["name"] for item in request.body["tools"][0]["functionDeclarations"]]
        return Reply.says("Done.") if request.results else Reply.calls(*[Call(tool, {}) for tool in declared])

    with stage(brain) as made:
        run = agent(name, made).ask("go", odd)
        assert [call for call, _ in run.calls] == [tool.name for tool in odd]
        in_order(made)
