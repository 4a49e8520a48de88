"""What real clients send, dialect by dialect: each field lands where Gemini expects it."""

import base64
import json
from typing import Any

import pytest

from gemcode.agent.messages import (
    Blob,
    ChoiceMode,
    ModelMessage,
    Opaque,
    Text,
    Thought,
    ToolCall,
    ToolChoice,
    ToolMessage,
    Usage,
    UserMessage,
)
from gemcode.agent.model import Finish, FinishKind
from gemcode.gateway.anthropic import AnthropicDialect
from gemcode.gateway.bedrock import BedrockDialect
from gemcode.gateway.chat import ChatDialect
from gemcode.gateway.dialect import Asked, Ended, Envelope, Failure, Started
from gemcode.gateway.responses import ResponsesDialect
from gemcode.gateway.upstream import encode

MODEL = "gemini-3.8-flash"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
PNG = base64.b64encode(b"\x89PNG").decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
STOP = Finish(FinishKind.COMPLETE, "STOP")


def anthropic(**body: Any) -> Asked:
    base = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    return AnthropicDialect().decode({**base, **body}, lambda name: name)


def responses(**body: Any) -> Asked:
    return ResponsesDialect().decode({"model": MODEL, "input": "hi", **body}, lambda name: name)


def chat(**body: Any) -> Asked:
    base = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    return ChatDialect().decode({**base, **body}, lambda name: name)


def bedrock(**body: Any) -> Asked:
    base = {"modelId": MODEL, "messages": [{"role": "user", "content": [{"text": "hi"}]}]}
    return BedrockDialect().decode({**base, **body}, lambda name: name)


