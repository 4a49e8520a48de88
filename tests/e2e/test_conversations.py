"""Whole conversations through the program: each call answered, in order, once, and nothing the service refuses."""

from pathlib import Path
from typing import Any

import pytest

from gemcode.simulator.reply import Call, RecordedRequest, Reply
from tests.e2e.program import MODEL, Place, Result, call, calls, says

CART = "def total(lines):\n    return sum(lines)\n"


@pytest.fixture(autouse=True)
def project(place: Place) -> Place:
    place.write("src/cart.py", CART)
    place.write("README.md", "# Shop\n\nA small shop.\n")
    return place


def outputs(result: Result, number: int) -> list[Any]:
    """What the tools gave back, in the order of the results."""
    return [each["response"].get("output", each["response"].get("error")) for each in result.results(number)]


def model_parts(request: RecordedRequest) -> list[dict[str, Any]]:
    return [part for content in request.contents if content["role"] == "model" for part in content["parts"]]


def test_an_answer_without_calls_is_one_request(place: Place) -> None:
    result = place.ask("hello", replies=[says("Hello ", "there.")])
    assert (result.code, result.stdout) == (0, "Hello there.\n")
    assert [request.action for request in result.requests] == ["streamGenerateContent"]
    assert result.requests[0].model == MODEL
    assert result.requests[0].last_text == "hello"


def test_a_single_call_is_answered_with_its_id_and_name(place: Place) -> None:
    result = place.ask("read it", replies=[calls(call("read_file", path="README.md")), says("A shop.")])
    assert (result.code, result.stdout) == (0, "A shop.\n")
    (given,) = result.results(2)
    sent = model_parts(result.requests[1])[0]
    assert (given["id"], given["name"]) == (sent["functionCall"]["id"], "read_file")
    assert given["response"]["output"]["content"] == "# Shop\n\nA small shop.\n"
    assert sent["thoughtSignature"]


def test_ten_parallel_calls_are_answered_in_one_content_in_call_order(place: Place) -> None:
    for number in range(10):
        place.write(f"data/{number}.txt", f"number {number}\n")
    wanted = [call("read_file", path=f"data/{number}.txt") for number in range(10)]
    result = place.ask("read all", replies=[calls(*wanted), says("All read.")])
    assert result.code == 0
    assert [content["role"] for content in result.requests[1].contents] == ["user", "model", "user"]
    assert [output["content"] for output in outputs(result, 2)] == [f"number {number}\n" for number in range(10)]
    made = [part["functionCall"]["id"] for part in model_parts(result.requests[1]) if "functionCall" in part]
    assert [each["id"] for each in result.results(2)] == made
    assert len(set(made)) == 10


def test_thirty_steps_one_after_the_other_keep_every_signature(place: Place) -> None:
    steps = [calls(call("read_file", path="README.md", start_line=1, end_line=number + 1)) for number in range(30)]
    result = place.ask("step by step", "-o", "json", replies=[*steps, says("Thirty.")])
    assert (result.code, result.json["answer"], result.json["steps"]) == (0, "Thirty.", 31)
    assert len(result.json["tool_calls"]) == 30
    assert len(result.requests) == 31
    made = [part for part in model_parts(result.requests[30]) if "functionCall" in part]
    assert len(made) == 30
    assert len({part["thoughtSignature"] for part in made}) == 30


def test_text_before_calls_is_shown_beside_the_answer_and_sent_back(place: Place) -> None:
    replies = [calls(call("list_files"), text="I look around first."), says("Two files.")]
    result = place.ask("what is here?", replies=replies)
    assert (result.code, result.stdout) == (0, "Two files.\n")
    assert "I look around first." in result.stderr
    assert model_parts(result.requests[1])[0]["text"] == "I look around first."


def test_thoughts_are_not_part_of_the_answer(place: Place) -> None:
    result = place.ask("think", replies=[{"thoughts": ["**Pondering**"], "text": "Done."}])
    assert (result.code, result.stdout) == (0, "Done.\n")


def test_a_failing_tool_is_an_answer_to_the_model_not_an_end(place: Place) -> None:
    replies = [calls(call("read_file", path="missing.py"), call("read_file", path="README.md")), says("Not there.")]
    result = place.ask("read", "-o", "json", replies=replies)
    assert result.code == 0
    error, output = outputs(result, 2)
    assert error["type"] == "not_found"
    assert output["content"].startswith("# Shop")
    assert [each["ok"] for each in result.json["tool_calls"]] == [False, True]


