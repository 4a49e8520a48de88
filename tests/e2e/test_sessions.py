"""Sessions through the program: kept from the first word, continued to the letter, listed, shown again, deleted.

And the limits that end a turn, and the compaction that keeps one from ending."""

import json
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gemcode.simulator.reply import RecordedRequest
from gemcode.simulator.service import Settings
from tests.e2e.program import KEY, STRICT, Place, call, calls, says

READ = call("read_file", path="a.txt")


@pytest.fixture(autouse=True)
def project(place: Place) -> Place:
    place.write("a.txt", "alpha\n")
    return place


def files_of(place: Place) -> list[Path]:
    return sorted(place.home.rglob("sessions/*.jsonl"))


def texts(request: RecordedRequest) -> list[str]:
    return [part["text"] for content in request.contents for part in content["parts"] if "text" in part]


def begin(place: Place, prompt: str = "what is in a.txt?") -> dict[str, Any]:
    return place.ask(prompt, "-o", "json", replies=[calls(READ, text="I look."), says("It says alpha.")]).json


def test_a_session_is_one_private_file(place: Place) -> None:
    session = begin(place)["session_id"]
    (path,) = files_of(place)
    assert path.stem == session
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert KEY not in path.read_text()


@pytest.mark.parametrize("flags", [("--continue",), ("-c",), ("--resume", "ID")])
def test_a_continued_conversation_is_sent_as_the_service_knows_it(place: Place, flags: tuple[str, ...]) -> None:
    first = place.ask("what is in a.txt?", "-o", "json", replies=[calls(READ, text="I look."), says("It says alpha.")])
    session = first.json["session_id"]
    result = place.ask(
        "and then?", *(session if flag == "ID" else flag for flag in flags), "-o", "json", replies=[says("Nothing.")]
    )
    assert result.json["session_id"] == session
    (request,) = result.requests
    before = first.requests[1].contents
    assert request.contents[: len(before)] == before
    assert texts(request)[-1] == "and then?"
    assert "It says alpha." in "".join(texts(request))
    signatures = [
        part["thoughtSignature"]
        for content in request.contents
        for part in content["parts"]
        if "thoughtSignature" in part
    ]
    assert len(signatures) == 2
    assert len(files_of(place)) == 1


def test_each_project_has_its_own_sessions(place: Place, tmp_path: Path) -> None:
    begin(place)
    (tmp_path / "other").mkdir()
    result = place.run("ask", "hi", "--continue", cwd=tmp_path / "other")
    assert (result.code, result.requests) == (2, ())
    assert "no session" in result.stderr.lower()


@pytest.mark.parametrize("wanted", ["zzzz", "../../etc/passwd", "a.b"])
def test_an_unknown_session_is_said_before_anything_is_sent(place: Place, wanted: str) -> None:
    begin(place)
    result = place.ask("hi", "--resume", wanted)
    assert (result.code, result.requests) == (2, ())
    assert "session" in result.stderr


def test_a_failed_prompt_is_not_part_of_the_conversation(place: Place) -> None:
    begin(place, "first")
    assert place.ask("second", "-c", replies=[{"http_error": {"name": "invalid_argument"}}]).code == 1
    result = place.ask("third", "-c", replies=[says("Fine.")])
    assert "second" not in texts(result.requests[0])
    assert texts(result.requests[0])[-1] == "third"


def test_a_session_without_any_answer_leaves_nothing(place: Place) -> None:
    assert place.ask("hi", replies=[{"http_error": {"name": "key_invalid"}}]).code == 2
    assert files_of(place) == []
    assert place.run("sessions").stdout == "No sessions in this project yet.\n"


def test_the_list_shows_what_each_session_was_about(place: Place) -> None:
    first = begin(place, "add an export\nas CSV")["session_id"]
    place.ask("write", "-y", replies=[calls(call("write_file", path="b.txt", content="b\n")), says("Done.")])
    listed = place.run("sessions").stdout.splitlines()
    assert len(listed) == 2
    assert "write" in listed[0] and "1 file" in listed[0]
    assert first in listed[1] and "add an export" in listed[1] and "1 turn" in listed[1]
    data = json.loads(place.run("sessions", "list", "--json").stdout)
    assert [(info["title"], info["turns"], info["files"], info["model"]) for info in data] == [
        ("write", 1, 1, "gemini-3.8-flash"), ("add an export", 1, 0, "gemini-3.8-flash"),
    ]  # fmt: skip
    assert all(info["cost_usd"] > 0 for info in data)


def test_a_session_is_shown_and_replayed_without_running_anything(place: Place) -> None:
    session = begin(place)["session_id"]
    (place.project / "a.txt").unlink()
    for command in (("sessions", "show", session), ("replay", session[:3])):
        result = place.run(*command)
        assert result.code == 0
        assert "what is in a.txt?" in result.stdout
        assert "read_file" in result.stdout and "It says alpha." in result.stdout
        assert result.requests == ()


def test_deleting_really_deletes(place: Place) -> None:
    session = begin(place, "my secret plan")["session_id"]
    assert place.run("sessions", "delete", session).code == 0
    assert files_of(place) == []
    for path in place.home.rglob("*"):
        assert not path.is_file() or b"my secret plan" not in path.read_bytes()
    assert place.run("sessions", "show", session).code == 2


def test_two_programs_on_one_session_do_not_mix(place: Place) -> None:
    session = begin(place)["session_id"]
    with place.started("ask", "left", "--continue", replies=[says("Left.", delay_first=30.0)]) as running:
        running.wait_for_request()
        result = place.ask("right", "--continue", "-o", "json", replies=[says("Right.")])
        assert result.code == 0
        assert result.json["session_id"] != session
        assert texts(result.requests[0])[-1] == "right"
        assert place.run("sessions", "delete", session).code == 2
    assert len(files_of(place)) == 2


