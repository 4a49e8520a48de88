"""What every dialect stands on: names, ids, envelopes, the channel reader, history, the memory of signatures."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.messages import (
    Blob,
    ModelMessage,
    ModelRequest,
    Text,
    Thought,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from gemcode.gateway.dialect import (
    ChannelReader,
    Envelope,
    Failure,
    FailureKind,
    as_count,
    as_messages,
    client_id,
    gemini_id,
    overflow,
    parse_arguments,
)
from gemcode.gateway.failures import from_body, refuses_schema
from gemcode.gateway.history import Answer, History, as_response
from gemcode.gateway.names import ClientTool, ToolNames, safe_name
from gemcode.gateway.signatures import SECONDS, SignatureMemory

MODEL = "gemini-3.8-flash"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)


class TestNames:
    @given(TEXTS)
    def test_any_name_becomes_one_that_gemini_takes_the_same_every_time(self, name: str) -> None:
        safe = safe_name(name)
        assert 1 <= len(safe) <= 64
        assert safe[0].isascii() and (safe[0].isalpha() or safe[0] == "_")
        assert all(sign.isascii() and (sign.isalnum() or sign in "_-") for sign in safe)
        assert safe_name(name) == safe
        assert safe_name(safe) == safe

    @given(st.lists(TEXTS, unique=True, max_size=20))
    def test_every_name_comes_back(self, names: list[str]) -> None:
        known = ToolNames.of(ClientTool(name) for name in names)
        assert [known.restore(safe_name(name)).name for name in names] == names

    def test_names_that_are_fine_stay(self) -> None:
        for name in ("Read", "mcp__server__tool-x", "_private", "a" * 64):
            assert safe_name(name) == name

    def test_a_namespace_is_put_before_and_taken_off_again(self) -> None:
        tool = ClientTool("spawn_agent", "multi_agent_v1")
        assert tool.gemini_name == "multi_agent_v1__spawn_agent"
        assert ToolNames.of([tool]).restore("multi_agent_v1__spawn_agent") == tool

    def test_a_name_that_was_not_declared_is_told_as_it_is(self) -> None:
        assert ToolNames().restore("unknown") == ClientTool("unknown")


class TestIds:
    def test_a_clean_id_travels_inside_and_comes_back(self) -> None:
        assert client_id("toolu_", "p6j1x1kq") == "toolu_p6j1x1kq"
        assert gemini_id("toolu_", "toolu_p6j1x1kq") == "p6j1x1kq"

    @given(TEXTS)
    def test_ids_are_short_and_plain_whatever_gemini_says(self, given_id: str) -> None:
        made = client_id("tooluse_", given_id)
        assert len(made) <= 40 and made.isascii() and made.replace("_", "").isalnum()

    @given(TEXTS)
    def test_the_same_id_of_the_service_is_the_same_to_the_client_and_stays_so(self, given_id: str) -> None:
        made = client_id("call_", given_id)
        assert client_id("call_", given_id) == made == client_id("call_", gemini_id("call_", made))

    @given(TEXTS)
    def test_an_id_of_another_maker_is_the_same_on_call_and_result(self, other: str) -> None:
        assert gemini_id("call_", other) == gemini_id("call_", other)
        assert other == "" or gemini_id("call_", other) != ""


class TestEnvelope:
    @given(st.sampled_from(["call", "text", "thought"]), st.binary(min_size=1, max_size=50))
    def test_it_brings_the_signature_through(self, kind: str, raw: bytes) -> None:
        import base64

        signature = base64.b64encode(raw).decode()
        sealed = Envelope(kind, MODEL, signature).seal()
        assert Envelope.unseal(sealed, MODEL) == Envelope(kind, MODEL, signature)

    @pytest.mark.parametrize(
        "foreign",
        [
            None,
            5,
            "",
            "EqoBCkYICxgC",
            "gc1.",
            "gc1.call",
            "gc1.call.gemini-3.8-flash.",
            "gc2.call.gemini-3.8-flash.QUJD",
        ],
    )
    def test_what_is_not_ours_is_nothing(self, foreign: Any) -> None:
        assert Envelope.unseal(foreign, MODEL) is None

    def test_a_signature_of_another_model_is_nothing(self) -> None:
        assert Envelope.unseal(Envelope("call", "gemini-2.5-pro", "QUJD").seal(), MODEL) is None


def seal(kind: str, signature: str = "QUJD") -> str:
    return Envelope(kind, MODEL, signature).seal()


class TestChannel:
    def test_a_call_gets_its_signature_also_past_text_between(self) -> None:
        reader = ChannelReader(MODEL)
        parts = [*reader.reasoning(seal("call"), "I think"), *reader.sign(Text("so"))]
        parts += [*reader.sign(ToolCall("1", "f", {})), *reader.sign(ToolCall("2", "f", {})), *reader.flush()]
        assert parts == [Text("so"), ToolCall("1", "f", {}, "QUJD"), ToolCall("2", "f", {})]

    def test_a_text_gets_its_signature_and_without_one_it_stands_alone(self) -> None:
        reader = ChannelReader(MODEL)
        assert [*reader.reasoning(seal("text")), *reader.sign(Text("a"))] == [Text("a", "QUJD")]
        assert [*reader.reasoning(seal("text")), *reader.flush()] == [Text("", "QUJD")]
        parts = [*reader.reasoning(seal("text")), *reader.sign(ToolCall("1", "f", {}))]
        assert parts == [Text("", "QUJD"), ToolCall("1", "f", {})]

    def test_a_signed_thought_comes_back_with_its_words_and_an_unsigned_one_not(self) -> None:
        reader = ChannelReader(MODEL)
        assert reader.reasoning(seal("thought"), "hm") == [Thought("hm", "QUJD")]
        assert reader.reasoning("foreign", "words of another model") == []

    def test_a_signature_whose_call_is_gone_is_dropped(self) -> None:
        reader = ChannelReader(MODEL)
        assert [*reader.reasoning(seal("call")), *reader.flush()] == []


class TestHistory:
    def test_results_are_paired_ordered_and_completed(self) -> None:
        history = History()
        history.user([Text("go")])
        history.model([ToolCall("1", "f", {}), ToolCall("2", "g", {}), ToolCall("3", "h", {})])
        history.user([Answer("3", {"output": "c"}), Answer("1", {"output": "a"}), Text("and now?")])
        _user, _model, results, after = history.build()
        assert isinstance(results, ToolMessage)
        assert [(r.call_id, r.name, r.ok) for r in results.results] == [
            ("1", "f", True),
            ("2", "g", False),
            ("3", "h", True),
        ]
        assert after == UserMessage((Text("and now?"),))

    def test_a_result_without_its_call_becomes_text(self) -> None:
        history = History()
        history.user([Answer("gone", {"output": "42"}, (Blob("image/png", b"x"),))])
        (message,) = history.build()
        assert isinstance(message, UserMessage)
        assert message.text == "Result of an earlier call: 42" and isinstance(message.parts[1], Blob)

    def test_a_trailing_call_is_answered_and_a_trailing_answer_is_continued(self) -> None:
        history = History()
        history.model([ToolCall("1", "f", {})])
        first, _model, results = history.build()
        assert isinstance(first, UserMessage) and isinstance(results, ToolMessage) and not results.results[0].ok
        history = History()
        history.user([Text("a")])
        history.model([Text("{")])
        assert isinstance(history.build()[-1], UserMessage)

    def test_neighbours_of_one_role_are_joined_and_empty_text_goes(self) -> None:
        history = History()
        history.user([Text("a"), Text("")])
        history.user([Text("b")])
        history.model([Text("")])
        history.model([Text("c"), Text("", "SIG")])
        history.user([Text("d")])
        assert [len(message.parts) for message in history.build() if not isinstance(message, ToolMessage)] == [2, 2, 1]

    def test_two_calls_with_one_id_are_told_apart(self) -> None:
        history = History()
        history.user([Text("a")])
        history.model([ToolCall("x", "f", {}), ToolCall("x", "g", {})])
        history.user([Answer("x", {"output": 1}), Answer("x", {"output": 2})])
        _, model, results = history.build()
        assert isinstance(model, ModelMessage) and isinstance(results, ToolMessage)
        ids = [call.id for call in model.calls]
        assert len(set(ids)) == 2 and [result.call_id for result in results.results] == ids
        assert [result.response["output"] for result in results.results] == [1, 2]

    def test_where_nothing_was_said_the_user_says_a_blank(self) -> None:
        assert History().build() == (UserMessage.of(" "),)

    def test_success_and_failure_have_their_keys(self) -> None:
        assert as_response("x", ok=True) == {"output": "x"} and as_response("x", ok=False) == {"error": "x"}


def request(*parts: Any, model: str = MODEL) -> ModelRequest:
    return ModelRequest(model, (UserMessage.of("q"), ModelMessage(tuple(parts)), UserMessage.of("r")))


class TestMemory:
    def test_a_call_that_lost_its_signature_gets_it_back(self) -> None:
        memory = SignatureMemory()
        memory.remember(MODEL, [ToolCall("1", "f", {}, "SIG"), ToolCall("2", "f", {})])
        done, unsigned = memory.complete(request(ToolCall("1", "f", {}), ToolCall("2", "f", {})))
        message = done.messages[1]
        assert isinstance(message, ModelMessage) and unsigned == 0
        assert [call.signature for call in message.calls] == ["SIG", None]

    @pytest.mark.parametrize("long", ["function-call-1234567890", "x" * 200, "é"])
    def test_a_call_is_known_again_by_the_id_that_its_client_was_given(self, long: str) -> None:
        memory = SignatureMemory()
        memory.remember(MODEL, [ToolCall(long, "f", {}, "SIG")])
        returned = gemini_id("call_", client_id("call_", long))
        assert memory.complete(request(ToolCall(returned, "f", {})))[1] == 0

    def test_an_unknown_first_call_is_counted_and_its_siblings_are_not(self) -> None:
        _, unsigned = SignatureMemory().complete(request(ToolCall("1", "f", {}), ToolCall("2", "f", {})))
        assert unsigned == 1

    def test_a_signature_that_came_along_is_left_alone(self) -> None:
        memory = SignatureMemory()
        memory.remember(MODEL, [ToolCall("1", "f", {}, "OLD")])
        done, unsigned = memory.complete(request(ToolCall("1", "f", {}, "NEW")))
        assert unsigned == 0 and done.messages[1].parts[0].signature == "NEW"  # type: ignore[union-attr]

    def test_models_before_three_need_none(self) -> None:
        assert SignatureMemory().complete(request(ToolCall("1", "f", {}), model="gemini-2.5-pro"))[1] == 0

    def test_a_final_text_is_known_again_by_its_words(self) -> None:
        memory = SignatureMemory()
        memory.remember(MODEL, [Text("It says "), Text("so.\n"), Text("", "SIG")])
        done, _ = memory.complete(request(Text("It says so.")))
        assert done.messages[1].parts == (Text("It says so."), Text("", "SIG"))  # type: ignore[union-attr]
        other, _ = memory.complete(request(Text("It says no.")))
        assert other.messages[1].parts == (Text("It says no."),)  # type: ignore[union-attr]

    def test_it_forgets_the_oldest_the_largest_and_the_old(self) -> None:
        now = [0.0]
        memory = SignatureMemory(entries=3, size=100, clock=lambda: now[0])
        for number in range(5):
            memory.remember(MODEL, [ToolCall(str(number), "f", {}, "S")])
        assert len(memory) == 3
        memory.remember(MODEL, [ToolCall("big", "f", {}, "S" * 99)])
        assert len(memory) == 2
        memory.remember(MODEL, [ToolCall("huge", "f", {}, "S" * 101)])
        assert len(memory) == 0
        memory.remember(MODEL, [ToolCall("x", "f", {}, "S")])
        now[0] = SECONDS + 1
        assert memory.complete(request(ToolCall("x", "f", {})))[1] == 1 and len(memory) == 0


class TestFailures:
    def test_an_overflow_is_worded_as_clients_parse_it(self) -> None:
        message = "The input token count (2551556) exceeds the maximum number of tokens allowed (1048576)."
        body = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}}
        failure = from_body(400, json.dumps(body).encode(), 32000)
        assert failure.kind is FailureKind.OVERFLOW
        assert failure.message == "prompt is too long: 2551556 tokens > 1048576 maximum"
        both = overflow(1_040_000, 1_048_576, 32_000)
        assert both.message == "input length and `max_tokens` exceed context limit: 1040000 + 32000 > 1048576"

    @pytest.mark.parametrize(("delay", "said"), [(0.2, "1"), (2.4, "3"), (7.0, "7"), (None, None)])
    def test_a_client_never_comes_again_too_early(self, delay: float | None, said: str | None) -> None:
        assert Failure(FailureKind.RATE_LIMITED, "", retry_after=delay).headers.get("retry-after") == said

    def test_a_page_of_a_proxy_is_not_passed_on(self) -> None:
        failure = from_body(502, b"<html>secret inner host</html>", None)
        assert failure.kind is FailureKind.SERVER and "secret" not in failure.message

    def test_a_daily_quota_gives_no_time_to_wait(self) -> None:
        detail = {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": "RequestsPerDay-FreeTier"}],
        }
        wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}
        error = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota", "details": [detail, wait]}}
        failure = from_body(429, json.dumps(error).encode(), None)
        assert failure.kind is FailureKind.RATE_LIMITED and failure.retry_after is None and "daily" in failure.message
        detail["violations"] = [{"quotaId": "TokensPerMinute"}]
        assert from_body(429, json.dumps(error).encode(), None).retry_after == 30

    @pytest.mark.parametrize(
        ("message", "helps"),
        [
            (
                "Invalid JSON payload. Unknown name \"const\" at 'tools[0].function_declarations[5].parameters'",
                True,
            ),
            ("The specified schema produces a constraint that has too many states for serving.", True),
            ("* GenerateContentRequest.tools[0].function_declarations[22].name: Invalid function name.", False),
            ("Request contains an invalid argument.", False),
        ],
    )
    def test_only_a_complaint_about_schemas_goes_down_the_ladder(self, message: str, helps: bool) -> None:
        assert refuses_schema(message) is helps


class TestReading:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('{"a": 1}', {"a": 1}),
            ("", {}),
            ("  ", {}),
            (None, {}),
            ("{broken", {"_raw": "{broken"}),
            ("[1]", {"_raw": "[1]"}),
            ('{"a": NaN}', {"_raw": '{"a": NaN}'}),
            ('{"a": 1e999}', {"_raw": '{"a": 1e999}'}),
            ({"a": 2}, {"a": 2}),
        ],
    )
    def test_arguments_that_do_not_parse_are_kept(self, text: Any, expected: Any) -> None:
        assert parse_arguments(text) == expected

    @pytest.mark.parametrize("nothing", [None, []])
    def test_a_conversation_without_a_message_is_an_error(self, nothing: Any) -> None:
        with pytest.raises(Failure, match="input: at least one message"):
            as_messages(nothing, "input")

    @pytest.mark.parametrize("bad", [True, "5", 0, -1, 1.5, []])
    def test_a_count_must_be_one(self, bad: Any) -> None:
        with pytest.raises(Failure, match="max_tokens"):
            as_count(bad, "max_tokens")
        assert as_count(4.0, "max_tokens") == 4