class TestAnthropic:
    def test_system_in_every_form(self) -> None:
        blocks = [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=ab12"},
            {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Be brief."},
        ]
        assert anthropic(system=blocks).request.system == "You are Claude Code.\n\nBe brief."
        assert anthropic(system="Be brief.").request.system == "Be brief."
        assert anthropic().request.system == ""

    def test_a_system_message_in_the_middle_is_a_reminder_to_the_user_turn(self) -> None:
        messages = [{"role": "user", "content": "go"}, {"role": "system", "content": "Agents: none"}]
        (message,) = anthropic(messages=messages).request.messages
        assert isinstance(message, UserMessage)
        assert message.parts[1] == Text("<system-reminder>\nAgents: none\n</system-reminder>")

    def test_a_result_with_text_and_image_and_error(self) -> None:
        result = {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "is_error": True,
            "cache_control": {"type": "ephemeral"},
        }
        result["content"] = [
            {"type": "text", "text": "a"},
            IMAGE,
            {"type": "text", "text": "b"},
            {"type": "tool_reference", "name": "x"},
        ]
        messages = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}]},
            {"role": "user", "content": [result, {"type": "text", "text": "and now?"}]},
        ]
        _, _, results, after = anthropic(messages=messages).request.messages
        assert isinstance(results, ToolMessage)
        (answer,) = results.results
        assert answer.call_id == "1" and answer.media == (Blob("image/png", b"\x89PNG"),)
        assert answer.response == {"error": 'a\nb\n{"type":"tool_reference","name":"x"}'}
        assert after == UserMessage((Text("and now?"),))

    def test_signatures_come_back_to_their_parts_and_foreign_thinking_goes(self) -> None:
        ours = Envelope("call", MODEL, "QUJD").seal()
        content = [
            {"type": "thinking", "thinking": "Claude thought this", "signature": "EqQBCgIYAhIM"},
            {"type": "text", "text": "I look."},
            {"type": "thinking", "thinking": "hm", "signature": ours},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
            {"type": "redacted_thinking", "data": "opaque"},
        ]
        messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": content}]
        model = anthropic(messages=messages).request.messages[1]
        assert model == ModelMessage((Text("I look."), ToolCall("1", "read", {"path": "a"}, "QUJD")))

    @pytest.mark.parametrize(
        ("extra", "level", "budget", "thoughts"),
        [
            ({}, None, None, False),
            ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, "high", None, True),
            ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "high", None, True),
            ({"thinking": {"type": "enabled", "budget_tokens": 31999}}, None, 31999, True),
            ({"thinking": {"type": "disabled"}}, None, None, False),
            ({"thinking": {"type": "adaptive", "display": "omitted"}}, None, None, False),
        ],
    )
    def test_thinking(self, extra: Any, level: str | None, budget: int | None, thoughts: bool) -> None:
        generation = anthropic(**extra).request.generation
        assert (generation.thinking_level, generation.thinking_budget, generation.include_thoughts) == (
            level,
            budget,
            thoughts,
        )

    def test_a_budget_is_bounded_for_models_that_take_one(self) -> None:
        thinking = {"type": "enabled", "budget_tokens": 31999}
        assert anthropic(model="gemini-2.5-flash", thinking=thinking).request.generation.thinking_budget == 24576

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ({"type": "auto"}, ToolChoice()),
            ({"type": "any"}, ToolChoice(ChoiceMode.REQUIRED)),
            ({"type": "none"}, ToolChoice(ChoiceMode.NONE)),
            ({"type": "tool", "name": "read"}, ToolChoice(ChoiceMode.REQUIRED, ("read",))),
        ],
    )
    def test_tool_choice(self, choice: Any, expected: ToolChoice) -> None:
        assert (
            anthropic(tools=[{"name": "read", "input_schema": SCHEMA}], tool_choice=choice).request.tool_choice
            == expected
        )

    def test_web_search_is_used_alone_and_left_out_beside_functions(self) -> None:
        search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
        assert encode(anthropic(tools=[search]), 0)["tools"] == [{"googleSearch": {}}]
        mixed = anthropic(
            tools=[search, {"name": "read", "input_schema": SCHEMA}, {"type": "bash_20250124", "name": "bash"}]
        )
        assert list(encode(mixed, 0)["tools"][0]) == ["functionDeclarations"] and not mixed.search

    def test_fields_of_betas_are_never_refused(self) -> None:
        anthropic(
            context_management={"edits": []}, metadata={"user_id": "{}"}, mcp_servers=[], container="x", betas=["y"]
        )

    def test_limits_are_clamped_and_knobs_passed_on(self) -> None:
        asked = anthropic(
            max_tokens=10**6, temperature=0.5, top_p=0.9, top_k=40, stop_sequences=["a", "b", "c", "d", "e", "f"]
        )
        config = encode(asked, 0)["generationConfig"]
        assert config["maxOutputTokens"] == 65536 and config["topK"] == 40 and len(config["stopSequences"]) == 5

    def test_documents_and_addresses(self) -> None:
        content = [
            {
                "type": "document",
                "title": "T",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
            },
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ]
        (message,) = anthropic(messages=[{"role": "user", "content": content}]).request.messages
        file = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}}
        assert message == UserMessage((Text("T"), Blob("application/pdf", b"\x89PNG"), Text("plain"), Opaque(file)))

    def test_search_results_are_told_with_their_sources(self) -> None:
        grounding = {"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "https://e.org", "title": "E"}}]}
        encoder = AnthropicDialect().encoder(anthropic())
        frames = b"".join(
            encoder.feed(event) for event in (Started(Usage()), Text("found"), Ended(STOP, Usage(), grounding))
        )
        kinds = [block["type"] for block in encoder.whole()["content"]]
        assert kinds == ["text", "server_tool_use", "web_search_tool_result"] and b"https://e.org" in frames


class TestResponses:
    def test_codex_puts_its_prompt_into_developer_messages(self) -> None:
        items = [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are Codex."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "env"}]},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "later"}]},
        ]
        request = responses(input=items, instructions="First.").request
        assert request.system == "First.\n\nYou are Codex."
        (message,) = request.messages
        assert isinstance(message, UserMessage) and "<system-reminder>\nlater" in message.text

    def test_namespaces_and_free_text_tools_there_and_back(self) -> None:
        grammar = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
        tools = [
            {"type": "function", "name": "exec_command", "parameters": SCHEMA, "strict": False},
            {"type": "namespace", "name": "multi", "tools": [{"type": "function", "name": "spawn", "parameters": {}}]},
            {"type": "custom", "name": "apply_patch", "description": "Patch.", "format": grammar},
            {"type": "web_search"},
            {"type": "tool_search", "execution": "client"},
        ]
        asked = responses(tools=tools)
        assert [tool.name for tool in asked.request.tools] == ["exec_command", "multi__spawn", "apply_patch"]
        assert "start: x" in asked.request.tools[2].description and not asked.search
        encoder = ResponsesDialect().encoder(asked)
        for event in (
            Started(Usage()),
            ToolCall("1", "multi__spawn", {"a": 1}),
            ToolCall("2", "apply_patch", {"input": "*** Begin"}),
        ):
            encoder.feed(event)
        encoder.feed(Ended(STOP, Usage()))
        spawn, patch = encoder.whole()["output"]
        assert (spawn["type"], spawn["name"], spawn["namespace"]) == ("function_call", "spawn", "multi")
        assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "apply_patch", "*** Begin")

    def test_calls_of_namespaces_and_free_text_in_the_history(self) -> None:
        items = [
            {"role": "user", "content": "go"},
            {"type": "function_call", "call_id": "call_1", "name": "spawn", "namespace": "multi", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done"},
            {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "ok"}]},
        ]
        _, model, results = responses(input=items).request.messages
        assert model == ModelMessage(
            (ToolCall("1", "multi__spawn", {}), ToolCall("2", "apply_patch", {"input": "*** Begin"}))
        )
        assert isinstance(results, ToolMessage) and [r.response["output"] for r in results.results] == ["ok", "Done"]

    def test_tools_in_an_input_item_are_declared(self) -> None:
        item = {
            "type": "additional_tools",
            "role": "developer",
            "tools": [{"type": "function", "name": "f", "parameters": {}}],
        }
        asked = responses(input=[item, {"role": "user", "content": "go"}])
        assert [tool.name for tool in asked.request.tools] == ["f"] and len(asked.request.messages) == 1

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ("auto", ToolChoice()),
            ("required", ToolChoice(ChoiceMode.REQUIRED)),
            ("none", ToolChoice(ChoiceMode.NONE)),
            ({"type": "function", "name": "f"}, ToolChoice(ChoiceMode.REQUIRED, ("f",))),
            ({"type": "function", "function": {"name": "f"}}, ToolChoice(ChoiceMode.REQUIRED, ("f",))),
            ({"type": "custom", "name": "c"}, ToolChoice(ChoiceMode.REQUIRED, ("c",))),
            ({"type": "function", "name": "m", "namespace": "n"}, ToolChoice(ChoiceMode.REQUIRED, ("n__m",))),
            (
                {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
                ToolChoice(ChoiceMode.REQUIRED, ("f",)),
            ),
            (
                {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
                ToolChoice(ChoiceMode.AUTO, ("f",)),
            ),
            ({"type": "web_search"}, ToolChoice()),
        ],
    )
    def test_tool_choice(self, choice: Any, expected: ToolChoice) -> None:
        member = {"type": "function", "name": "m", "parameters": {}}
        tools = [
            {"type": "function", "name": "f", "parameters": {}},
            {"type": "custom", "name": "c"},
            {"type": "namespace", "name": "n", "tools": [member]},
        ]
        assert responses(tools=tools, tool_choice=choice).request.tool_choice == expected

    def test_a_choice_of_an_unknown_tool_is_refused(self) -> None:
        with pytest.raises(Failure, match="no tool 'x'"):
            responses(tool_choice={"type": "function", "name": "x"})

    def test_reasoning_and_structured_answers(self) -> None:
        form = {"type": "json_schema", "name": "n", "strict": True, "schema": {**SCHEMA, "$schema": "x"}}
        config = encode(responses(reasoning={"effort": "low", "summary": "auto"}, text={"format": form}), 0)[
            "generationConfig"
        ]
        assert config["thinkingConfig"] == {"thinkingLevel": "low", "includeThoughts": True}
        assert config["responseMimeType"] == "application/json" and config["responseJsonSchema"] == SCHEMA

    def test_one_call_at_a_time_is_asked_for(self) -> None:
        assert responses(parallel_tool_calls=False).single_call and not responses().single_call


