"""A faithful client never breaks a rule, whatever the model does; an unfaithful one is caught."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.simulator.catalog import CURRENT
from gemcode.simulator.errors import Rejected
from gemcode.simulator.reply import Call, RecordedRequest, Reply, Text, Thought
from gemcode.simulator.service import Performance, Service, Settings

MODELS = [model.name for model in CURRENT]
TOOLS = [{"functionDeclarations": [{"name": name} for name in ("f", "g")]}]


class Script:
    """Answers with the replies it was given, in order."""

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = replies

    def answer(self, request: RecordedRequest) -> Reply:
        return self.replies[request.number - 1]


def ask(service: Service, model: str, contents: list[Any], number: int, *, stream: bool = True) -> list[dict[str, Any]]:
    """The parts of the answer, as a client that keeps everything would store them."""
    action = "streamGenerateContent" if stream else "generateContent"
    body = {"contents": contents, "tools": TOOLS, "generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    path = f"/v1/models/{model}:{action}"
    request = RecordedRequest(number, "POST", path, {}, {}, body, 0, 0.0, "v1", model, action)
    outcome = service.handle(request)
    assert isinstance(outcome, Performance)
    candidates = [event.body["candidates"][0] for event in outcome.events]
    return [part for candidate in candidates for part in candidate.get("content", {}).get("parts", [])]


def results(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    kept = [{key: call[key] for key in ("id", "name") if key in call} for call in calls]
    return [{"functionResponse": {**call, "response": {"output": "ok"}}} for call in kept]


step = (
    st.builds(Text, st.text(max_size=9))
    | st.builds(Thought, st.text(max_size=9))
    | st.builds(
        Call,
        st.sampled_from("fg"),
        st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False) | st.text(), max_size=2),
    )
)
replies = st.lists(st.lists(step, max_size=5).map(lambda steps: Reply(steps=tuple(steps))), min_size=1, max_size=6)


@given(replies, st.sampled_from(MODELS), st.booleans())
def test_a_client_that_returns_everything_is_never_refused(script: list[Reply], model: str, stream: bool) -> None:
    service = Service(Script(script), Settings(strict_ids=model > "gemini-3.1"))
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "hi"}]}]
    for number in range(1, len(script) + 1):
        parts = ask(service, model, contents, number, stream=stream)
        if parts:
            contents.append({"role": "model", "parts": parts})
        contents.append({"role": "user", "parts": results(parts) or [{"text": "go on"}]})


DAMAGE = {
    "no signature": lambda parts: [{**part, "thoughtSignature": None} for part in parts],
    "another argument": lambda parts: [
        {**parts[0], "functionCall": {**parts[0]["functionCall"], "args": {"x": 2}}},
        *parts[1:],
    ],
    "another order": lambda parts: [parts[1], parts[0], *parts[2:]],
    "a part without data": lambda parts: [*parts, {"thought": True}],
    "an id on the part": lambda parts: [{**parts[0], "id": "1"}, *parts[1:]],
    "another id": lambda parts: [{**parts[0], "functionCall": {**parts[0]["functionCall"], "id": "other"}}, *parts[1:]],
    "a lost call": lambda parts: [parts[0], *parts[2:]],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_client_that_damages_what_it_returns_is_refused(name: str) -> None:
    service = Service(Script([Reply.calls(Call("f", {"x": 1}), Call("g")), Reply.says("done")]), Settings())
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "hi"}]}]
    parts = ask(service, "gemini-3.8-flash", contents, 1)
    answer = {"role": "user", "parts": results(parts)}
    with pytest.raises(Rejected):
        ask(service, "gemini-3.8-flash", [*contents, {"role": "model", "parts": DAMAGE[name](parts)}, answer], 2)
    ask(service, "gemini-3.8-flash", [*contents, {"role": "model", "parts": parts}, answer], 2)


def test_signatures_do_not_travel_to_another_model_in_the_current_turn() -> None:
    service = Service(Script([Reply.calls(Call("f")), Reply.says("done"), Reply.says("more")]), Settings())
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "hi"}]}]
    parts = ask(service, "gemini-3.8-flash", contents, 1)
    contents += [{"role": "model", "parts": parts}, {"role": "user", "parts": results(parts)}]
    with pytest.raises(Rejected, match="Corrupted thought signature"):
        ask(service, "gemini-3.7-flash", contents, 2)
    contents += [{"role": "model", "parts": [{"text": "done"}]}, {"role": "user", "parts": [{"text": "and now?"}]}]
    ask(service, "gemini-3.7-flash", contents, 3)


def test_signatures_of_another_simulator_are_genuine() -> None:
    first, second = (Service(Script([Reply.calls(Call("f")), Reply.says("done")]), Settings()) for _ in range(2))
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "hi"}]}]
    parts = ask(first, "gemini-3.8-flash", contents, 1)
    contents += [{"role": "model", "parts": parts}, {"role": "user", "parts": results(parts)}]
    ask(second, "gemini-3.8-flash", contents, 2)
