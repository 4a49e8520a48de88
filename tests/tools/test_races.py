"""Races through the tools, in short form: another process swaps names, or acts while the question is open. What a tool
answers may be anything but an escape; what another program saved stays. The long forms are in tests/workspace."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gemcode import audit
from gemcode.agent.errors import ToolError
from gemcode.agent.policy import Mode
from gemcode.agent.registry import ToolRegistry
from gemcode.agent.tool import ApprovalRequest, Approved
from gemcode.audit import Audit
from gemcode.tools import build_tools
from gemcode.workspace import names, osfs, undo, writer
from gemcode.workspace.root import Root
from tests.test_audit import in_processes
from tests.tools.bench import ToolBench
from tests.tools.operations import UNLIMITED, answer, memory, tools_on
from tests.workspace.corpus import INSIDE, OUTSIDE, Place, build, snapshot
from tests.workspace.ground import before_call
from tests.workspace.operations import Resolver
from tests.workspace.test_races import (
    directory_and_link,
    exchange_or_skip,
    leaf_and_directory,
    leaf_and_fifo,
    leaf_and_link,
)


@pytest.fixture
def ground() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory()) as directory:
        yield Path(directory)


# --- T1 to T9: names are swapped all the time ---

Attempt = Callable[[ToolBench, int], str]  # "inside", or the kind of the refusal


def call(name: str, **args: Any) -> Attempt:
    def attempt(tools: ToolBench, number: int) -> str:
        given = {key: value.format(number) if isinstance(value, str) else value for key, value in args.items()}
        result = answer(tools, name, **given)
        assert OUTSIDE.decode().strip() not in str(result.response)
        return "inside" if result.ok else result.error_kind

    return attempt


def overwrite(path: str) -> Attempt:
    def attempt(tools: ToolBench, number: int) -> str:
        call("read_file", path=path)(tools, number)
        return call("write_file", path=path, content="version {}\n")(tools, number)

    return attempt


def change(path: str) -> Attempt:
    def attempt(tools: ToolBench, number: int) -> str:
        seen = answer(tools, "read_file", path=path)
        old = seen.response["output"]["content"] if seen.ok else "x"
        return call("edit_file", path=path, edits=[{"old": old or "x", "new": f"edit {number}\n"}])(tools, number)

    return attempt


def write_and_undo(tools: ToolBench, number: int) -> str:
    if overwrite("swapped/mine")(tools, number) != "inside":
        return "not written"
    try:
        plan = undo.undo(tools.bench.root, tools.bench.store)
        if plan.conflicts:
            return plan.conflicts[0].kind
        for proposal in plan.proposals:
            writer.write(tools.bench.root, tools.bench.store, proposal, turn="t", reason="undo")
    except ToolError as error:
        return error.kind
    return "inside"


class Race(NamedTuple):
    prepare: Callable[[Place], tuple[str, str]]
    attempt: Attempt
    tries: int = 250


RACES = {
    "T1 read": Race(directory_and_link, call("read_file", path="swapped/x"), 500),
    "T2 list": Race(directory_and_link, call("list_files", path="swapped"), 500),
    "T3 search": Race(directory_and_link, call("search_files", pattern="."), 300),
    "T4 write": Race(directory_and_link, overwrite("swapped/mine")),
    "T4 edit": Race(directory_and_link, change("swapped/mine")),
    "T5 make directories": Race(directory_and_link, call("write_file", path="swapped/new{}/x", content="x\n")),
    "T6 undo": Race(directory_and_link, write_and_undo),
    "T7 read a leaf": Race(leaf_and_link, call("read_file", path="leaf"), 500),
    "T7 write a leaf": Race(leaf_and_link, overwrite("leaf")),
    "T8 read a leaf or a FIFO": Race(leaf_and_fifo, call("read_file", path="leaf"), 500),
    "T8 write a leaf or a FIFO": Race(leaf_and_fifo, overwrite("leaf")),
    "T9 write a leaf or a directory": Race(leaf_and_directory, overwrite("leaf")),
}


@pytest.mark.parametrize("resolver", ["openat2", "walk"])
@pytest.mark.parametrize("name", RACES)
def test_swapped_names_never_lead_a_tool_outside(name: str, resolver: Resolver, ground: Path) -> None:
    race = RACES[name]
    place = build(ground / "outside")
    first, second = race.prepare(place)
    canary = snapshot(place.outside, skip=place.project)
    outcomes: Counter[str] = Counter()
    with Root.open(place.project, resolver) as root, tools_on(root, ground / "state") as tools:
        tools.turn.mode = Mode.ALL
        for _ in range(5):  # a busy machine may keep the two processes from meeting
            with exchange_or_skip(place.project, first, second) as swaps:
                for number in range(race.tries):
                    outcomes[race.attempt(tools, len(outcomes) * 100_000 + number)] += 1
            if outcomes["inside"] and swaps.count > race.tries / 100:
                break
        else:
            pytest.fail(f"the swap was never missed, or never made, so the run is void: {outcomes}")
    assert snapshot(place.outside, skip=place.project) == canary
    assert not list(place.project.rglob(names.TEMPORARY_PREFIX + "*"))


# --- T10 to T20: something happens at one exact moment ---


def test_t10_a_file_that_grows_while_it_is_read_is_bounded(tools: ToolBench) -> None:
    target = tools.put("a.txt", "small\n")

    def grow() -> None:
        target.write_bytes(b"x" * (tools.bench.bounds.read_bytes * 3))

    with osfs.inject(before_call("read", grow)):
        result = answer(tools, "read_file", path="a.txt")
    assert result.error_kind == "too_large"


def save(project: Path) -> None:
    (project / "d/a.txt").write_bytes(b"a save\n")


def save_by_rename(project: Path) -> None:
    (project / "d/a.new").write_bytes(b"a save\n")
    os.replace(project / "d/a.new", project / "d/a.txt")


def delete(project: Path) -> None:
    (project / "d/a.txt").unlink()


def put_link(project: Path) -> None:
    delete(project)
    (project / "d/a.txt").symlink_to("../../outside.txt")


def replace_parent(project: Path) -> None:
    (project / "d").rename(project / "d-before")
    (project / "d").mkdir()
    (project / "d/a.txt").write_bytes(INSIDE)


def replace_parent_by_link(project: Path) -> None:
    (project / "d").rename(project / "d-before")
    (project / "d").symlink_to("../outdir")


def move_parent_out(project: Path) -> None:
    (project / "d").rename(project.parent / "moved-out")


MISCHIEF: dict[str, Callable[[Path], None]] = {
    "T12 saved in place": save,
    "T12 saved by rename": save_by_rename,
    "T18 the directory is replaced": replace_parent,
    "T18 the directory becomes a link": replace_parent_by_link,
    "T19 the directory is moved out": move_parent_out,
    "T20 the file is deleted": delete,
    "T20 the file becomes a link": put_link,
}


@pytest.mark.parametrize("name", ["write_file", "edit_file"])
@pytest.mark.parametrize("what", MISCHIEF)
def test_what_happens_while_the_question_is_open_is_never_overwritten(what: str, name: str, tmp_path: Path) -> None:
    place = build(tmp_path / "outside")
    place.file("d/a.txt")
    canary = snapshot(place.outside, skip=place.project)
    with Root.open(place.project) as root, tools_on(root, tmp_path / "state") as tools:
        after: list[dict[str, Any]] = []

        def meanwhile(request: ApprovalRequest) -> Approved:
            MISCHIEF[what](place.project)
            after.append(snapshot(place.outside))
            return Approved(request.preview)

        answer(tools, "read_file", path="d/a.txt")
        tools.answer = meanwhile
        more: dict[str, Any] = {"content": "ours\n"}
        if name == "edit_file":
            more = {"edits": [{"old": "inside", "new": "ours"}]}
        result = answer(tools, name, path="d/a.txt", **more)
    assert result.error_kind in ("stale", "symlink", "outside_project", "not_found"), result.response
    assert result.error_message.endswith((".", "again."))
    assert snapshot(place.outside) == after[0]
    if "moved" not in what:
        assert snapshot(place.outside, skip=place.project) == canary


def test_t17_a_new_file_that_appears_while_the_question_is_open_stays(tools: ToolBench) -> None:
    def meanwhile(request: ApprovalRequest) -> Approved:
        tools.put("new.txt", "theirs\n")
        return Approved(request.preview)

    tools.answer = meanwhile
    assert answer(tools, "write_file", path="new.txt", content="ours\n").error_kind == "stale"
    assert (tools.project / "new.txt").read_text() == "theirs\n"


@pytest.mark.parametrize(
    ("moment", "occurrence"),
    [("exchange", 1), ("rename_noreplace", 1), ("fsync", 1), ("fsync", 4)],
    ids=["T13 before the exchange", "before a creation", "T12 after the last look", "T13 after the backup"],
)
def test_a_save_at_the_last_moment_survives(moment: str, occurrence: int, tools: ToolBench) -> None:
    path = "new.txt" if moment == "rename_noreplace" else "a.txt"
    target = tools.put("a.txt", "old\n").parent / path
    answer(tools, "read_file", path="a.txt")

    def save_now() -> None:
        (tools.project / "theirs").write_text("a save\n")
        os.replace(tools.project / "theirs", target)

    with osfs.inject(before_call(moment, save_now, occurrence)):
        result = answer(tools, "write_file", path=path, content="ours\n")
    assert result.error_kind in ("conflict", "stale"), result.response
    assert target.read_text() == "a save\n"
    kept = [record for record in tools.bench.store.history() if record.status == "kept"]
    assert any(tools.bench.store.read_object(record.intent.old or "") == b"ours\n" for record in kept)


def test_t16_a_late_write_to_the_displaced_file_is_kept_and_told(tools: ToolBench) -> None:
    target = tools.put("a.txt", "old\n")
    answer(tools, "read_file", path="a.txt")
    with target.open("r+b") as editor:  # it has the old file open, and saves in place
        assert answer(tools, "write_file", path="a.txt", content="ours\n").ok
        editor.write(b"late\n")
    assert answer(tools, "write_file", path="b.txt", content="next\n").ok
    kept = [record for record in tools.bench.store.history() if record.status == "kept"]
    assert [tools.bench.store.read_object(record.intent.old or "") for record in kept] == [b"late\n"]
    assert target.read_text() == "ours\n"


# --- several gemcodes at once ---


def test_four_processes_write_audit_and_prune_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    project, state, log = tmp_path / "project", tmp_path / "state", tmp_path / "audit"
    project.mkdir()
    (project / "shared.txt").write_text("0\n")

    def work(number: int) -> None:
        with Root.open(project) as root, tools_on(root, state) as tools:
            tools.registry = ToolRegistry(build_tools(tools.bench), Audit(log, f"s{number}", 20_000), UNLIMITED)
            tools.turn.mode = Mode.ALL
            for count in range(25):
                assert answer(tools, "write_file", path=f"own{number}/{count}.txt", content=f"{number} {count}\n").ok
                answer(tools, "read_file", path="shared.txt")
                answer(tools, "write_file", path="shared.txt", content=f"{number} {count}\n")
                tools.bench.store.prune()

    in_processes(4, work)
    verdict = audit.verify(log)
    assert (verdict.problems, verdict.torn, verdict.unfinished) == ([], 0, 0)
    outcomes = [record for record in audit.read(log) if record["event"] == "outcome"]
    assert len(outcomes) == 4 * 25 * 3
    assert {record.get("error") for record in outcomes} <= {None, "stale", "conflict", "busy"}
    with Root.open(project) as root, tools_on(root, state) as tools:
        assert tools.bench.store.verify().sound
        written = [record for record in tools.bench.store.history() if record.happened]
        assert len(written) == sum(record["ok"] and record["tool"] == "write_file" for record in outcomes)
    for number in range(4):
        assert (project / f"own{number}/24.txt").read_text() == f"{number} 24\n"
    assert not list(project.rglob(names.TEMPORARY_PREFIX + "*"))
