"""One-shot output: what goes to stdout, what to stderr, and what scripts may rely on."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.errors import ModelError, UsageError
from gemcode.agent.events import (
    CallRecord,
    Event,
    FileChanged,
    Notice,
    Outcome,
    Status,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from gemcode.agent.messages import ToolCall, ToolResult, Usage
from gemcode.agent.model import Finish, FinishKind, Retrying, TextDelta, ThoughtDelta
from gemcode.terminal.headless import OutputFormat, Reporter, one_line_json, open_reporter, result_object
from gemcode.terminal.look import Look
from gemcode.terminal.view import About

ABOUT = About("1.0", "gemini-3.8-flash", session_id="7f3k")
DONE = Finish(FinishKind.COMPLETE, "STOP")
CALL = ToolCall("c1", "read_file", {"path": "a.py"})
OUTCOME = Outcome(
    Status.OK,
    "The answer.",
    "STOP",
    Usage(prompt=100, cached=50, output=10, thought=5, total=115),
    0.0012,
    2,
    (CallRecord("read_file", {"path": "a.py"}, True, 1.25), CallRecord("write_file", {}, False, 0, "no")),
    (FileChanged("b.py", "modified", "w1", 1, 1),),
    1234.5,
)
TURN: list[Event] = [
    StepStarted(1, "gemini-3.8-flash"),
    TextDelta("Let me "),
    TextDelta("look.\n"),
    StepFinished(1, "Let me look.\n", False, DONE, Usage(prompt=50)),
    ToolStarted(CALL, "a.py"),
    ToolFinished(CALL, "a.py", ToolResult("c1", "read_file", {"output": "x"}, display="120 lines"), 1.25),
    Notice("Something to know.", warning=True),
    StepStarted(2, "gemini-3.8-flash"),
    TextDelta("The ans"),
    Retrying("Limit of 10 requests per minute reached", 9, 1, 5),
    ThoughtDelta("hm"),
    TextDelta("The answer."),
    StepFinished(2, "The answer.", True, DONE, Usage(prompt=50)),
    TurnFinished(OUTCOME),
]
Capture = pytest.CaptureFixture[str]


def play(reporter: Reporter, events: list[Event] = TURN) -> None:
    for event in events:
        reporter(event)


def reporter(output_format: OutputFormat, *, terminal: bool = False, verbose: bool = False) -> Reporter:
    return open_reporter(output_format, ABOUT, Look(), terminal=terminal, verbose=verbose)


def test_39_into_a_pipe_stdout_is_the_answer_alone_and_once(capsys: Capture) -> None:
    play(reporter(OutputFormat.TEXT))
    out, err = capsys.readouterr()
    assert out == "The answer.\n"
    assert "Let me look.\n" in err
    assert "✓ read_file" in err and "120 lines" in err
    assert "! Something to know." in err
    assert "Limit of 10 requests per minute reached. Try 2 of 5 in 9 s" in err
    assert "b.py written (+1 -1)" in err
    assert "in 100 (50% cached)" in err
    assert "\x1b" not in out + err


def test_into_a_pipe_the_answer_is_verbatim(capsys: Capture) -> None:
    one = reporter(OutputFormat.TEXT)
    one.finish(Outcome(Status.OK, "a\x1b[31mb\u202e\ttab\n\n"))
    assert capsys.readouterr().out == "a\x1b[31mb\u202e\ttab\n\n"


def test_on_a_terminal_the_text_streams_escaped_and_a_void_text_is_said_to_be_so(capsys: Capture) -> None:
    one = reporter(OutputFormat.TEXT, terminal=True)
    play(one, [StepStarted(1, "m"), TextDelta("first\x1b[2J\nsec")])
    assert capsys.readouterr().out == "first\\x1b[2J\n"
    play(one, [Retrying("It broke", 1, 1, 5)])
    out, err = capsys.readouterr()
    assert out == "sec\n"
    assert err.splitlines() == [
        "· The text above was cut off and is void.",
        "! It broke. Try 2 of 5 in 1 s  (Ctrl-C cancels)",
    ]
    play(
        one,
        [TextDelta("again"), StepFinished(1, "again", True, DONE, Usage()), TurnFinished(Outcome(Status.OK, "again"))],
    )
    assert capsys.readouterr().out == "again\n"


def test_a_cut_answer_is_still_printed_with_the_reason_on_stderr(capsys: Capture) -> None:
    one = reporter(OutputFormat.TEXT)
    one.finish(Outcome(Status.INCOMPLETE, "half", error=ModelError("The answer was cut.", 'Say "go on".')))
    out, err = capsys.readouterr()
    assert out == "half\n"
    assert err.splitlines() == ["✗ The answer was cut.", '  Say "go on".']


def test_34_an_error_is_one_sentence_and_one_hint_and_details_only_when_verbose(capsys: Capture) -> None:
    error = ModelError("The key was rejected.", "Check it with: gemcode doctor", detail='{"error": 400}')
    reporter(OutputFormat.TEXT).finish(Outcome(Status.USAGE_ERROR, error=error))
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", ["✗ The key was rejected.", "  Check it with: gemcode doctor"])
    reporter(OutputFormat.TEXT, verbose=True).finish(Outcome(Status.USAGE_ERROR, error=error))
    assert '{"error": 400}' in capsys.readouterr().err


def test_json_is_exactly_one_object_with_every_key(capsys: Capture) -> None:
    play(reporter(OutputFormat.JSON))
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    assert json.loads(out) == {
        "schema": 1,
        "session_id": "7f3k",
        "model": "gemini-3.8-flash",
        "status": "ok",
        "answer": "The answer.",
        "finish_reason": "STOP",
        "usage": {
            "prompt_tokens": 100,
            "cached_tokens": 50,
            "output_tokens": 10,
            "thought_tokens": 5,
            "total_tokens": 115,
        },
        "cost_usd": 0.0012,
        "steps": 2,
        "tool_calls": [
            {"name": "read_file", "args": {"path": "a.py"}, "ok": True, "duration_ms": 1.25},
            {"name": "write_file", "args": {}, "ok": False, "duration_ms": 0, "error": "no"},
        ],
        "files_changed": [{"path": "b.py", "action": "modified", "backup_id": "w1"}],
        "duration_ms": 1234.5,
    }


@pytest.mark.parametrize("output_format", [OutputFormat.JSON, OutputFormat.STREAM_JSON])
def test_a_failure_before_any_request_is_reported_in_the_same_form(
    output_format: OutputFormat, capsys: Capture
) -> None:
    one = reporter(output_format)
    one.finish(Outcome(Status.USAGE_ERROR, error=UsageError("No API key.", "Set GEMINI_API_KEY.")))
    one.finish(Outcome(Status.OK))
    *_, last = capsys.readouterr().out.splitlines()
    result = json.loads(last)
    assert result["status"] == "usage_error"
    assert result["error"] == {"message": "No API key.", "hint": "Set GEMINI_API_KEY."}
    assert result["answer"] == "" and result["steps"] == 0


def test_stream_json_gives_every_event_on_its_line_and_the_result_last(capsys: Capture) -> None:
    play(reporter(OutputFormat.STREAM_JSON))
    events = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [event["type"] for event in events] == [
        *("init", "text", "text", "usage", "tool_call", "tool_result", "notice"),
        *("text", "retry", "thought", "text", "usage", "result"),
    ]
    result = events[-1]
    del result["type"]
    assert result == json.loads(one_line_json(result_object(OUTCOME, "7f3k", "gemini-3.8-flash")))
    assert events[5] | {"type": "tool_result", "id": "c1", "ok": True, "output": "x"} == events[5]


@given(st.text(alphabet=st.characters()))
def test_one_line_json_is_printable_and_gives_the_same_value_back(text: str) -> None:
    line = one_line_json({"text": text})
    assert line.isprintable()
    line.encode("utf-8")
    assert json.loads(line) == json.loads(json.dumps({"text": text}))


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_an_object(status: Status) -> None:
    assert result_object(Outcome(status), "", "m")["status"] == status.value


def test_the_reporters_are_sinks(capsys: Capture) -> None:
    sink: Callable[[Event], None] = reporter(OutputFormat.JSON)
    sink(TurnFinished(Outcome(Status.OK)))
    assert capsys.readouterr().out