class TestChat:
    def test_roles_and_legacy_spellings(self) -> None:
        messages = [
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "system", "content": "Be short."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_9", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "call_9", "content": "ok"},
            {"role": "system", "content": "later"},
        ]
        request = chat(messages=messages, max_tokens=5, stop="x", seed=7, reasoning_effort="high").request
        assert request.system == "Be kind.\n\nBe short."
        user, model, results, after = request.messages
        assert user == UserMessage((Text("look"), Blob("image/png", b"\x89PNG")))
        assert model == ModelMessage((ToolCall("9", "f", {}),)) and isinstance(results, ToolMessage)
        assert isinstance(after, UserMessage) and "later" in after.text
        assert request.generation.max_output_tokens == 5 and request.generation.stop_sequences == ("x",)

    def test_structured_answers_in_both_forms(self) -> None:
        form = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
        assert chat(response_format=form).request.generation.response_schema == SCHEMA
        assert chat(response_format={"type": "json_object"}).request.generation.response_schema == {"type": "object"}
        assert chat(response_format={"type": "text"}).request.generation.response_schema is None

    def test_the_seed_and_several_choices(self) -> None:
        assert encode(chat(seed=7), 0)["generationConfig"] == {"seed": 7}
        with pytest.raises(Failure, match="only one choice"):
            chat(n=2)

    def test_a_seed_of_any_size_is_one_that_gemini_takes(self) -> None:
        assert chat(seed=-1).generation == {"seed": 2**31 - 1}
        assert chat(seed=2**40 + 5).generation == {"seed": 5}

    def test_the_newer_name_of_the_limit_counts(self) -> None:
        request = chat(max_tokens=5, max_completion_tokens=9).request
        assert request.generation.max_output_tokens == 9


