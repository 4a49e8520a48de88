from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.messages import (
    ChoiceMode,
    Generation,
    Message,
    ModelMessage,
    ModelRequest,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gemcode.gemini import wire
from gemcode.gemini.body import BodyEncoder
from tests.agent.generated import MESSAGES

TOOLS = (ToolDeclaration("read", "Reads.", {"type": "object"}),)


def plain(request: ModelRequest, token: str | None = None) -> bytes:
    body = wire.encode_request(request)
    return wire.dump_body(body if token is None else {**body, "continuationToken": token})


def has_pair(message: Message) -> bool:
    """Whether the service could have sent it: the raw form of a call holds a call."""
    parts = message.parts if isinstance(message, ModelMessage) else ()
    return all(not isinstance(part, ToolCall) or part.raw is None for part in parts)


CONVERSATIONS = st.lists(MESSAGES.filter(has_pair), max_size=8)


@given(CONVERSATIONS, st.lists(st.integers(0, 8), max_size=6), st.booleans(), st.sampled_from(["", "system"]))
def test_the_bytes_are_those_of_the_plain_encoding_whatever_came_before(
    messages: list[Message], lengths: list[int], tools: bool, system: str
) -> None:
    encoder = BodyEncoder()
    for number, length in enumerate(lengths):
        model = "gemini-3.8-flash" if number % 3 else "gemini-2.5-flash"
        request = ModelRequest(model, messages[:length], system, TOOLS if tools else ())
        assert encoder.encode(request) == plain(request)
        assert encoder.encode(request, "to/ken") == plain(request, "to/ken")


def test_a_message_changed_in_the_middle_is_encoded_anew() -> None:
    encoder = BodyEncoder()
    history: list[Message] = [UserMessage.of("one"), ModelMessage((ToolCall("a", "read", {}),))]
    history.append(ToolMessage((ToolResult("a", "read", {"output": 1}),)))
    encoder.encode(ModelRequest("gemini-3.8-flash", history))
    history[0] = UserMessage.of("two")
    history.append(ModelMessage((Text("done"),)))
    request = ModelRequest("gemini-3.8-flash", history)
    assert encoder.encode(request) == plain(request)


def test_what_stands_before_the_conversation_may_change_any_time() -> None:
    encoder = BodyEncoder()
    for choice in (ToolChoice(), ToolChoice(ChoiceMode.NONE)):
        for generation in (Generation(), Generation(temperature=0.5)):
            request = ModelRequest("gemini-3.8-flash", [UserMessage.of("hi")], "s", TOOLS, choice, generation)
            assert encoder.encode(request) == plain(request)
