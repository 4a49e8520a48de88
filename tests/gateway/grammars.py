"""A state machine per dialect: reads the raw bytes of a stream and fails on any event that is out of order."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.eventstream import EventStreamBuffer


@dataclass(slots=True)
class Told:
    """What a client got to know: `stop` is the dialect's own word, `failed` a stream that says so itself."""

    text: str = ""
    thoughts: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    stop: str = ""
    failed: bool = False
    message: str = ""


def events(data: bytes) -> Iterator[tuple[str, Any]]:
    """Name and data of each server-sent event; comments are skipped."""
    assert data.endswith(b"\n\n"), "the last event is not complete"
    for block in data.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        name = "".join(line.removeprefix("event: ") for line in lines if line.startswith("event: "))
        text = "".join(line.removeprefix("data: ") for line in lines if line.startswith("data: "))
        assert len(lines) == (2 if name else 1), block
        yield name, text if text == "[DONE]" else json.loads(text)


def anthropic(data: bytes) -> Told:
    told = Told()
    state, block, index, arguments = "start", "", -1, ""
    for name, event in events(data):
        assert name == event["type"]
        assert state not in ("stopped", "failed"), f"{name} after the end"
        match name:
            case "message_start":
                assert state == "start" and event["message"]["content"] == []
                assert event["message"]["usage"]["input_tokens"] >= 0
                state = "between"
            case "content_block_start":
                assert state == "between" and event["index"] == index + 1
                index, block, state, arguments = event["index"], event["content_block"]["type"], "block", ""
                if block == "tool_use":
                    assert event["content_block"]["input"] == {}
                    told.calls.append((event["content_block"]["name"], {}))
            case "content_block_delta":
                assert state == "block" and event["index"] == index
                kind = event["delta"]["type"]
                expected = {"text": {"text_delta"}, "thinking": {"thinking_delta", "signature_delta"}}
                assert kind in expected.get(block, {"input_json_delta"}), f"{kind} in {block}"
                told.text += event["delta"].get("text", "")
                told.thoughts += event["delta"].get("thinking", "")
                arguments += event["delta"].get("partial_json", "")
                if kind == "signature_delta":
                    state = "sealed"
            case "content_block_stop":
                assert state in ("block", "sealed") and event["index"] == index
                assert (block == "thinking") == (state == "sealed"), "a thinking block ends with its signature"
                if block == "tool_use":
                    told.calls[-1] = (told.calls[-1][0], json.loads(arguments))
                state = "between"
            case "message_delta":
                assert state == "between" and event["usage"]["output_tokens"] >= 0
                told.stop, state = event["delta"]["stop_reason"], "ending"
            case "message_stop":
                assert state == "ending"
                state = "stopped"
            case "error":
                told.failed, told.message, state = True, event["error"]["message"], "failed"
            case "ping":
                pass
            case _:
                raise AssertionError(f"unknown event {name}")
    assert state in ("stopped", "failed"), f"the stream ended in state {state}"
    return told


def responses(data: bytes) -> Told:
    told = Told()
    state, item, index, opened = "start", {}, -1, ""
    terminal = {"response.completed", "response.incomplete", "response.failed"}
    for sequence, (name, event) in enumerate(events(data)):
        assert name == event["type"] and event["sequence_number"] == sequence
        assert state != "stopped", f"{name} after the end"
        if name in terminal:
            assert state in ("between", "item"), state
            assert name == "response.failed" or state == "between"
            told.stop, state = name.removeprefix("response."), "stopped"
            if name == "response.failed":
                told.failed, told.message = True, event["response"]["error"]["message"]
            else:
                details = event["response"]["incomplete_details"]
                told.stop = details["reason"] if details else told.stop
                assert event["response"]["usage"]["total_tokens"] > 0
        elif name in ("response.created", "response.in_progress"):
            assert (name, state) in (("response.created", "start"), ("response.in_progress", "created"))
            state = "created" if state == "start" else "between"
        elif name == "response.output_item.added":
            assert state == "between" and event["output_index"] == index + 1
            item, index, state, opened = event["item"], event["output_index"], "item", ""
        elif name == "response.output_item.done":
            assert state == "item" and event["item"]["id"] == item["id"] and opened == "", opened
            state = "between"
            if event["item"]["type"] == "function_call":
                told.calls.append((event["item"]["name"], json.loads(event["item"]["arguments"])))
        else:
            assert state == "item" and event["item_id"] == item["id"] and event["output_index"] == index
            opened = _responses_part(name, event, item["type"], opened, told)
    assert state == "stopped", f"the stream ended in state {state}"
    return told