class TestFiles:
    @pytest.mark.parametrize("data", [PNG, f"data:application/pdf;base64,{PNG}"], ids=["bare", "url"])
    def test_its_bytes_come_as_base_64_or_as_a_data_url(self, data: str) -> None:
        file = {"filename": "a.pdf", "file_data": data}
        expected = UserMessage((Blob("application/pdf", b"\x89PNG"),))
        assert responses(input=user([{"type": "input_file", **file}])).request.messages == (expected,)
        assert chat(messages=user([{"type": "file", "file": file}])).request.messages == (expected,)


class TestEmptyMessages:
    @pytest.mark.parametrize(
        "asked",
        [
            lambda: anthropic(messages=user("")),
            lambda: anthropic(messages=user([])),
            lambda: anthropic(messages=user(None)),
            lambda: responses(input=""),
            lambda: responses(input=[{"role": "developer", "content": "Be kind."}]),
            lambda: chat(messages=[{"role": "system", "content": "Be kind."}]),
            lambda: bedrock(messages=user([])),
        ],
    )
    def test_a_request_without_words_of_the_user_is_still_a_request(self, asked: Any) -> None:
        assert asked().request.messages == (UserMessage.of(" "),)


class TestStructuredAnswers:
    def test_every_dialect_has_its_own_place_for_the_schema(self) -> None:
        schema = {**SCHEMA, "$schema": "https://json-schema.org/draft/2020-12/schema"}
        form = {"type": "json_schema", "schema": schema}
        converse = {
            "type": "json_schema",
            "structure": {"jsonSchema": {"name": "n", "schema": json.dumps(schema)}},
        }
        for asked in (
            anthropic(output_format=form),
            anthropic(output_config={"format": form}),
            responses(text={"format": form}),
            chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}),
            bedrock(outputConfig={"textFormat": converse}),
        ):
            assert asked.request.generation.response_schema == SCHEMA


