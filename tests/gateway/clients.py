"""The same question in every dialect, over raw HTTP: what is sent, and what the whole answer says."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.gateway import grammars
from tests.gateway.grammars import Told
from tests.gateway.support import MODEL, TOKEN

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@dataclass(frozen=True, slots=True)
class Plain:
    """One dialect as a client without an SDK."""

    name: str
    path: Callable[[bool], str]
    body: Callable[[str, bool], dict[str, Any]]
    read_stream: Callable[[bytes], Told]
    read_whole: Callable[[dict[str, Any]], Told]
    read_error: Callable[[httpx2.Response], tuple[str, str]]  # its own kind of error, and the message
    stops: dict[str, str]  # our word → the dialect's

    def ask(self, url: str, prompt: str, *, stream: bool) -> tuple[httpx2.Response, Told | None]:
        headers = {"x-api-key": TOKEN}
        body = self.body(prompt, stream)
        response = httpx2.post(url + self.path(stream), headers=headers, json=body, timeout=60)
        if response.status_code != 200:
            return response, None
        return response, self.read_stream(response.content) if stream else self.read_whole(response.json())


def _anthropic_body(prompt: str, stream: bool) -> dict[str, Any]:
    return {
        "model": MODEL,
        "max_tokens": 1000,
        "stream": stream,
        "thinking": {"type": "adaptive"},
        "messages": [{"role": "user", "content": prompt}],
        "tools": [{"name": "read", "description": "reads", "input_schema": SCHEMA}],
    }


def _anthropic_whole(body: dict[str, Any]) -> Told:
    assert body["type"] == "message" and body["role"] == "assistant"
    told = Told(stop=body["stop_reason"])
    for block in body["content"]:
        match block["type"]:
            case "text":
                told.text += block["text"]
            case "thinking":
                told.thoughts += block["thinking"]
                assert block["signature"].startswith("gc1.")
            case "tool_use":
                told.calls.append((block["name"], block["input"]))
    return told


def _responses_body(prompt: str, stream: bool) -> dict[str, Any]:
    tool = {"type": "function", "name": "read", "description": "reads", "parameters": SCHEMA}
    body = {"model": MODEL, "input": prompt, "stream": stream, "store": False, "reasoning": {"summary": "auto"}}
    return {**body, "tools": [tool]}


def _responses_whole(body: dict[str, Any]) -> Told:
    assert body["object"] == "response"
    details = body["incomplete_details"]
    told = Told(stop=details["reason"] if details else body["status"])
    for item in body["output"]:
        match item["type"]:
            case "message":
                told.text += item["content"][0]["text"]
            case "reasoning":
                told.thoughts += "".join(part["text"] for part in item["summary"])
            case "function_call":
                told.calls.append((item["name"], json.loads(item["arguments"])))
    return told


def _chat_body(prompt: str, stream: bool) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "read", "description": "reads", "parameters": SCHEMA}}
    body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "tools": [tool], "stream": stream}
    return {**body, "stream_options": {"include_usage": True}} if stream else body


def _chat_whole(body: dict[str, Any]) -> Told:
    assert body["object"] == "chat.completion"
    choice = body["choices"][0]
    calls = choice["message"].get("tool_calls", ())
    listed = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
    return Told(text=choice["message"]["content"] or "", calls=listed, stop=choice["finish_reason"])


def _bedrock_body(prompt: str, _stream: bool) -> dict[str, Any]:
    spec = {"name": "read", "description": "reads", "inputSchema": {"json": SCHEMA}}
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    message = {"role": "user", "content": [{"text": prompt}]}
    return {
        "messages": [message],
        "toolConfig": {"tools": [{"toolSpec": spec}]},
        "additionalModelRequestFields": thinking,
    }


def _bedrock_whole(body: dict[str, Any]) -> Told:
    told = Told(stop=body["stopReason"])
    for block in body["output"]["message"]["content"]:
        told.text += block.get("text", "")
        told.thoughts += block.get("reasoningContent", {}).get("reasoningText", {}).get("text", "")
        if "toolUse" in block:
            told.calls.append((block["toolUse"]["name"], block["toolUse"]["input"]))
    return told


def _openai_error(response: httpx2.Response) -> tuple[str, str]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error["code"] or error["type"], error["message"]


def _anthropic_error(response: httpx2.Response) -> tuple[str, str]:
    body = response.json()
    assert body["type"] == "error" and body["request_id"].startswith("req_")
    return body["error"]["type"], body["error"]["message"]


def _bedrock_error(response: httpx2.Response) -> tuple[str, str]:
    return response.headers["x-amzn-errortype"], response.json()["message"]


ANTHROPIC = Plain(
    "anthropic",
    lambda stream: "/v1/messages?beta=true",
    _anthropic_body,
    grammars.anthropic,
    _anthropic_whole,
    _anthropic_error,
    {"end": "end_turn", "calls": "tool_use", "cut": "max_tokens", "blocked": "refusal"},
)
RESPONSES = Plain(
    "responses",
    lambda stream: "/v1/responses",
    _responses_body,
    grammars.responses,
    _responses_whole,
    _openai_error,
    {"end": "completed", "calls": "completed", "cut": "max_output_tokens", "blocked": "content_filter"},
)
CHAT = Plain(
    "chat",
    lambda stream: "/v1/chat/completions",
    _chat_body,
    grammars.chat,
    _chat_whole,
    _openai_error,
    {"end": "stop", "calls": "tool_calls", "cut": "length", "blocked": "content_filter"},
)
BEDROCK = Plain(
    "bedrock",
    lambda stream: f"/model/{MODEL}/" + ("converse-stream" if stream else "converse"),
    _bedrock_body,
    grammars.bedrock,
    _bedrock_whole,
    _bedrock_error,
    {"end": "end_turn", "calls": "tool_use", "cut": "max_tokens", "blocked": "content_filtered"},
)
ALL = (ANTHROPIC, RESPONSES, CHAT, BEDROCK)
