import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gemcode.agent.bounds import Bounds
from gemcode.agent.messages import ToolCall, ToolResult
from gemcode.agent.policy import Mode, Sensitivity
from gemcode.agent.registry import Prepared, StopTurn
from gemcode.agent.tool import ApprovalRequest, Approved, Conflict, Declined, FileChange, Stopped
from gemcode.workspace import undo
from tests.tools.bench import ToolBench, open_bench


def test_a_new_file_is_shown_and_written_with_its_directories(tools: ToolBench) -> None:
    output = tools.output("write_file", path="docs/new/a.md", content="# A\n")
    assert output == {"path": "docs/new/a.md", "action": "created", "lines_added": 1, "lines_removed": 0}
    assert (tools.project / "docs/new/a.md").read_text() == "# A\n"
    preview = tools.asked[0].preview
    assert isinstance(preview, FileChange)
    assert (preview.before, preview.after, preview.new_directories) == (None, b"# A\n", ("docs", "docs/new"))
    assert tools.turn.changed[0].backup_id


def test_a_declined_new_file_leaves_no_directory_behind(tools: ToolBench) -> None:
    tools.answer = Declined("not there")
    assert tools.error("write_file", path="docs/new/a.md", content="x")["type"] == "denied"
    assert list(tools.project.iterdir()) == []


def test_an_existing_file_must_be_read_first(tools: ToolBench) -> None:
    target = tools.put("a.txt", "precious\n")
    for tool, args in (
        ("write_file", {"content": "new\n"}),
        ("edit_file", {"edits": [{"old": "precious", "new": "x"}]}),
    ):
        assert tools.error(tool, path="a.txt", **args)["type"] == "not_read"
    assert target.read_text() == "precious\n" and tools.asked == []
    tools.call("read_file", path="a.txt")
    assert tools.output("write_file", path="a.txt", content="new\n")["action"] == "modified"


def test_a_file_that_changed_since_it_was_read_must_be_read_again(tools: ToolBench) -> None:
    target = tools.put("a.txt", "one\n")
    tools.call("read_file", path="a.txt")
    target.write_text("two\n")
    assert tools.error("write_file", path="a.txt", content="new\n")["type"] == "stale"
    assert target.read_text() == "two\n"


def test_overwriting_needs_the_whole_file_and_editing_any_part(tmp_path: Path) -> None:
    with open_bench(tmp_path, Bounds(shown_bytes=40)) as tools:
        target = tools.put("a.txt", "".join(f"line {n}\n" for n in range(20)))
        tools.call("read_file", path="a.txt")
        error = tools.error("write_file", path="a.txt", content="x\n")
        assert error["type"] == "not_read" and error["first_unread_line"] > 1
        assert tools.output("edit_file", path="a.txt", edits=[{"old": "line 7\n", "new": "seven\n"}])
        assert "seven\n" in target.read_text()


def test_reading_all_parts_allows_to_overwrite(tmp_path: Path) -> None:
    with open_bench(tmp_path, Bounds(shown_bytes=40)) as tools:
        tools.put("a.txt", "".join(f"line {n}\n" for n in range(20)))
        start = 1
        while start:
            output = tools.output("read_file", path="a.txt", start_line=start)
            start = 0 if output["last_line"] == output["total_lines"] else output["last_line"] + 1
        assert tools.output("write_file", path="a.txt", content="x\n")["action"] == "modified"


def test_after_an_edit_of_a_part_reading_the_whole_file_allows_to_overwrite(tools: ToolBench) -> None:
    tools.put("a.txt", "x\n" * 50)
    tools.output("read_file", path="a.txt", end_line=5)
    tools.output("edit_file", path="a.txt", edits=[{"old": "x\nx\n", "new": "y\n", "all": True}])
    error = tools.error("write_file", path="a.txt", content="new\n")
    assert (error["type"], error["first_unread_line"]) == ("not_read", 1)
    tools.output("read_file", path="a.txt", end_line=20)
    assert tools.error("write_file", path="a.txt", content="new\n")["first_unread_line"] == 21
    tools.output("read_file", path="a.txt", start_line=21)
    assert tools.output("write_file", path="a.txt", content="new\n")["action"] == "modified"


def test_what_the_model_wrote_it_may_change_again(tools: ToolBench) -> None:
    tools.call("write_file", path="a.txt", content="one\n")
    assert tools.output("write_file", path="a.txt", content="two\n")["lines_removed"] == 1
    assert tools.output("edit_file", path="a.txt", edits=[{"old": "two", "new": "three"}])
    assert (tools.project / "a.txt").read_text() == "three\n"