class TestBedrock:
    def test_blocks_that_hold_texts(self) -> None:
        document = {"document": {"format": "txt", "name": "D", "source": {"content": [{"text": "a"}, {"text": "b"}]}}}
        cited = {"citationsContent": {"content": [{"text": "It says so."}], "citations": []}}
        found = {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}], "citations": {}}}
        messages = [
            {"role": "user", "content": [document, found]},
            {"role": "assistant", "content": [cited]},
            {"role": "user", "content": [{"text": "and"}]},
        ]
        first, second, _ = bedrock(messages=messages).request.messages
        assert isinstance(first, UserMessage) and "".join(first.text).startswith('Dab{"source":"s"')
        assert second == ModelMessage((Text("It says so."),))

    def test_the_effort_becomes_a_level(self) -> None:
        assert bedrock(outputConfig={"effort": "low"}).request.generation.thinking_level == "low"

    def test_every_kind_of_block(self) -> None:
        content = [
            {"text": "look"},
            {"image": {"format": "jpg", "source": {"bytes": PNG}}},
            {"document": {"format": "pdf", "name": "D", "source": {"bytes": PNG}}},
            {"cachePoint": {"type": "default"}},
            {"guardContent": {"text": {"text": "guarded"}}},
        ]
        (message,) = bedrock(
            messages=[{"role": "user", "content": content}], system=[{"text": "S"}, {"cachePoint": {}}]
        ).request.messages
        kinds = ["look", Blob("image/jpeg", b"\x89PNG"), "D", Blob("application/pdf", b"\x89PNG"), "guarded"]
        assert isinstance(message, UserMessage)
        assert [part.text if isinstance(part, Text) else part for part in message.parts] == kinds

    def test_results_as_json_text_image_and_error(self) -> None:
        uses = [{"toolUse": {"toolUseId": f"tooluse_{n}", "name": "f", "input": {}}} for n in range(3)]
        results = [
            {"toolResult": {"toolUseId": "tooluse_0", "content": [{"json": {"a": [1]}}]}},
            {
                "toolResult": {
                    "toolUseId": "tooluse_1",
                    "content": [{"text": "bad"}, {"json": {"b": 2}}],
                    "status": "error",
                }
            },
            {
                "toolResult": {
                    "toolUseId": "tooluse_2",
                    "content": [{"image": {"format": "png", "source": {"bytes": PNG}}}, {"odd": 1}],
                }
            },
        ]
        messages = [
            {"role": "user", "content": [{"text": "go"}]},
            {"role": "assistant", "content": uses},
            {"role": "user", "content": results},
        ]
        _, _, answers = bedrock(messages=messages).request.messages
        assert isinstance(answers, ToolMessage)
        assert [answer.response for answer in answers.results] == [
            {"output": {"a": [1]}},
            {"error": 'bad\n{"b":2}'},
            {"output": '{"odd":1}'},
        ]
        assert answers.results[2].media == (Blob("image/png", b"\x89PNG"),)

    def test_reasoning_comes_back(self) -> None:
        sealed = Envelope("thought", MODEL, "QUJD").seal()
        block = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": sealed}}}
        messages = [
            {"role": "user", "content": [{"text": "go"}]},
            {"role": "assistant", "content": [block, {"text": "so"}]},
            {"role": "user", "content": [{"text": "and"}]},
        ]
        assert bedrock(messages=messages).request.messages[1] == ModelMessage((Thought("hm", "QUJD"), Text("so")))


