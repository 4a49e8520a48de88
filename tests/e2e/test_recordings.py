"""Recorded answers of the real service, played to the program: no traceback, and always a documented exit code."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gemcode.simulator.reply import HttpError, RecordedRequest, Reply
from gemcode.simulator.service import Settings
from tests.e2e.program import KEY, Place

PROJECT = Path(__file__).parents[2]
RECORDINGS = Path(os.environ.get("GEMCODE_RECORDINGS", PROJECT / "../shared/recordings"))
GENERATE = ("generateContent", "streamGenerateContent")
BLOCKED = {"SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE"}
DOCUMENTED = {0, 1, 2, 3, 4, 5, 6}


def load(path: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return recording


FILES = [path for path in sorted(RECORDINGS.glob("*/*.json")) if load(path)["endpoint"] in GENERATE]
pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {RECORDINGS}")


class Playing:
    """Answers every request that is no continuation of calls with the recording, and calls with a last word."""

    def __init__(self, recording: dict[str, Any]) -> None:
        chunks = recording.get("chunks")
        self.events: list[Any] = [recording["response"]] if chunks is None else chunks
        self.status = int(recording["status"])

    def answer(self, request: RecordedRequest) -> Reply:
        if request.results:
            return Reply.says("The calls are answered.")
        if self.status != 200:
            return Reply(error=HttpError(self.status, self.events[0]))
        return Reply(raw_events=self.events)

    @property
    def parts(self) -> list[dict[str, Any]]:
        return [part for each in self._candidates() for part in (each.get("content") or {}).get("parts") or []]

    @property
    def reasons(self) -> set[str]:
        return {str(each["finishReason"]) for each in self._candidates() if each.get("finishReason")}

    def _candidates(self) -> list[dict[str, Any]]:
        return [(event.get("candidates") or [{}])[0] for event in self.events if isinstance(event, dict)]


def expected(brain: Playing) -> set[int]:
    """What the exit code may be, from the recording alone."""
    if brain.status == 429:
        return {4, 6}  # 4: the time limit of the test came before the end of the wait
    if brain.status != 200:
        return {1, 2}
    if brain.reasons & BLOCKED or any("promptFeedback" in event for event in brain.events if not brain.parts):
        return {3}
    if brain.reasons == {"STOP"} and any(part.get("text") and not part.get("thought") for part in brain.parts):
        return {0}
    return {0, 4} if brain.reasons == {"STOP"} else DOCUMENTED - {2, 5, 6}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}"[:120])
def test_a_recorded_answer_ends_as_documented(place: Place, path: Path) -> None:
    recording = load(path)
    brain = Playing(recording)
    model = recording["model"] or "gemini-2.5-flash"  # the old ones name none, and sign nothing
    settings = Settings(valid_keys=frozenset({KEY}), accept_unknown_signatures=True, extra_models=frozenset({model}))
    flags = ("-o", "json", "-m", model, "--max-steps", "3", *(("--timeout", "2") if brain.status == 429 else ()))
    result = place.ask("go", *flags, replies=brain, settings=settings)
    assert result.code in expected(brain)
    if result.code == 0 and not any("functionCall" in part for part in brain.parts):
        text = "".join(part["text"] for part in brain.parts if part.get("text") and not part.get("thought"))
        assert result.json["answer"] == text
    if result.code:
        assert result.json["error"]["message"]