def test_append_keeps_every_byte_that_was_there(tools: ToolBench) -> None:
    target = tools.put("a.txt", b"one\r\n")
    tools.output("write_file", path="a.txt", content="two\n", mode="append")
    assert target.read_bytes() == b"one\r\ntwo\r\n"


def test_a_change_made_by_the_person_is_what_gets_written_and_the_model_is_told(tools: ToolBench) -> None:
    def edited(request: ApprovalRequest) -> Approved:
        assert isinstance(request.preview, FileChange)
        return Approved(replace(request.preview, after=b"by hand\n"))

    tools.answer = edited
    output = tools.output("write_file", path="a.txt", content="by model\n")
    assert (tools.project / "a.txt").read_bytes() == b"by hand\n"
    assert "changed your proposal" in output["note"]
    tools.answer = None
    assert tools.error("write_file", path="a.txt", content="again\n")["type"] == "not_read"


def test_a_save_while_the_question_is_open_is_never_overwritten(tools: ToolBench) -> None:
    target = tools.put("a.txt", "one\n")
    tools.call("read_file", path="a.txt")

    def meanwhile(request: ApprovalRequest) -> Approved:
        target.write_text("a teammate's line\n")
        return Approved(request.preview)

    tools.answer = meanwhile
    error = tools.error("write_file", path="a.txt", content="new\n")
    assert error["type"] in ("stale", "conflict")
    assert target.read_text() == "a teammate's line\n"


def overtaken(tools: ToolBench) -> ToolResult:
    """The result of a write that was approved, and met a file that a teammate had saved."""
    target = tools.put("a.txt", "one\n")
    tools.call("read_file", path="a.txt")

    def meanwhile(request: ApprovalRequest) -> Approved:
        target.write_text("one\na teammate's line\n")
        return Approved(request.preview)

    tools.answer = meanwhile
    result = tools.call("write_file", path="a.txt", content="new\n")
    assert target.read_text() == "one\na teammate's line\n"
    return result


def test_a_conflict_is_asked_about_with_both_versions(tools: ToolBench) -> None:
    result = overtaken(tools)
    conflict = tools.asked[-1].preview
    assert isinstance(conflict, Conflict)
    assert (conflict.path, conflict.shown, conflict.proposed) == ("a.txt", b"one\n", b"new\n")
    assert (conflict.found, conflict.lines) == (b"one\na teammate's line\n", 1)
    assert restored(tools, conflict.kept) == b"new\n"
    assert (result.error_kind, result.display) == ("stale", "changed on disk, to be read again")
    assert "read it again" in result.error_message


def restored(tools: ToolBench, kept: str) -> bytes | None:
    return undo.restore(tools.bench.root, tools.bench.store, kept).after


def test_a_dropped_proposal_is_told_to_the_model_and_still_kept(tools: ToolBench) -> None:
    tools.about_conflict = Declined()
    result = overtaken(tools)
    assert result.error_kind == "denied" and "The user dropped your proposal" in result.error_message
    assert isinstance(tools.asked[-1].preview, Conflict)
    assert restored(tools, tools.asked[-1].preview.kept) == b"new\n"


def test_stopping_at_a_conflict_ends_the_turn_and_leaves_the_true_result(tools: ToolBench) -> None:
    tools.about_conflict = Stopped()
    with pytest.raises(StopTurn):
        overtaken(tools)
    assert tools.turn.late["c"].error_kind == "stale"
    assert tools.turn.refused == {"a.txt": tools.turn.late["c"].error_message}


def test_who_was_not_asked_about_the_write_is_not_asked_about_the_conflict(tools: ToolBench) -> None:
    target = tools.put("a.txt", "one\n")
    tools.call("read_file", path="a.txt")
    tools.turn.mode = Mode.EDITS

    async def run() -> ToolResult:
        ready = await tools.registry.prepare(
            ToolCall("c", "write_file", {"path": "a.txt", "content": "new\n"}), tools.turn
        )
        assert isinstance(ready, Prepared)
        target.write_text("a teammate's line\n")
        return (await tools.registry.start([ready], tools.turn)[ready.call.id])[0]

    result = asyncio.run(run())
    assert (result.error_kind, result.display, tools.asked) == ("stale", None, [])
    assert target.read_text() == "a teammate's line\n"


