import asyncio
import json
import stat
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from gemcode.agent.errors import ModelError, UsageError
from gemcode.agent.messages import ModelRequest, ToolDeclaration, ToolMessage, ToolResult, UserMessage
from gemcode.agent.model import ModelReplied
from gemcode.gemini.client import GeminiModel
from gemcode.gemini.settings import GeminiSettings
from gemcode.recording import Recorder
from gemcode.simulator.scenario import load_scenario
from gemcode.simulator.server import running_simulator

KEY = "AIzaSyA-recording-0123456789-not-a-key-00"
OTHER = "AIzaSyB" + "x" * 32
TOKEN = "ghp_" + "a" * 36
PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"
READ = ToolDeclaration("read_file", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
FILE = 'DB_PASSWORD=swordfish\n{"client_secret": "GOCSPX"}\npostgres://ada:s3same@db/shop\ntoken = next(tokens)\n'
SECRETS = ("swordfish", "GOCSPX", "s3same")
REPLIES: list[dict[str, Any]] = [
    {"text": ["I ", "look at /home/ada/x."], "calls": [{"name": "read_file", "args": {"path": "a.py"}}]},
    {"text": f"It holds {TOKEN} and {KEY}. Also {FILE}"},
    {"http_error": {"name": "quota_per_minute", "retry_after": 0.5}},
    {"http_error": {"status": 502, "body": "<html>Bad Gateway</html>", "headers": {"Retry-After": "1"}}},
    {"text": ["half ", "an ", "answer"], "fault": {"kind": "cut", "after": 2}},
    {"text": ["x", "y"], "fault": {"kind": "error_event", "after": 1}},
]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is reached directly, whatever proxy the machine has."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


async def conversation(url: str, observe: Any = None) -> list[Any]:
    """The same six requests each time; what came of each."""
    model = GeminiModel(GeminiSettings(KEY, url, observe=observe))
    history: list[Any] = [UserMessage.of(f"read a.py, my key is {KEY}, and {PRIVATE} in /home/ada/work")]
    outcomes: list[Any] = []
    for number in range(len(REPLIES)):
        request = ModelRequest("gemini-3.8-flash", tuple(history), "You help.", (READ,))
        try:
            async with aclosing(model.stream(request)) as events:
                reply = [event async for event in events][-1]
        except ModelError as error:
            outcomes.append((error.message, error.delay, error.exit_code))
            continue
        assert isinstance(reply, ModelReplied)
        outcomes.append((reply.message.text, [(call.name, call.args) for call in reply.message.calls], reply.finish))
        history.append(reply.message)
        if reply.message.calls:
            output = {"content": FILE + OTHER, "password": "opensesame", "lines": 4}
            results = [ToolResult(call.id, call.name, {"output": output}) for call in reply.message.calls]
            history.append(ToolMessage(tuple(results)))
        else:
            history.append(UserMessage.of(f"go on {number}"))
    await model.aclose()
    return outcomes


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, list[Any]]:
    settings = GeminiSettings(KEY)
    path = tmp_path / "report.json"
    recorder = Recorder(path, settings.redact, "/home/ada")
    with running_simulator({"schema": 1, "replies": REPLIES}) as simulator:
        outcomes = asyncio.run(conversation(simulator.url, recorder))
    recorder.save()
    return path, outcomes


def test_what_was_recorded_plays_back_the_same(recorded: tuple[Path, list[Any]]) -> None:
    path, outcomes = recorded
    with running_simulator(load_scenario(path)) as simulator:
        again = asyncio.run(conversation(simulator.url))
    expected = [tuple(map(without_secrets, outcome)) for outcome in outcomes]
    assert [tuple(outcome) for outcome in again] == expected
    assert simulator.violations == []


def without_secrets(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    for secret in (TOKEN, *SECRETS):
        value = value.replace(secret, "[removed]")
    return value.replace(KEY, "[key]").replace("/home/ada", "~")


def test_no_secret_is_in_the_file_and_nobody_else_can_read_it(recorded: tuple[Path, list[Any]]) -> None:
    path, _ = recorded
    text = path.read_text()
    for secret in (KEY, OTHER, TOKEN, "MIIE", "/home/ada", "opensesame", *SECRETS):
        assert secret not in text
    assert "token = next(tokens)" in text and '"lines": 4' in text
    assert "[removed]" in text and "[key]" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_request_is_noted_with_what_it_adds(recorded: tuple[Path, list[Any]]) -> None:
    replies = json.loads(recorded[0].read_text())["replies"]
    assert replies[0]["request"]["systemInstruction"]["parts"] == [{"text": "You help."}]
    assert set(replies[1]["request"]) == {"contents_as_before", "contents"}
    assert replies[1]["request"]["contents_as_before"] == 1
    assert [content["role"] for content in replies[1]["request"]["contents"]] == ["model", "user"]
    assert replies[3]["request"] == {"contents_as_before": 5, "contents": []}


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        Recorder(tmp_path / "mine", str)
    with pytest.raises(UsageError, match="can't be written"):
        Recorder(tmp_path / "missing" / "x", str)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_run_without_any_request_is_an_empty_scenario(tmp_path: Path) -> None:
    Recorder(tmp_path / "empty", str).save()
    assert load_scenario(tmp_path / "empty").replies == []


def test_leaving_in_mid_stream_is_recorded_as_far_as_it_came(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "left", str)

    async def leave(url: str) -> None:
        model = GeminiModel(GeminiSettings(KEY, url, observe=recorder))
        request = ModelRequest("gemini-3.8-flash", (UserMessage.of("hi"),))
        async with aclosing(model.stream(request)) as events:
            async for _ in events:
                break
        await model.aclose()

    reply = {"text": ["one", "two"], "fault": {"kind": "silence", "after": 1}}
    with running_simulator({"schema": 1, "replies": [reply]}) as simulator:
        asyncio.run(leave(simulator.url))
    (kept,) = recorder.scenario()["replies"]
    assert len(kept["raw_events"]) == 1
    assert kept["fault"] == {"kind": "cut", "after": 1}
