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
from tests.e2e.chatting import at_prompt, leave, send
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


def test_the_list_ends_where_the_screen_does_and_in_a_pipe_it_is_whole(place: Place) -> None:
    title = "explain each of the parts of this project, the longest of them first"
    session = begin(place, title)["session_id"]
    (whole,) = place.run("sessions").stdout.splitlines()
    assert title in whole and whole.endswith("gemini-3.8-flash")
    with place.terminal("sessions", size=(60, 10)) as (screen, _):
        screen.wait_for(f"^{session} .*1 turn .*explain.*…$")
        shown = [line for line in screen.visible() if line]
    assert len(shown) == 1 and len(shown[0]) == 60


def test_a_session_is_shown_and_replayed_without_running_anything(place: Place) -> None:
    session = begin(place)["session_id"]
    (place.project / "a.txt").unlink()
    for command in (("sessions", "show", session), ("replay", session[:3])):
        result = place.run(*command)
        assert result.code == 0
        assert "what is in a.txt?" in result.stdout
        assert "read_file" in result.stdout and "It says alpha." in result.stdout
        assert result.requests == ()


def test_a_prompt_that_was_taken_back_is_shown_as_such(place: Place) -> None:
    session = begin(place)["session_id"]
    place.ask("then\nwhat?", "-c", replies=[{"http_error": {"name": "invalid_argument"}}])
    place.ask("go on", "-c", replies=[says("Gone on.")])
    shown = place.run("sessions", "show", session).stdout
    prompts = [line for line in shown.splitlines() if line.startswith(("> ", "~ "))]
    assert prompts == ["> what is in a.txt?", "~ then", "> go on"]
    assert "~ then\n  what?\n· taken back: it got no answer\n> go on\nGone on.\n" in shown
    replayed = place.run("replay", session).stdout
    assert "The API refused the request" in replayed


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


DEAR = {"promptTokenCount": 900_000, "totalTokenCount": 900_000}  # 0.675 USD


def half(**more: Any) -> dict[str, Any]:
    """The beginning of an answer, counted by the service, and what becomes of it."""
    content = {"parts": [{"text": "half"}], "role": "model"}
    return {"raw_events": [{"candidates": [{"content": content}], "usageMetadata": DEAR}], **more}


LOST = {
    "a cut": half(fault={"kind": "cut", "after": 1}),
    "a reset": half(fault={"kind": "reset", "after": 1}),
    "an error in the stream": half(fault={"kind": "error_event", "after": 1, "error": "internal"}),
    "no end": half(),
    "nothing said": {"usage": DEAR},
    "a malformed call": {"usage": DEAR, "finish": "MALFORMED_FUNCTION_CALL"},
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_what_a_failed_attempt_has_used_is_paid_for(place: Place, lost: dict[str, Any]) -> None:
    good = says("Fine.", usage={"promptTokenCount": 100_000, "totalTokenCount": 100_000})
    result = place.ask("go", "-o", "stream-json", replies=[lost, good])
    value = result.events[-1]
    assert (result.code, value["answer"], value["steps"]) == (0, "Fine.", 1)
    assert value["usage"]["prompt_tokens"] == value["usage"]["total_tokens"] == 1_000_000
    assert 0.75 <= value["cost_usd"] < 0.751
    (usage,) = [event for event in result.events if event["type"] == "usage"]
    assert {name: usage[name] for name in value["usage"]} == value["usage"]
    (info,) = json.loads(place.run("sessions", "list", "--json").stdout)
    assert info["cost_usd"] == pytest.approx(value["cost_usd"])
    (day,) = json.loads(place.run("stats", "--json").stdout)["days"]
    assert (day["prompt_tokens"], day["cost_usd"]) == (1_000_000, pytest.approx(value["cost_usd"], abs=1e-6))
    follow = place.ask("on", "-c", replies=[says("Good.")])
    assert "".join(texts(follow.requests[0])) == "goFine.on"


def test_a_prompt_that_only_failed_is_paid_for_but_not_kept(place: Place) -> None:
    lost = half(fault={"kind": "error_event", "after": 1, "error": "key_invalid"})
    result = place.ask("go", "-o", "json", replies=[lost])
    assert (result.code, result.json["steps"], result.json["usage"]["prompt_tokens"]) == (2, 0, 900_000)
    assert result.json["cost_usd"] == pytest.approx(0.675)
    assert place.run("sessions").stdout == "No sessions in this project yet.\n"
    assert json.loads(place.run("stats", "--json").stdout)["days"][0]["prompt_tokens"] == 900_000


@pytest.mark.parametrize("code", [4, 130], ids=["time is up", "Ctrl-C"])
def test_what_an_answer_had_used_when_it_was_ended_is_paid_for(place: Place, code: int) -> None:
    replies = [half(fault={"kind": "silence", "after": 1})]
    flags = ("--timeout", "2") if code == 4 else ()
    output = place.base / "output.jsonl"
    with (
        output.open("wb") as file,
        place.started("ask", "go", "-o", "stream-json", *flags, replies=replies, stdout=file.fileno()) as running,
    ):
        running.wait_until(lambda: b'"half"' in output.read_bytes(), "the text")
        assert (running.interrupt() if code == 130 else running.finish()).code == code
    value = json.loads(output.read_text().splitlines()[-1])
    assert (value["usage"]["prompt_tokens"], value["cost_usd"]) == (900_000, pytest.approx(0.675))


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_failed_attempts_count_for_the_cost_limit(place: Place, lost: dict[str, Any]) -> None:
    result = place.ask("go", "--max-cost", "0.5", "-o", "json", replies=[lost, says("Never.")])
    assert (result.code, result.json["status"], len(result.requests)) == (4, "incomplete", 1)
    assert result.json["error"]["message"] == "Spent $0.68 of $0.50 (--max-cost)."
    assert result.json["cost_usd"] > 0.5


def test_a_cost_limit_is_raised_in_the_chat_and_the_turn_goes_on(place: Place) -> None:
    dear = {"candidatesTokenCount": 180_000}  # 0.675 USD, and far from filling the window
    lost = half(fault={"kind": "cut", "after": 1})
    lost["raw_events"][0]["usageMetadata"] = dear
    replies = [lost, calls(READ, usage=dear), says("Done.")]
    with place.terminal("chat", "--max-cost", "0.5", replies=replies) as (screen, simulator):
        send(screen, "one")
        screen.wait_for(r"Spent \$0.68 of \$0.50 \(--max-cost\)")
        screen.wait_for("Raise it: /cost 1.00")
        at_prompt(screen, 2)
        send(screen, "two")
        screen.wait_until(lambda: sum("Spent $0.68" in row for row in screen.all()) == 2, what="the limit again")
        assert len(simulator.requests) == 1
        send(screen, "/cost 1.00")
        screen.wait_for(r"The limit is \$1.00 now")
        send(screen, "three")
        screen.wait_for(r"Spent \$1.35 of \$1.00 \(--max-cost\)")
        send(screen, "/cost")
        screen.wait_for(r"Spent \$1.35 in 3 turns")
        send(screen, "/cost 5")
        screen.wait_for(r"The limit is \$5.00 now")
        send(screen, "go on")
        screen.wait_for("Done.")
        leave(screen)
        assert list(filter(None, texts(simulator.requests[-1]))) == ["three", "go on"]


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