def test_edits_are_all_or_none(tools: ToolBench) -> None:
    target = tools.put("a.txt", "one\ntwo\nthree\n")
    tools.call("read_file", path="a.txt")
    error = tools.error("edit_file", path="a.txt", edits=[{"old": "one", "new": "1"}, {"old": "twwo", "new": "2"}])
    assert error["type"] == "no_match" and target.read_text() == "one\ntwo\nthree\n"
    tools.output("edit_file", path="a.txt", edits=[{"old": "one", "new": "1"}, {"old": "three\n", "new": ""}])
    assert target.read_text() == "1\ntwo\n"


def test_an_ambiguous_edit_is_refused_unless_all_are_meant(tools: ToolBench) -> None:
    target = tools.put("a.txt", "x\nx\n")
    tools.call("read_file", path="a.txt")
    assert tools.error("edit_file", path="a.txt", edits=[{"old": "x", "new": "y"}])["type"] == "many_matches"
    tools.output("edit_file", path="a.txt", edits=[{"old": "x", "new": "y", "all": True}])
    assert target.read_text() == "y\ny\n"


def test_editing_a_missing_file_says_what_to_do(tools: ToolBench) -> None:
    assert "write_file" in tools.error("edit_file", path="a.txt", edits=[{"old": "x", "new": "y"}])["message"]


def test_no_change_is_no_write(tools: ToolBench) -> None:
    tools.put("a.txt", "x\n")
    tools.call("read_file", path="a.txt")
    assert tools.error("write_file", path="a.txt", content="x\n")["type"] == "no_change"
    assert tools.asked == []


def test_too_large_a_content_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    with open_bench(tmp_path, Bounds(write_bytes=10)) as tools:
        assert tools.error("write_file", path="a.txt", content="x" * 11)["type"] == "too_large"
        assert tools.asked == []


def test_binary_files_are_not_edited(tools: ToolBench) -> None:
    tools.put("a.bin", b"\0\1\2")
    tools.call("read_file", path="a.bin")
    assert tools.error("edit_file", path="a.bin", edits=[{"old": "x", "new": "y"}])["type"] in ("binary", "not_read")


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".GIT/config", "sitecustomize.py", ".gemcodeignore", "../x"])
def test_protected_names_are_refused_without_a_question_in_every_mode(tools: ToolBench, path: str) -> None:
    tools.turn.mode = Mode.ALL
    assert tools.error("write_file", path=path, content="x")["type"] in ("protected", "outside_project")
    assert tools.asked == [] and list(tools.project.iterdir()) == []


def test_files_that_run_later_are_marked_and_asked_for_in_edits_mode(tools: ToolBench) -> None:
    tools.turn.mode = Mode.EDITS
    tools.output("write_file", path="plain.txt", content="x\n")
    assert tools.asked == []
    tools.output("write_file", path="Makefile", content="all:\n")
    assert tools.asked[0].preview.sensitivity is Sensitivity.RUNS_LATER
    tools.output("write_file", path=".env", content="KEY=1\n")
    assert tools.asked[1].preview.sensitivity is Sensitivity.SECRET


def test_a_bare_repository_is_marked_as_running_later(tools: ToolBench) -> None:
    tools.turn.mode = Mode.EDITS
    for name in ("HEAD", "objects/x", "refs/x", "config"):
        tools.put(f"mirror/{name}", "x\n")
    tools.output("write_file", path="mirror/hooks/post-update", content="#!/bin/sh\n")
    assert tools.asked[0].preview.sensitivity is Sensitivity.RUNS_LATER


def test_encodings_survive_an_edit(tools: ToolBench) -> None:
    before = "gr\u00fc\u00df\r\ndich\n".encode("latin-1")
    target = tools.put("a.txt", before)
    tools.call("read_file", path="a.txt")
    tools.output("edit_file", path="a.txt", edits=[{"old": "dich", "new": "euch"}])
    assert target.read_bytes() == before.replace(b"dich", b"euch")
    error = tools.error("edit_file", path="a.txt", edits=[{"old": "euch", "new": "\u20ac"}])
    assert error["type"] == "encoding"


def test_every_write_can_be_taken_back(tools: ToolBench) -> None:
    from gemcode.workspace import undo, writer

    target = tools.put("a.txt", "one\n")
    tools.call("read_file", path="a.txt")
    tools.output("write_file", path="a.txt", content="two\n")
    plan = undo.undo(tools.bench.root, tools.bench.store)
    writer.write(tools.bench.root, tools.bench.store, plan.proposals[0], turn="t", reason="undo")
    assert target.read_text() == "one\n"
