"""What stands on stdout and stderr, in each format: all of it documented, nothing doubled, nothing beside it."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import CLOSED, MODEL, Place, call, calls, press, says

RESULT = {
    "schema": int,
    "session_id": str,
    "model": str,
    "status": str,
    "answer": str,
    "finish_reason": str,
    "usage": dict,
    "cost_usd": float,
    "steps": int,
    "tool_calls": list,
    "files_changed": list,
    "duration_ms": float,
}
USAGE = {"prompt_tokens", "cached_tokens", "output_tokens", "thought_tokens", "total_tokens"}
EVENTS = {"init", "text", "thought", "tool_call", "tool_result", "retry", "usage", "notice", "result"}

TWO_STEPS = [
    calls(call("list_files"), call("read_file", path="missing.txt"), text="I look."),
    says("Two ", "files.", usage={"promptTokenCount": 900, "cachedContentTokenCount": 600, "thoughtsTokenCount": 40}),
]
SOON = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}
# The text breaks off in its middle; the next attempt says all of it.
BROKEN = says("Once ", "upon ", "a time.", fault={"kind": "reset", "after": 2})


@pytest.fixture(autouse=True)
def project(place: Place) -> Place:
    place.write("a.txt", "one\n")
    place.write("b.txt", "two\n")
    return place


def assert_result(value: dict[str, Any]) -> None:
    assert {name for name in value if name not in ("error", "type")} == set(RESULT)
    for name, kind in RESULT.items():
        assert isinstance(value[name], kind) or (name == "cost_usd" and value[name] is None), name
    assert set(value["usage"]) == USAGE
    assert all(isinstance(number, int) for number in value["usage"].values())
    for each in value["tool_calls"]:
        assert set(each) - {"error"} == {"name", "args", "ok", "duration_ms"}
        assert ("error" in each) is not each["ok"]
    for each in value["files_changed"]:
        assert set(each) == {"path", "action", "backup_id"}
    if "error" in value:
        assert set(value["error"]) == {"message", "hint"}


def test_text_is_the_answer_only(place: Place) -> None:
    result = place.ask("what is here?", replies=TWO_STEPS)
    assert (result.code, result.stdout) == (0, "Two files.\n")
    for told in ("I look.", "list_files", "missing.txt", MODEL):
        assert told in result.stderr
    assert "Two files." not in result.stderr
    assert "\x1b" not in result.stdout + result.stderr


def test_the_answer_is_verbatim_and_ends_with_one_newline(place: Place) -> None:
    text = "# Head\n\n```python\nx = 1\t# tab\n```\n\nÜmläut 🙂 \x1b[31mred\n"
    assert place.ask("x", replies=[says(text)]).stdout == text
    assert place.ask("x", replies=[says("no end")]).stdout == "no end\n"


def test_verbose_tells_of_each_request_on_a_line_of_its_own(place: Place) -> None:
    result = place.ask("what is here?", "-v", replies=TWO_STEPS)
    assert (result.code, result.stdout) == (0, "Two files.\n")
    lines = [line[0] for line in result.stderr.splitlines() if line.startswith(("→", "←"))]
    assert lines == ["→", "←", "→", "←"]


def test_json_is_one_object_with_the_documented_keys(place: Place) -> None:
    result = place.ask("what is here?", "-o", "json", replies=TWO_STEPS)
    value = result.json
    assert_result(value)
    assert (result.code, value["schema"], value["status"], value["finish_reason"]) == (0, 1, "ok", "STOP")
    assert (value["model"], value["answer"], value["steps"]) == (MODEL, "Two files.", 2)
    assert [(each["name"], each["args"], each["ok"]) for each in value["tool_calls"]] == [
        ("list_files", {}, True),
        ("read_file", {"path": "missing.txt"}, False),
    ]
    assert "error" not in value


def test_usage_is_the_sum_of_the_steps_and_the_cost_follows(place: Place) -> None:
    counts = {"promptTokenCount": 1000, "cachedContentTokenCount": 400, "candidatesTokenCount": 50}
    counts |= {"thoughtsTokenCount": 7, "totalTokenCount": 1057}
    replies = [calls(call("list_files"), usage=counts), says("Done.", usage=counts)]
    value = place.ask("count", "-o", "json", replies=replies).json
    assert value["usage"] == {
        "prompt_tokens": 2000,
        "cached_tokens": 800,
        "output_tokens": 100,
        "thought_tokens": 14,
        "total_tokens": 2114,
    }
    assert 0 < value["cost_usd"] < 0.1


def test_a_model_without_a_price_costs_null(place: Place) -> None:
    result = place.ask("hi", "-o", "json", "-m", "gemini-2.0-flash", replies=[says("Hello.")])
    assert (result.code, result.json["cost_usd"], result.json["model"]) == (0, None, "gemini-2.0-flash")


@pytest.mark.parametrize("source", ["flag", "environment", "settings"])
def test_the_model_in_json_is_the_one_that_answered(place: Place, source: str) -> None:
    flags, env = [], {}
    if source == "flag":
        flags = ["-m", "gemini-3.5-flash"]
    elif source == "environment":
        env = {"GEMCODE_MODEL": "gemini-3.5-flash"}
    else:
        place.settings('model = "gemini-3.5-flash"\n')
    result = place.ask("hi", "-o", "json", *flags, replies=[says("Hello.")], env=env)
    assert (result.json["model"], result.requests[0].model) == ("gemini-3.5-flash", "gemini-3.5-flash")


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_model_that_stood_in_is_named_as_the_one_that_answered(place: Place, output: str) -> None:
    busy = {"http_error": {"code": 503, "status": "UNAVAILABLE", "message": "Overloaded.", "details": [SOON]}}
    flags = ("-o", output, "--fallback-model", "gemini-2.5-flash")
    result = place.ask("hi", *flags, replies=[busy | {"repeat": 5}, says("From the other.")])
    assert (result.code, result.requests[-1].model) == (0, "gemini-2.5-flash")
    if output == "text":
        assert result.stderr.splitlines()[-1].startswith("gemini-2.5-flash")
    else:
        assert json.loads(result.stdout.splitlines()[-1])["model"] == "gemini-2.5-flash"


def test_stream_json_is_a_line_an_event_and_ends_with_the_result(place: Place) -> None:
    result = place.ask("what is here?", "-o", "stream-json", replies=TWO_STEPS)
    events = result.events
    kinds = [event["type"] for event in events]
    assert set(kinds) <= EVENTS
    assert kinds[0] == "init"
    assert kinds[-1] == "result"
    assert (kinds.count("init"), kinds.count("result")) == (1, 1)
    told = [kind for kind in kinds if kind != "notice"]
    called = ["tool_call", "tool_call", "tool_result", "tool_result"]
    assert told == ["init", "text", "usage", *called, "text", "text", "usage", "result"]
    assert events[0]["model"] == MODEL
    assert events[0]["session_id"] == events[-1]["session_id"]
    assert [event["text"] for event in events if event["type"] == "text"] == ["I look.", "Two ", "files."]
    assert_result(events[-1])
    assert events[-1]["answer"] == "Two files."


def test_the_events_of_a_call_and_its_result_belong_together(place: Place) -> None:
    events = place.ask("what is here?", "-o", "stream-json", replies=TWO_STEPS).events
    asked = {event["id"]: event for event in events if event["type"] == "tool_call"}
    given = [event for event in events if event["type"] == "tool_result"]
    assert [asked[event["id"]]["name"] for event in given] == [event["name"] for event in given]
    assert given[0]["ok"] is True
    assert given[0]["output"]["files"] == ["a.txt", "b.txt"]
    assert given[1]["ok"] is False
    assert given[1]["error"]["type"] == "not_found"


def test_a_notice_and_a_thought_are_events(place: Place) -> None:
    place.write(".gemcode.toml", 'api_key = "stolen"\n')
    replies = [{"thoughts": ["**Weighing**"], "text": "Done."}]
    events = place.ask("hi", "-o", "stream-json", replies=replies).events
    assert any("api_key" in event["text"] for event in events if event["type"] == "notice")
    assert all(isinstance(event["text"], str) for event in events if event["type"] in ("text", "thought", "notice"))


def test_after_a_retry_in_the_middle_of_the_text_nothing_is_doubled(place: Place) -> None:
    result = place.ask("tell", replies=[BROKEN, says("Once upon a time.")])
    assert (result.code, result.stdout) == (0, "Once upon a time.\n")
    assert len(result.requests) == 2
    value = place.ask("tell", "-o", "json", replies=[BROKEN, says("Once upon a time.")]).json
    assert (value["answer"], value["steps"]) == ("Once upon a time.", 1)


def test_a_retry_event_voids_the_text_before_it(place: Place) -> None:
    events = place.ask("tell", "-o", "stream-json", replies=[BROKEN, says("Once upon a time.")]).events
    text = ""
    for event in events:
        if event["type"] == "retry":
            assert text, "the text before the retry is missing"
            text = ""
        elif event["type"] == "text":
            text += event["text"]
    assert text == events[-1]["answer"] == "Once upon a time."
    assert [event["type"] for event in events].count("retry") == 1


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_reader_that_goes_away_ends_the_program_silently(place: Place, output: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with place.started("ask", "hi", "-o", output, replies=[says("Hello.")], stdout=writing) as running:
            result = running.finish()
    finally:
        os.close(writing)
    assert result.code == 141
    assert "Hello" not in result.stderr
    assert "rror" not in result.stderr


def test_a_reader_that_leaves_after_the_first_line_ends_the_program(place: Place) -> None:
    replies = [says("One. ", "Two. ", "Three.", delay_between=0.5)]
    with place.started("ask", "hi", "-o", "stream-json", replies=replies) as running:
        assert running.child.stdout is not None
        assert json.loads(running.child.stdout.readline())["type"] == "init"
        running.child.stdout.close()
        running.child.stdout = None
        assert running.finish().code == 141


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_without_a_stdout_it_is_as_if_nobody_read(place: Place, output: str) -> None:
    with place.started("ask", "hi", "-o", output, replies=[says("Hello.")], stdout=CLOSED) as running:
        assert running.finish().code == 141


WITHOUT_A_REQUEST = [("--version",), ("ask", "--version"), ("--help",), ("undo", "--help"), ("models",)]


@pytest.mark.parametrize("arguments", [("ask", "hi"), *WITHOUT_A_REQUEST], ids=" ".join)
def test_a_full_disk_behind_stdout_is_told(place: Place, arguments: tuple[str, ...]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        with place.started(*arguments, replies=[says("Hello.")], stdout=descriptor) as running:
            result = running.finish()
    finally:
        os.close(descriptor)
    assert result.code == 1
    assert "No space left" in result.stderr


@pytest.mark.parametrize("arguments", WITHOUT_A_REQUEST, ids=" ".join)
@pytest.mark.parametrize("way", ["closed", "gone"])
def test_help_and_version_end_silently_when_nobody_reads(place: Place, arguments: tuple[str, ...], way: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with place.started(*arguments, stdout=CLOSED if way == "closed" else writing) as running:
            result = running.finish()
    finally:
        os.close(writing)
    assert (result.code, result.stderr) == (141, "")


def test_what_is_piped_in_is_added_to_the_prompt(place: Place) -> None:
    result = place.ask("review", "this", replies=[says("Fine.")], stdin=b"diff --git a b\n+x\n")
    assert result.code == 0
    assert result.requests[0].last_text.startswith("review this\n")
    assert "diff --git a b\n+x\n" in result.requests[0].last_text


def test_a_redirected_file_is_added_too(place: Place) -> None:
    with (place.project / "a.txt").open("rb") as file:
        result = place.ask("review", replies=[says("Fine.")], stdin=file.fileno())
    assert "one\n" in result.requests[0].last_text


def test_a_dash_reads_the_prompt_from_stdin(place: Place) -> None:
    result = place.ask("-", replies=[says("Fine.")], stdin="Grüße,\nzweite Zeile\n".encode())
    assert result.requests[0].last_text == "Grüße,\nzweite Zeile"


def test_only_stdin_is_a_prompt_too(place: Place) -> None:
    result = place.ask(replies=[says("Fine.")], stdin=b"What is 1+1?\n")
    assert result.code == 0
    assert result.requests[0].last_text == "What is 1+1?"
    assert "What is 1+1?" in place.run("sessions").stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_stdin_is_read_is_an_outcome_too(place: Place, number: int) -> None:
    with place.started("ask", "hi", "-o", "json", stdin=subprocess.PIPE) as running:
        running.wait_for_stderr("reading stdin until it ends")
        running.child.send_signal(number)
        result = running.finish()
    assert_result(result.json)
    assert (result.code, result.json["status"], result.requests) == (130, "interrupted", ())


def test_bytes_that_are_no_text_are_refused(place: Place) -> None:
    result = place.ask("review", stdin=b"\x7fELF\0\0")
    assert (result.code, result.stdout, result.requests) == (2, "", ())
    assert "stdin" in result.stderr


def test_latin_letters_in_stdin_do_not_stop_it(place: Place) -> None:
    result = place.ask("review", stdin="naïve".encode("latin-1"), replies=[says("Fine.")])
    assert result.code == 0
    assert "na\ufffdve" in result.requests[0].last_text


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, CLOSED, b""], ids=["null", "closed", "empty"])
def test_no_input_is_no_part_of_the_prompt(place: Place, stdin: int | bytes) -> None:
    result = place.ask("hi", replies=[says("Hello.")], stdin=stdin)
    assert (result.code, result.stdout) == (0, "Hello.\n")
    assert result.requests[0].last_text == "hi"


def test_a_mentioned_file_goes_along(place: Place) -> None:
    result = place.ask("explain", "@a.txt", replies=[says("One line.")])
    assert result.code == 0
    assert "one\n" in result.requests[0].last_text


def test_on_a_terminal_the_answer_streams_and_ends(place: Place) -> None:
    replies = [says("First line.\n", "Second line.", delay_between=0.3)]
    with place.terminal("ask", "hi", replies=replies) as (screen, _):
        screen.wait_for("Second line.")
        assert screen.wait_for_end() == 0
        assert screen.text().count("First line.") == 1


def test_on_a_terminal_escape_sequences_of_the_model_are_shown_not_obeyed(place: Place) -> None:
    with place.terminal("ask", "hi", replies=[says("a\x1b]52;c;aGk=\x07b\n")]) as (screen, _):
        screen.wait_for(r"a\\x1b]52;c;aGk=\\x07b")
        assert screen.wait_for_end() == 0
        assert b"\x1b]52" not in screen.raw


@pytest.mark.parametrize(("key", "code", "written"), [("y", 0, True), ("n", 5, False), ("q", 130, False)])
def test_on_a_terminal_a_write_is_confirmed_with_one_key(place: Place, key: str, code: int, written: bool) -> None:
    replies = [calls(call("write_file", path="new.txt", content="fresh\n")), says("That was it.")]
    with place.terminal("ask", "write", replies=replies) as (screen, _):
        press(screen, r"Write new\.txt\?", key)
        if key == "n":
            press(screen, "Reason for the model", "\r")
        assert screen.wait_for_end() == code
    assert ("new.txt" in place.files()) is written


def test_a_continued_session_keeps_its_id_and_its_words(place: Place) -> None:
    first = place.ask("My name is Ada.", "-o", "json", replies=[says("Noted.")]).json
    result = place.ask("Who am I?", "-c", "-o", "json", replies=[says("Ada.")])
    assert result.json["session_id"] == first["session_id"]
    assert [content["role"] for content in result.requests[0].contents] == ["user", "model", "user"]
    again = place.ask("And now?", "--resume", first["session_id"], "-o", "stream-json", replies=[says("Ada still.")])
    assert {event["session_id"] for event in again.events if "session_id" in event} == {first["session_id"]}
    assert len(again.requests[0].contents) == 5


def test_colours_are_for_terminals_and_can_be_switched_off(place: Place) -> None:
    for flags, env in ((("--no-color",), {}), ((), {"NO_COLOR": "1"})):
        with place.terminal("ask", "hi", *flags, replies=[says("Plain.")], env=env) as (screen, _):
            screen.wait_for("Plain.")
            assert screen.wait_for_end() == 0
            assert b"\x1b[3" not in screen.raw
