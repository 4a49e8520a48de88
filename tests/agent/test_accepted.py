"""Whatever the model sends, and whenever the person or the network interrupts: the next request is one that the service
takes. Real parts all the way: the decoder, the loop, the session file, the encoder, and the rules of the simulator."""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gemcode.agent.errors import ModelError
from gemcode.agent.events import Status
from gemcode.agent.loop import Agent
from gemcode.agent.messages import ModelRequest, UserMessage
from gemcode.agent.model import ModelEvent
from gemcode.agent.persona import TurnLimits
from gemcode.agent.policy import Mode
from gemcode.agent.session import SessionStore
from gemcode.agent.tool import Answer, ApprovalRequest, Approved, Declined, Output, Stopped
from gemcode.gemini.reply import StreamDecoder
from gemcode.gemini.wire import encode_request
from gemcode.simulator.rules import check_request
from gemcode.simulator.signatures import issue_signature
from tests.agent.test_loop import Bench, assert_valid, make_agent

MODELS = ("gemini-3.8-flash", "gemini-3.1-pro-preview", "gemini-2.5-flash", "gemini-4-argon")
NAMES = st.sampled_from(["read", "write", "nothing", "default_api:read"])
ARGS = st.sampled_from([{"path": "a"}, {"path": "b"}, {"path": 1}, {}, {"path": "a", "x": [1.0, None]}])
TEXT_PARTS = st.sampled_from(
    [{"text": "hi"}, {"text": ""}, {"text": "**thinking**", "thought": True}, {"text": " \n"}, {"text": "é\u2028"}]
)
CODE_PARTS = st.sampled_from(
    [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
    ]
)
CALL_PARTS = st.builds(lambda name, args: {"functionCall": {"name": name, "args": args}}, NAMES, ARGS)
REASONS = st.sampled_from(
    ["STOP", "STOP", "STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "OTHER", "NEW", None]
)
STEPS = st.fixed_dictionaries(
    {
        "events": st.lists(st.lists(TEXT_PARTS | CALL_PARTS | CODE_PARTS, max_size=4), min_size=1, max_size=3),
        "reason": REASONS,
        "signed": st.booleans(),
        "break_after": st.none() | st.integers(0, 3),
        "error": st.sampled_from(["", "", "", "failed", "too long"]),
        "prompt_tokens": st.integers(0, 1000),
        "duplicate_ids": st.booleans(),
    }
)
Step = dict[str, Any]


class WireModel:
    """Streams what a test drew, as a service of this model would have sent it, and checks every request."""

    def __init__(self, model: str, steps: list[Step]) -> None:
        self.model = model
        self.steps = steps
        self.numbers = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        accepted(request)
        step = self.steps.pop(0) if self.steps else {"events": [[{"text": "end"}]], "reason": "STOP"}
        if step.get("error"):
            error = ModelError("It failed.")
            error.too_long = step["error"] == "too long"
            raise error
        decoder = StreamDecoder(request)
        for index, event in enumerate(self._events(step)):
            if step.get("break_after") == index:
                raise ModelError("The connection broke off.")
            for delta in decoder.feed(event):
                yield delta
        yield decoder.finish()

    def _events(self, step: Step) -> list[Any]:
        """A step's first call is always signed by a 3.x model; ids come with 3.1 and later."""
        modern = not self.model.startswith("gemini-2")
        signed = False
        bodies = []
        for parts in step["events"]:
            sent = []
            for part in parts:
                part = json.loads(json.dumps(part))
                if call := part.get("functionCall"):
                    self.numbers += not step.get("duplicate_ids")
                    if modern:
                        call["id"] = f"id{self.numbers}"
                        if not signed:
                            part["thoughtSignature"] = issue_signature(self.model, (call["name"], call["args"]))
                            signed = True
                sent.append(part)
            bodies.append({"candidates": [{"content": {"role": "model", "parts": sent}}]})
        last = bodies[-1]["candidates"][0]
        if step["reason"]:
            last["finishReason"] = step["reason"]
        if modern and step.get("signed"):
            last["content"]["parts"].append({"text": "", "thoughtSignature": issue_signature(self.model)})
        tokens = step.get("prompt_tokens", 10)
        bodies[-1]["usageMetadata"] = {"promptTokenCount": tokens, "totalTokenCount": tokens}
        return bodies


def accepted(request: ModelRequest) -> None:
    check_request("v1", request.model, "streamGenerateContent", json.loads(json.dumps(encode_request(request))))


def make(model: WireModel, mode: Mode, answers: list[Answer]) -> Agent:
    bench = Bench()
    bench.read = lambda arguments: Output({"content": arguments.path * 3000})

    async def approve(request: ApprovalRequest) -> Answer:
        return answers.pop(0) if answers else Approved(request.preview)

    agent = make_agent(bench, model, mode, limits=TurnLimits(steps=4, compact_at=0.5))  # type: ignore[arg-type]  # a Model
    persona = agent.persona
    agent.persona = type(persona)(model.model, persona.system, price=persona.price, input_limit=1000)
    agent.approve = approve
    return agent


async def take_turn(agent: Agent, number: int, cancel_after: int | None) -> None:
    """One turn, cancelled at the given event if it comes so far."""
    seen = 0
    task = asyncio.ensure_future(agent.run(UserMessage.of(f"prompt {number}"), lambda event: count()))

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == cancel_after:
            task.cancel()

    await asyncio.wait([task])
    if not task.cancelled():
        assert task.result().status in Status


@given(
    st.sampled_from(MODELS),
    st.lists(STEPS, max_size=12),
    st.lists(st.none() | st.integers(1, 12), min_size=1, max_size=4),
    st.sampled_from([Mode.ASK, Mode.ALL, Mode.NONE]),
    st.lists(st.sampled_from([Declined("no"), Stopped()]), max_size=3),
    st.booleans(),
)
@settings(max_examples=150)
def test_every_request_is_one_that_the_service_takes(
    model: str, steps: list[Step], cancels: list[int | None], mode: Mode, answers: list[Answer], resumed: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = SessionStore(Path(directory))
        session = store.create()
        wire = WireModel(model, steps)
        agent = make(wire, mode, list(answers))
        agent.begin(session.state, session.record)
        for number, cancel in enumerate(cancels):
            asyncio.run(take_turn(agent, number, cancel))
            assert_valid(agent.history)
            accepted(ModelRequest(model, [*agent.history, UserMessage.of("next")]))
            if resumed and agent.history:
                session.close()
                session = store.resume(session.id)
                assert session.state == agent.state
                agent.begin(session.state, session.record)
        session.close()
