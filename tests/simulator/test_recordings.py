"""Recorded traffic judges the rules: what the real service accepted must pass, what it refused must be refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gemcode.simulator.caches import Caches
from gemcode.simulator.errors import Rejected
from gemcode.simulator.reply import RecordedRequest, Reply
from gemcode.simulator.rules import check_request
from gemcode.simulator.service import Service, Settings

PROJECT = Path(__file__).parents[2]
RECORDINGS = Path(os.environ.get("GEMCODE_RECORDINGS", PROJECT / "../shared/recordings"))
FILES = sorted(RECORDINGS.glob("*/*.json"))
GENERATE = ("generateContent", "streamGenerateContent")

# Recordings whose status does not follow from the request, by file name.
EXCEPTIONS = {
    "chat-real-error-scenarios-gemini-gemini-2-5-flash-handles-context-length-exceeded-errors.json": "a spent quota",
}
# Conversations whose history holds signatures that this conversation's replies did not hand out.
FOREIGN_SIGNATURES: dict[str, str] = {}

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {RECORDINGS}")


def load(path: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(path.read_text())
    return recording


def is_key_error(recording: dict[str, Any]) -> bool:
    return "API key not valid" in json.dumps(recording.get("response"))


def judge(recording: dict[str, Any]) -> int:
    """The status that the simulator gives to a recorded request."""
    version, endpoint = recording["api_version"] or "v1beta", recording["endpoint"]
    try:
        Service(Silent(), Settings()).check_key("invalid" if is_key_error(recording) else "good", None)
        if endpoint.startswith("cachedContents"):
            name = endpoint.partition("/")[2] or None
            Caches().handle(recording["method"], version, name, recording["request"])
        elif recording["request"] is not None:
            check_request(version, recording["model"], endpoint, recording["request"])
    except Rejected as rejected:
        return rejected.http_code
    return 200


class Silent:
    """A brain that is never asked."""

    def answer(self, request: RecordedRequest) -> Reply:
        raise AssertionError("the request should not have come this far")


def has_a_verdict(path: Path) -> bool:
    recording = load(path)
    deleted = recording["method"] == "DELETE" and recording["status"] == 200  # needs the cache that was deleted
    return not deleted and (recording["request"] is not None or recording["endpoint"].startswith(("cached", "models")))


@pytest.mark.parametrize("path", [path for path in FILES if has_a_verdict(path)], ids=lambda path: path.stem)
def test_a_recorded_request_gets_its_recorded_status(path: Path) -> None:
    if path.name in EXCEPTIONS:
        pytest.skip(EXCEPTIONS[path.name])
    recording = load(path)
    assert judge(recording) == recording["status"]


def test_a_refusal_carries_the_recorded_words() -> None:
    """Of the refusals that have one wording today; `Call ListModels` was the wording before mid-2026."""
    compared = 0
    for path in FILES:
        recording = load(path)
        if recording["status"] != 404 or recording["request"] is None:
            continue
        with pytest.raises(Rejected) as caught:
            check_request(recording["api_version"], recording["model"], recording["endpoint"], recording["request"])
        recorded = recording["response"]["error"]["message"].replace("Call ListModels", "Call ModelService.ListModels")
        assert caught.value.message == recorded
        compared += 1
    assert compared >= 1


def conversations() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in FILES:
        recording = load(path)
        if recording["request"] and recording["endpoint"] in GENERATE and recording["status"] == 200:
            found.setdefault(f"{path.parent.name}/{recording['conversation']}", []).append(path)
    return {name: steps for name, steps in found.items() if len(steps) > 1}


class Recorded:
    """Answers with the recorded events, unchanged."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def answer(self, request: RecordedRequest) -> Reply:
        return Reply(raw_events=self.events)


@pytest.mark.parametrize("name", sorted(conversations()))
def test_a_recorded_conversation_passes_with_only_its_own_signatures(name: str) -> None:
    if name in FOREIGN_SIGNATURES:
        pytest.skip(FOREIGN_SIGNATURES[name])
    brain = Recorded()
    service = Service(brain, Settings())
    for number, path in enumerate(conversations()[name], 1):
        recording = load(path)
        brain.events = recording.get("chunks") or [recording["response"]]
        service.handle(recorded_request(recording, number))


def recorded_request(recording: dict[str, Any], number: int) -> RecordedRequest:
    version = recording["api_version"]
    return RecordedRequest(
        number=number,
        method=recording["method"],
        path=f"/{version}/models/{recording['model']}:{recording['endpoint']}",
        query={},
        headers={},
        body=recording["request"],
        size=0,
        time=0.0,
        version=version,
        model=recording["model"],
        action=recording["endpoint"],
    )