def _responses_part(name: str, event: Any, kind: str, opened: str, told: Told) -> str:
    match name.removeprefix("response."):
        case "content_part.added":
            assert kind == "message" and opened == ""
            return "part"
        case "output_text.delta":
            assert opened == "part"
            told.text += event["delta"]
            return "part"
        case "output_text.done":
            assert opened == "part" and told.text.endswith(event["text"])
            return "done"
        case "content_part.done":
            assert opened == "done"
            return ""
        case "reasoning_summary_part.added":
            assert kind == "reasoning" and opened == ""
            return "summary"
        case "reasoning_summary_text.delta":
            assert opened == "summary"
            told.thoughts += event["delta"]
            return "summary"
        case "reasoning_summary_text.done":
            assert opened == "summary"
            return "summary done"
        case "reasoning_summary_part.done":
            assert opened == "summary done"
            return ""
        case "function_call_arguments.delta" | "custom_tool_call_input.delta":
            assert kind in ("function_call", "custom_tool_call")
            return "arguments"
        case "function_call_arguments.done" | "custom_tool_call_input.done":
            assert opened == "arguments"
            return ""
    raise AssertionError(f"unknown event {name}")


def chat(data: bytes) -> Told:
    told = Told()
    state, arguments = "start", []
    for _, event in events(data):
        assert state != "done", "an event after [DONE]"
        if event == "[DONE]":
            assert state in ("finished", "failed"), state
            state = "done"
        elif "error" in event:
            told.failed, told.message, state = True, event["error"]["message"], "failed"
        elif not event["choices"]:
            assert state == "finished" and event["usage"]["total_tokens"] > 0
        else:
            delta, finish = event["choices"][0]["delta"], event["choices"][0]["finish_reason"]
            assert ("role" in delta) == (state == "start")
            told.text += delta.get("content") or ""
            told.thoughts += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", ()):
                if call["index"] == len(arguments):
                    assert call["id"] and call["type"] == "function"
                    arguments.append([call["function"]["name"], ""])
                arguments[call["index"]][1] += call["function"]["arguments"]
            state = "finished" if finish else "open"
            told.stop = finish or told.stop
    assert state == "done", f"the stream ended in state {state}"
    told.calls = [(name, json.loads(text)) for name, text in arguments] if not told.failed else []
    return told


def bedrock(data: bytes) -> Told:
    told = Told()
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    state, index, kind, arguments = "start", -1, "", ""
    for frame in buffer:
        headers, payload = frame.headers, json.loads(frame.payload)
        assert state not in ("stopped", "failed"), "a frame after the end"
        if headers[":message-type"] == "exception":
            told.failed, told.message, state = True, payload["message"], "failed"
            continue
        match headers[":event-type"]:
            case "messageStart":
                assert state == "start"
                state = "between"
            case "contentBlockStart":
                assert state == "between" and payload["contentBlockIndex"] == index + 1
                index, kind, state, arguments = index + 1, "toolUse", "block", ""
                told.calls.append((payload["start"]["toolUse"]["name"], {}))
            case "contentBlockDelta":
                (found,) = payload["delta"]
                if state == "between":
                    assert found != "toolUse", "a tool use without its start"
                    index, kind, state = index + 1, found, "block"
                assert state == "block" and payload["contentBlockIndex"] == index and found == kind
                told.text += payload["delta"].get("text", "")
                told.thoughts += payload["delta"].get("reasoningContent", {}).get("text", "")
                arguments += payload["delta"].get("toolUse", {}).get("input", "")
            case "contentBlockStop":
                assert state == "block" and payload["contentBlockIndex"] == index
                if kind == "toolUse":
                    told.calls[-1] = (told.calls[-1][0], json.loads(arguments))
                state = "between"
            case "messageStop":
                assert state == "between"
                told.stop, state = payload["stopReason"], "ending"
            case "metadata":
                assert state == "ending" and "totalTokens" in payload["usage"]
                state = "stopped"
            case other:
                raise AssertionError(f"unknown event {other}")
    assert state in ("stopped", "failed"), f"the stream ended in state {state}"
    return told
