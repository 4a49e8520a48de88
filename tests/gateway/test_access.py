"""Who is let in: tokens in every client's header, Host names, the token file, the map of models."""

import os
from pathlib import Path

import pytest

from gemcode.agent.errors import UsageError
from gemcode.gateway.access import check_host, check_token, is_loopback
from gemcode.gateway.config import GatewayConfig, load_token, parse_model_map
from gemcode.gateway.dialect import Failure, FailureKind
from gemcode.gateway.welcome import welcome
from gemcode.gemini.settings import GeminiSettings

TOKEN = "gc_0123456789abcdef0123456789abcdef"
AWS = "AWS4-HMAC-SHA256 Credential={}/20261118/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=0"


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, ""),
        ({"authorization": f"bearer   {TOKEN}"}, ""),
        ({"x-api-key": TOKEN}, ""),
        ({"x-goog-api-key": TOKEN}, ""),
        ({"authorization": AWS.format(TOKEN)}, ""),
        ({}, f"alt=sse&key={TOKEN}"),
        ({"authorization": "Bearer other", "x-api-key": TOKEN}, ""),
    ],
)
def test_the_token_is_found_wherever_a_client_puts_it(headers: dict[str, str], query: str) -> None:
    check_token(headers, query, TOKEN)


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({"authorization": f"Basic {TOKEN}"}, ""),
        ({"authorization": TOKEN}, ""),
        ({"x-api-key": TOKEN[:-1]}, ""),
        ({"x-api-key": TOKEN + " "}, ""),
        ({"x-api-key": "ünïcode"}, ""),
        ({"cookie": TOKEN}, f"token={TOKEN}"),
    ],
)
def test_anything_else_is_refused(headers: dict[str, str], query: str) -> None:
    with pytest.raises(Failure) as refused:
        check_token(headers, query, TOKEN)
    assert refused.value.kind is FailureKind.UNAUTHENTICATED and TOKEN not in refused.value.message


@pytest.mark.parametrize("host", ["127.0.0.1:8787", "localhost", "LocalHost:1", "[::1]:8787", "127.0.0.1:"])
def test_loopback_names_are_served(host: str) -> None:
    check_host(host, "127.0.0.1")


@pytest.mark.parametrize(
    "host",
    [
        *("", "evil.example", "evil.example:8787", "192.168.1.2:8787", "127.0.0.1.evil.example", "[::1].evil.example"),
        *("127.0.0.1@evil.example", "evil.example:127.0.0.1", "127.0.0.1:1:2", "127.0.0.1,evil.example", "[localhost]"),
    ],
)
def test_other_names_are_not_served_on_loopback(host: str) -> None:
    with pytest.raises(Failure):
        check_host(host, "127.0.0.1")


def test_beyond_loopback_addresses_and_the_given_name_are_served_but_no_other_name() -> None:
    for host in ("192.168.1.2:8787", "[fe80::1]:8787", "box.lan:8787", "BOX.lan"):
        check_host(host, "Box.lan")
    with pytest.raises(Failure):
        check_host("evil.example", "0.0.0.0")


def test_loopback_is_known() -> None:
    assert is_loopback("127.0.0.1") and is_loopback("::1") and is_loopback("localhost") and is_loopback("127.9.9.9")
    assert not is_loopback("0.0.0.0") and not is_loopback("example.org")


def test_a_token_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    first = load_token(path)
    assert load_token(path) == first and len(first) > 40
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_token_file_that_others_can_read_or_that_holds_no_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    load_token(path)
    os.chmod(path, 0o644)
    with pytest.raises(UsageError, match="read by others"):
        load_token(path)
    os.chmod(path, 0o600)
    for text in ("short", "has a space in the middle", "has/a/slash/in/the/middle"):
        path.write_text(text)
        with pytest.raises(UsageError, match="no usable token"):
            load_token(path)
    with pytest.raises(UsageError, match="can't be written"):
        load_token(tmp_path / "missing" / "token")


def config(**changes: object) -> GatewayConfig:
    return GatewayConfig(GeminiSettings("key"), TOKEN, **changes)  # type: ignore[arg-type]


def test_models_are_mapped_passed_or_replaced_by_the_default() -> None:
    mapped = config(model_map=parse_model_map("claude-opus*=gemini-3.1-pro-preview, *haiku*=gemini-3.5-flash-lite"))
    assert mapped.resolve_model("claude-opus-5") == "gemini-3.1-pro-preview"
    assert mapped.resolve_model("anthropic.claude-haiku-4") == "gemini-3.5-flash-lite"
    assert mapped.resolve_model("claude-sonnet") == "gemini-3.8-flash"
    assert mapped.resolve_model("models/gemini-2.5-pro") == "gemini-2.5-pro"
    assert mapped.resolve_model("google/gemini-4-argon") == "gemini-4-argon"
    assert mapped.resolve_model("gpt-5.5") == "gemini-3.8-flash"


@pytest.mark.parametrize("text", ["claude", "=x", "a=", "a=b,c"])
def test_a_broken_map_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="no mapping"):
        parse_model_map(text)


def test_the_welcome_names_every_client_and_the_token_stays_out_of_reprs() -> None:
    made = config(host="0.0.0.0")
    text = "\n".join(welcome(made, 4242))
    for word in (
        "Claude Code",
        "Codex",
        "opencode",
        "Anthropic(",
        "OpenAI(",
        "boto3",
        "genai",
        TOKEN,
        "127.0.0.1:4242",
    ):
        assert word in text
    assert TOKEN not in repr(made)