def test_statistics_over_all_sessions(place: Place) -> None:
    begin(place)
    begin(place)
    table = place.run("stats").stdout
    assert "read_file" in table
    data = json.loads(place.run("stats", "--json").stdout)
    assert (data["sessions"], data["days"][0]["turns"]) == (2, 2)
    assert data["tools"][0]["calls"] == 2
    page = place.base / "page.html"
    assert place.run("stats", "--html", str(page)).code == 0
    assert page.read_text().startswith("<!DOCTYPE html>") and "<svg" in page.read_text()


def test_a_recorded_conversation_plays_back_in_the_simulator(place: Place) -> None:
    report = place.base / "report.json"
    replies = [
        calls(READ, text="I look."),
        {"http_error": {"code": 503, "status": "UNAVAILABLE", "message": "busy", "details": [
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.05s"}]}},
        says("half", fault={"kind": "cut", "after": 1}),
        says(f"It says alpha, not {KEY}."),
    ]  # fmt: skip
    place.write("a.txt", f"alpha {KEY[:4]}SyB{'x' * 33}\n")
    before = place.run(
        "ask",
        "read it",
        "--record",
        str(report),
        "-o",
        "json",
        env={"HOME": str(place.base)},
        replies=says_no_key(replies),
    )
    assert before.code == 0
    text = report.read_text()
    assert KEY not in text and "x" * 33 not in text and str(place.base) not in text
    scenario = json.loads(text)
    assert len(scenario["replies"]) == 4
    again = place.ask("read it", "-o", "json", replies=scenario, settings=STRICT)
    assert (again.code, again.json["answer"]) == (0, before.json["answer"])
    assert [each["name"] for each in again.json["tool_calls"]] == ["read_file"]
    assert place.ask("x", "--record", str(report)).code == 2


def says_no_key(replies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The model can't know the key; a text that holds it would be shown, and rightly so."""
    return json.loads(json.dumps(replies).replace(KEY, "beta"))  # type: ignore[no-any-return]  # the same shape


def test_the_same_call_with_the_same_result_stops_the_turn(place: Place) -> None:
    result = place.ask("go", "-o", "json", replies=[calls(READ, repeat="forever")])
    assert (result.code, result.json["status"], result.json["steps"]) == (4, "incomplete", 4)
    assert "Same call, same result" in result.json["error"]["message"]
    notes = [each["response"].get("notes") for each in result.results(4)]
    assert notes[0] and "same result 3 times" in notes[0][0]


def test_paging_through_a_file_is_no_loop(place: Place) -> None:
    place.write("long.txt", "".join(f"line {number}\n" for number in range(40)))
    pages = [calls(call("read_file", path="long.txt", start_line=n, end_line=n)) for n in range(1, 21)]
    result = place.ask("go", "-o", "json", replies=[*pages, says("Read.")])
    assert (result.code, result.json["steps"]) == (0, 21)


def test_the_step_limit(place: Place) -> None:
    pages = [calls(call("read_file", path="a.txt", start_line=1, end_line=n)) for n in range(1, 9)]
    result = place.ask("go", "--max-steps", "3", "-o", "json", replies=pages)
    assert (result.code, result.json["steps"]) == (4, 3)
    assert "--max-steps" in result.json["error"]["hint"]


def test_the_cost_limit(place: Place) -> None:
    expensive = calls(READ, usage={"promptTokenCount": 900_000})
    result = place.ask("go", "--max-cost", "0.5", "-o", "json", replies=[expensive, says("Never.")])
    assert (result.code, len(result.requests)) == (4, 1)
    assert result.json["cost_usd"] > 0.5
    assert "--max-cost" in result.json["error"]["hint"]


def test_the_time_limit_of_the_whole_turn(place: Place) -> None:
    pages = [calls(call("read_file", path="a.txt", end_line=n + 1), delay_first=0.7) for n in range(20)]
    result = place.ask("go", "--timeout", "2", "-o", "json", replies=pages)
    assert (result.code, result.json["status"]) == (4, "incomplete")
    assert "--timeout" in result.json["error"]["hint"]
    assert place.ask("on", "-c", replies=[says("Fine.")]).code == 0


def test_a_conversation_that_is_too_long_is_compacted_and_goes_on(place: Place) -> None:
    small = Settings(valid_keys=STRICT.valid_keys, strict_ids=True, input_limit=4000)
    place.write("big.txt", "".join(f"row {number} of many\n" for number in range(400)))
    read = calls(call("read_file", path="big.txt"))
    assert place.ask("read big.txt", settings=small, replies=[read, says("Read.")]).code == 0
    summary = says("The user had me read big.txt; it has rows.")
    result = place.ask(
        "again", "-c", "-o", "stream-json", settings=small, replies=[read, summary, says("Done.")], may_violate=True
    )
    assert (result.code, result.events[-1]["answer"]) == (0, "Done.")
    assert [each.http_code for each in result.violations] == [400]
    notices = [event["text"] for event in result.events if event["type"] == "notice"]
    assert any(text.startswith("Compacted 1 turn") for text in notices)
    sent = texts(result.requests[-1])
    assert "1. read big.txt" in sent[0] and "it has rows" in sent[0]
    assert sent[1] == "again"
    follow = place.ask("and on", "-c", settings=small, replies=[says("Fine.")])
    assert follow.code == 0
    assert "it has rows" in texts(follow.requests[0])[0]


def test_a_request_grows_only_at_its_end(place: Place) -> None:
    pages = [calls(call("read_file", path="a.txt", end_line=n + 1)) for n in range(5)]
    result = place.ask("go", replies=[*pages, says("Read.")])
    bodies = [json.dumps(request.body) for request in result.requests]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix("]}"))