def test_an_unknown_tool_is_answered_with_the_closest_names(place: Place) -> None:
    result = place.ask("read", replies=[calls(call("read_fil", path="README.md")), says("Sorry.")])
    assert result.code == 0
    (error,) = outputs(result, 2)
    assert error["type"] == "unknown_tool"
    assert "read_file" in error["closest"]


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"path": "README.md", "lines": 3}, "lines"),
        ({}, "path"),
        ({"path": 7}, "path"),
        ({"path": "README.md", "start_line": "one"}, "start_line"),
    ],
)
def test_invalid_arguments_are_named_to_the_model(place: Place, args: dict[str, Any], named: str) -> None:
    result = place.ask("read", replies=[calls({"name": "read_file", "args": args}), says("Sorry.")])
    assert result.code == 0
    (error,) = outputs(result, 2)
    assert error["type"] == "invalid_arguments"
    assert [problem["argument"] for problem in error["problems"]] == [named]


def test_a_search_then_a_read_then_an_edit(place: Place) -> None:
    replies = [
        calls(call("search_files", pattern=r"sum\(")),
        calls(call("read_file", path="src/cart.py")),
        calls(call("edit_file", path="src/cart.py", edits=[{"old": "sum(lines)", "new": "round(sum(lines), 2)"}])),
        says("Rounded."),
    ]
    result = place.ask("round it", "--approve", "edits", "-o", "json", replies=replies)
    assert result.code == 0
    assert [match["path"] for match in outputs(result, 2)[0]["matches"]] == ["src/cart.py"]
    assert place.files()["src/cart.py"].decode() == CART.replace("sum(lines)", "round(sum(lines), 2)")
    (changed,) = result.json["files_changed"]
    assert (changed["path"], changed["action"]) == ("src/cart.py", "modified")
    assert changed["backup_id"]


@pytest.mark.parametrize("flags", [("--approve", "edits"), ("--approve", "all"), ("-y",), ("--yes",)])
def test_a_new_file_is_written_with_its_directories(place: Place, flags: tuple[str, ...]) -> None:
    before = place.files()
    replies = [calls(call("write_file", path="docs/new/api.md", content="# API\n")), says("Written.")]
    result = place.ask("document it", *flags, replies=replies)
    assert (result.code, result.stdout) == (0, "Written.\n")
    assert place.files() == before | {"docs/new/api.md": b"# API\n"}


@pytest.mark.parametrize(("mode", "code"), [("edits", 5), ("all", 0)])
def test_a_file_that_runs_later_passes_with_all_only(place: Place, mode: str, code: int) -> None:
    replies = [calls(call("write_file", path="Makefile", content="all:\n\ttrue\n")), says("Made.")]
    result = place.ask("make it", "--approve", mode, replies=replies)
    assert result.code == code
    assert ("Makefile" in place.files()) is (code == 0)


def test_appending_needs_no_read(place: Place) -> None:
    replies = [calls(call("write_file", path="README.md", content="More.\n", mode="append")), says("Added.")]
    result = place.ask("add", "-y", replies=replies)
    assert result.code == 0
    assert place.files()["README.md"] == b"# Shop\n\nA small shop.\nMore.\n"


def test_without_a_terminal_writes_are_not_offered_and_a_write_all_the_same_is_refused(place: Place) -> None:
    before = place.files()
    replies = [calls(call("write_file", path="new.txt", content="x\n")), says("I could not write.")]
    result = place.ask("write it", replies=replies)
    declared = [each["name"] for each in result.requests[0].body["tools"][0]["functionDeclarations"]]
    assert declared == ["list_files", "read_file", "search_files"]
    assert "read-only" in result.requests[0].body["systemInstruction"]["parts"][0]["text"]
    assert (result.code, result.stdout) == (5, "I could not write.\n")
    assert "new.txt" in result.stderr
    assert "--approve" in result.stderr
    assert outputs(result, 2)[0]["type"] == "denied"
    assert place.files() == before


def test_a_refused_write_has_its_status_in_json(place: Place) -> None:
    replies = [calls(call("write_file", path="new.txt", content="x\n")), says("I could not write.")]
    result = place.ask("write it", "-o", "json", replies=replies)
    assert (result.code, result.json["status"]) == (5, "write_refused")
    assert result.json["answer"] == "I could not write."
    assert result.json["files_changed"] == []
    assert "new.txt" in result.json["error"]["message"]


def test_with_approve_ask_and_nobody_to_ask_the_write_is_declined(place: Place) -> None:
    before = place.files()
    replies = [calls(call("write_file", path="new.txt", content="x\n")), says("Declined, then.")]
    result = place.ask("write it", "--approve", "ask", replies=replies)
    assert result.code == 5
    assert "terminal" in outputs(result, 2)[0]["message"]
    assert place.files() == before