def user(content: Any) -> list[Any]:
    return [{"role": "user", "content": content}]


NO_BASE64 = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%%%"}}
BROKEN: list[tuple[Any, dict[str, Any]]] = [
    *((decode, {"messages": wrong}) for decode in (anthropic, chat, bedrock) for wrong in (5, [5], [], None, user(7))),
    *((decode, {"messages": [{"role": "wizard", "content": []}]}) for decode in (anthropic, chat, bedrock)),
    *((decode, {"messages": user([{"type": "hologram"}])}) for decode in (anthropic, chat, bedrock)),
    *((decode, {"model": 7, "modelId": 7}) for decode in (anthropic, responses, chat, bedrock)),
    *((decode, {"temperature": "hot"}) for decode in (anthropic, responses, chat)),
    *((decode, {"tools": wrong}) for decode in (anthropic, responses, chat) for wrong in ("x", [5])),
    *((decode, {"tool_choice": 5}) for decode in (anthropic, responses, chat)),
    (anthropic, {"max_tokens": "many"}),
    (anthropic, {"tools": [{"name": 5, "input_schema": {}}]}),
    (anthropic, {"messages": user([NO_BASE64])}),
    (anthropic, {"messages": [{"role": "assistant", "content": [{"type": "hologram"}]}]}),
    (
        anthropic,
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": 5}]}]},
    ),
    (anthropic, {"messages": user([{"type": "tool_result"}])}),
    (anthropic, {"messages": user([{"type": "tool_result", "tool_use_id": "1", "content": 5}])}),
    (anthropic, {"output_format": {"type": "json_schema", "schema": 5}}),
    (anthropic, {"system": 5}),
    (anthropic, {"tool_choice": {"type": "tool", "name": "unknown"}}),
    (bedrock, {"toolConfig": {"toolChoice": {"tool": {"name": "unknown"}}}}),
    *(
        (responses, {"input": wrong})
        for wrong in (5, [5], [], [{"type": "hologram"}], [{"type": "function_call"}], user(7))
    ),
    (responses, {"input": [{"role": "wizard", "content": "x"}]}),
    (responses, {"input": user([{"type": "input_image", "image_url": "data:image/png,plain"}])}),
    (responses, {"instructions": 5}),
    (responses, {"input": user([{"type": "input_image", "image_url": "no url"}])}),
    (responses, {"max_output_tokens": "many"}),
    (responses, {"text": {"format": {"type": "json_schema", "schema": 5}}}),
    (responses, {"tools": [{"type": "namespace", "name": "n", "tools": 5}]}),
    (chat, {"messages": [{"role": "assistant", "tool_calls": [5]}]}),
    (chat, {"messages": [{"role": "tool", "content": "x"}]}),
    (chat, {"max_completion_tokens": 0, "max_tokens": 5}),
    (chat, {"functions": [{"name": "f"}]}),
    (bedrock, {"outputConfig": {"textFormat": {"structure": {"jsonSchema": {"schema": "{"}}}}}),
    (bedrock, {"inferenceConfig": {"maxTokens": "many"}}),
    (bedrock, {"toolConfig": {"tools": [{"toolSpec": {"name": 5}}]}}),
    (bedrock, {"toolConfig": "x"}),
    (bedrock, {"messages": [{"role": "assistant", "content": [{"hologram": 1}]}]}),
    (bedrock, {"messages": user([{"image": {"format": "png", "source": {}}}])}),
]


@pytest.mark.parametrize(("decode", "broken"), BROKEN)
def test_wrong_types_are_a_failure_that_says_what_is_wrong(decode: Any, broken: dict[str, Any]) -> None:
    with pytest.raises(Failure) as refused:
        decode(**broken)
    assert refused.value.kind.value == "invalid" and refused.value.message