def test_a_file_that_was_not_read_is_not_overwritten_until_it_was(place: Place) -> None:
    write = call("write_file", path="README.md", content="# New\n")
    replies = [calls(write), calls(call("read_file", path="README.md")), calls(write), says("Replaced.")]
    result = place.ask("replace it", "-y", "-o", "json", replies=replies)
    assert "read" in outputs(result, 2)[0]["message"].lower()
    assert [each["ok"] for each in result.json["tool_calls"]] == [False, True, True]
    assert (result.code, result.json["status"]) == (0, "ok")
    assert place.files()["README.md"] == b"# New\n"


def test_a_partial_read_is_enough_for_an_edit_but_not_to_overwrite(place: Place) -> None:
    place.write("long.txt", "".join(f"line {number}\n" for number in range(100)))
    replies = [
        calls(call("read_file", path="long.txt", start_line=1, end_line=3)),
        calls(call("write_file", path="long.txt", content="gone\n")),
        calls(call("edit_file", path="long.txt", edits=[{"old": "line 1\n", "new": "LINE 1\n"}])),
        says("Edited."),
    ]
    result = place.ask("change it", "-y", "-o", "json", replies=replies)
    assert [each["ok"] for each in result.json["tool_calls"]] == [True, False, True]
    assert result.code == 0
    assert place.files()["long.txt"].startswith(b"line 0\nLINE 1\nline 2\n")


def test_an_edit_that_misses_tells_the_nearest_region_and_changes_nothing(place: Place) -> None:
    replies = [
        calls(call("read_file", path="src/cart.py")),
        calls(call("edit_file", path="src/cart.py", edits=[{"old": "return sum(line)", "new": "return 0"}])),
        says("It did not fit."),
    ]
    result = place.ask("change it", "-y", replies=replies)
    assert result.code == 5
    assert "return sum(lines)" in str(outputs(result, 3)[0])
    assert place.files()["src/cart.py"] == CART.encode()


class SavesInBetween:
    """A model behind whose back somebody saves the file between the read and the write."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def answer(self, request: RecordedRequest) -> Reply:
        if request.number == 1:
            return Reply.calls(Call("read_file", {"path": "README.md"}))
        if request.number == 2:
            self._target.write_bytes(b"# Saved by somebody\n")
            return Reply.calls(Call("write_file", {"path": "README.md", "content": "# Mine\n"}))
        return Reply.says("A conflict.")


def test_a_save_between_read_and_write_is_a_conflict_and_survives(place: Place) -> None:
    result = place.ask("replace it", "-y", replies=SavesInBetween(place.project / "README.md"))
    assert result.code == 5
    assert place.files()["README.md"] == b"# Saved by somebody\n"


def test_writes_of_one_step_happen_in_order(place: Place) -> None:
    wanted = [call("write_file", path="log.txt", content=f"{number}\n", mode="append") for number in range(5)]
    result = place.ask("append", "-y", replies=[calls(*wanted), says("Five lines.")])
    assert result.code == 0
    assert place.files()["log.txt"] == b"0\n1\n2\n3\n4\n"


def test_the_first_request_is_small(place: Place) -> None:
    result = place.ask("hi", "-y", replies=[says("Hello.")])
    assert result.requests[0].size < 6 * 1024


FORCED = {
    "required": {"mode": "ANY"},
    "none": {"mode": "NONE"},
    "read_file": {"mode": "ANY", "allowedFunctionNames": ["read_file"]},
}


def choice(request: RecordedRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.body.get("toolConfig", {}).get("functionCallingConfig", {"mode": "AUTO"})
    return found


@pytest.mark.parametrize("wanted", ["auto", *FORCED])
def test_a_tool_choice_holds_for_the_first_step_only(place: Place, wanted: str) -> None:
    replies = [calls(call("read_file", path="README.md")), says("Read.")]
    result = place.ask("go", "--tool-choice", wanted, replies=replies)
    assert (result.code, result.stdout) == (0, "Read.\n")
    first, second = (choice(request) for request in result.requests)
    assert first == FORCED.get(wanted, second)
    assert second["mode"] in ("AUTO", "VALIDATED")
    assert "allowedFunctionNames" not in second


def test_other_models_take_the_same_conversation(place: Place) -> None:
    for model in ("gemini-4-argon", "gemini-3.5-flash-lite", "gemini-2.5-pro"):
        replies = [calls(call("list_files"), call("read_file", path="README.md")), says("Fine.")]
        result = place.ask("look", "-m", model, replies=replies)
        assert (result.code, result.stdout) == (0, "Fine.\n")
        assert {request.model for request in result.requests} == {model}
