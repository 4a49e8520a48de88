"""The audit log: chained, anchored, shared by processes, and whole after a kill or an error at any call."""

import asyncio
import errno
import json
import os
import shutil
import signal
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode import audit
from gemcode.agent.evidence import canonical
from gemcode.agent.messages import ToolCall, ToolResult
from gemcode.agent.policy import Effect, Mode
from gemcode.agent.registry import Prepared, ToolRegistry, TurnState
from gemcode.agent.tool import ApprovalRequest, Approved
from gemcode.audit import Audit
from gemcode.workspace import locks, osfs
from tests.tools.bench import ToolBench, open_bench
from tests.workspace.ground import Count, in_child, kill

CALL = ToolCall("c", "write_file", {"path": "a.txt", "content": "text"})
DONE = ToolResult("c", "write_file", {"output": {"path": "a.txt"}})


def failed(kind: str, message: str = "no", **more: Any) -> ToolResult:
    return ToolResult("c", "write_file", {"error": {"type": kind, "message": message, **more}})


def pair(log: Audit, call: ToolCall = CALL, result: ToolResult = DONE) -> None:
    log.outcome(log.intents([(call, Effect.WRITE)])[0], call, "approved", result)


@pytest.fixture
def log(tmp_path: Path) -> Audit:
    return Audit(tmp_path / "audit", "s1")


def lines(log: Audit) -> list[bytes]:
    return (log.directory / "audit.jsonl").read_bytes().splitlines(keepends=True)


def rewrite(log: Audit, new: list[bytes]) -> None:
    (log.directory / "audit.jsonl").write_bytes(b"".join(new))


def whole(log: Audit) -> audit.Verdict:
    verdict = audit.verify(log.directory)
    assert verdict.problems == []
    return verdict


# --- what is recorded ---


def test_an_execution_is_an_intent_and_an_outcome_chained_by_hash(log: Audit) -> None:
    pair(log)
    intent, outcome = audit.read(log.directory)
    assert (intent["seq"], intent["event"], intent["tool"], intent["effect"]) == (1, "intent", "write_file", "write")
    assert (outcome["seq"], outcome["event"], outcome["of"]) == (2, "outcome", 1)
    assert (outcome["decision"], outcome["ok"], outcome["result"]) == ("approved", True, "done")
    assert outcome["prev"] == intent["hash"] and intent["prev"] == audit.GENESIS
    assert (intent["session"], intent["pid"]) == ("s1", os.getpid()) and {"time", "monotonic"} <= intent.keys()
    assert whole(log).records == 2


def test_calls_noted_together_are_records_of_their_own_in_one_write(log: Audit) -> None:
    pair(log)
    called: list[str] = []
    with osfs.inject(called.append):
        entries = log.intents((ToolCall(str(n), "read_file", {"path": f"{n}.txt"}), Effect.READ) for n in range(10))
    assert called.count("write") == 2  # the log, and the anchor
    assert list(entries) == list(range(3, 13))
    records = list(audit.read(log.directory))[2:]
    assert [(record["seq"], record["args"]["path"]) for record in records] == [(n + 3, f"{n}.txt") for n in range(10)]
    assert (whole(log).records, whole(log).unfinished) == (12, 10)


def test_contents_are_recorded_by_hash_and_size_however_short(log: Audit) -> None:
    edits = [{"old": "hush", "new": "quiet", "all": True}]
    pair(log, ToolCall("c", "edit_file", {"path": "a.txt", "edits": edits}))
    pair(log)
    text = b"".join(lines(log))
    assert b"hush" not in text and b"quiet" not in text and b'"text"' not in text and b"a.txt" in text
    records = list(audit.read(log.directory))
    assert records[2]["args"]["content"]["bytes"] == 4
    assert records[0]["args"]["edits"][0]["old"]["bytes"] == 4


def test_keys_are_taken_out_by_their_shape(log: Audit) -> None:
    key = "AIza" + "x" * 35
    pair(log, ToolCall("c", f"search {key}", {"pattern": key, key: 1}), failed("io_error", f"with {key}"))
    assert b"AIza" not in b"".join(lines(log)) and b"[removed]" in b"".join(lines(log))


@pytest.mark.parametrize(
    "args",
    [
        {"path": "x" * 1_000_000},
        {"x" * 1_000_000: 1},
        {"list": list(range(100_000))},
        {"path": "lone \ud800 surrogate \x1b[31m \u202e"},
        {"number": float("nan"), "big": 10**400, "bytes": b"raw"},
    ],
    ids=["long value", "long name", "many values", "odd characters", "odd values"],
)
def test_whatever_the_model_sent_is_one_short_line(log: Audit, args: dict[str, Any]) -> None:
    pair(log, ToolCall("c", "x" * 10_000, args))
    assert len(lines(log)) == 2 and all(len(line) < audit.LONGEST_LINE and line.isascii() for line in lines(log))
    assert all(byte >= 0x20 for line in lines(log) for byte in line.rstrip(b"\n"))
    whole(log)


def test_arguments_nested_ten_thousand_deep_are_still_one_line(log: Audit) -> None:
    deep: Any = "x"
    for _ in range(10_000):
        deep = [deep]
    pair(log, ToolCall("c", "list_files", {"path": deep}))
    assert whole(log).records == 2


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (DONE, "done"),
        (ToolResult("c", "x", {"output": "plain"}), "done"),
        (ToolResult("c", "x", {"output": {"durability": "unknown"}}), "unknown"),
        (failed("stale"), "failed"),
        (failed("conflict", written=True), "done"),
        (failed("conflict", written=False), "failed"),
        (failed("timeout"), "unknown"),
        (ToolResult("c", "x", {"error": "only words"}), "failed"),
    ],
)
def test_the_result_has_three_values(log: Audit, result: ToolResult, said: str) -> None:
    pair(log, result=result)
    assert list(audit.read(log.directory))[1]["result"] == said


def test_the_errno_of_a_failure_is_recorded(log: Audit) -> None:
    pair(log, result=failed("io_error", errno=errno.EIO))
    assert list(audit.read(log.directory))[1]["errno"] == errno.EIO


def test_the_log_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        log = Audit(tmp_path / "audit", "s")
        pair(log)
    finally:
        os.umask(before)
    assert stat.S_IMODE(log.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in log.directory.iterdir()} == {0o600}


# --- tampering ---


def edit_a_record(found: list[bytes]) -> list[bytes]:
    return [found[0], found[1].replace(b'"approved"', b'"allowed"'), *found[2:]]


def edit_and_rehash(found: list[bytes]) -> list[bytes]:
    record = json.loads(found[2])
    record["tool"] = "read_file"
    record["hash"] = audit._hash(record)
    return [*found[:2], canonical(record) + b"\n", *found[3:]]


TAMPERED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a record is edited": edit_a_record,
    "a record is edited and hashed again": edit_and_rehash,
    "the last record is edited and hashed again": lambda found: [*found[:-1], *edit_and_rehash([*found[-3:]])[2:]],
    "a record is deleted": lambda found: [*found[:2], *found[3:]],
    "the first record is deleted": lambda found: found[1:],
    "two records are swapped": lambda found: [found[0], found[2], found[1], *found[3:]],
    "a record is repeated": lambda found: [*found[:3], found[2], *found[3:]],
    "the tail is cut": lambda found: found[:-1],
    "all of it is cut": lambda found: [],
    "a record becomes half a record": lambda found: [*found[:2], found[2][:50] + b"\n", *found[3:]],
    "the last record becomes half a record": lambda found: [*found[:-1], found[-1][:50]],
    "a line of something else": lambda found: [*found[:2], b"hello\n", *found[2:]],
    "a line of JSON": lambda found: [*found[:2], b'{"args":{},"seq":3}\n', *found[2:]],
    "a line of ten megabytes": lambda found: [*found[:2], b"x" * 10_000_000 + b"\n", *found[2:]],
    "a record without a proper number": lambda found: [found[0].replace(b'"seq":1', b'"seq":"1"'), *found[1:]],
    "a hash that is none": lambda found: [*found[:-1], found[-1].replace(b'"prev":"', b'"prev":"x')],
    "nested deeply": lambda found: [*found, b'{"args":' + b"[" * 30_000 + b"]" * 30_000 + b"}\n"],
}


@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_is_detected_and_stays_so_after_further_records(log: Audit, how: str) -> None:
    for _ in range(3):
        pair(log)
    rewrite(log, TAMPERED[how](lines(log)))
    assert audit.verify(log.directory).problems
    list(audit.read(log.directory))  # does not fall over it
    pair(log)
    pair(log)
    assert audit.verify(log.directory).problems


def test_a_missing_file_in_the_middle_and_a_missing_anchor_are_detected(tmp_path: Path) -> None:
    log = Audit(tmp_path / "audit", "s", rotate_bytes=2000)
    for _ in range(20):
        pair(log)
    rotated = sorted(log.directory.glob("audit-*.jsonl"))
    assert len(rotated) > 3 and whole(log).records == 40
    (log.directory / "audit.head").rename(tmp_path / "head")
    assert "audit.head" in audit.verify(log.directory).problems[0]
    (tmp_path / "head").rename(log.directory / "audit.head")
    rotated[1].unlink()
    (problem,) = audit.verify(log.directory).problems
    assert "missing" in problem and rotated[2].name in problem


def test_the_whole_log_deleted_is_noticed_as_long_as_the_anchor_is_there(log: Audit) -> None:
    pair(log)
    (log.directory / "audit.jsonl").unlink()
    pair(log)
    (problem,) = audit.verify(log.directory).problems
    assert "records 1 to 2 are missing" in problem


def test_nothing_is_a_whole_log(tmp_path: Path) -> None:
    assert audit.verify(tmp_path / "none") == audit.Verdict()
    assert list(audit.read(tmp_path / "none")) == []
    assert not (tmp_path / "none").exists()


def test_links_in_the_place_of_the_log_are_not_followed(log: Audit, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    log.directory.mkdir()
    (log.directory / "audit.jsonl").symlink_to(victim)
    with pytest.raises(OSError):
        pair(log)
    with pytest.raises(OSError):
        audit.verify(log.directory)
    (log.directory / "audit.jsonl").unlink()
    (log.directory / "audit.head").symlink_to(victim)
    with pytest.raises(OSError):
        pair(log)
    shutil.rmtree(log.directory)
    log.directory.symlink_to(tmp_path)
    with pytest.raises(OSError):
        pair(log)
    assert victim.read_text() == "mine\n"


@given(damage=st.binary(max_size=300), place=st.floats(0, 1), cut=st.integers(0, 400))
def test_any_damage_is_survived_by_the_next_append_and_by_the_check(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes, place: float, cut: int
) -> None:
    log = Audit(tmp_path_factory.mktemp("damaged") / "audit", "s")
    for _ in range(3):
        pair(log)
    data = b"".join(lines(log))
    at = int(place * len(data))
    changed = data[:at] + damage + data[at + cut :]
    rewrite(log, [changed])
    audit.verify(log.directory)
    pair(log)
    verdict = audit.verify(log.directory)
    good = [line for line in changed.splitlines() if line + b"\n" in data.splitlines(keepends=True)]
    if verdict.problems == []:  # then every record is there, each in its place
        assert len(good) == 6 and verdict.records == 8


# --- kills, errors, locks ---


def test_a_kill_at_any_call_leaves_a_whole_log(tmp_path: Path) -> None:
    number, records, killed = 0, set[int](), True
    while killed:
        number += 1
        log = Audit(tmp_path / str(number), "s", rotate_bytes=500)
        pair(log)
        pair(log)

        def work(log: Audit = log, number: int = number) -> None:
            with osfs.inject(Count(number, kill)):
                pair(log)

        status = in_child(work)
        assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL
        killed = status != 0
        verdict = whole(log)
        records.add(verdict.records)
        assert verdict.records - 4 in (0, 1, 2) and verdict.torn == 0
        assert verdict.unfinished == (verdict.records == 5)
        pair(log)
        assert whole(log).records == verdict.records + 2
    assert number > 30 and records == {4, 5, 6}


def test_a_line_torn_at_any_byte_is_sealed_and_not_taken_for_tampering(log: Audit) -> None:
    pair(log)
    complete, anchor = lines(log), (log.directory / "audit.head").read_bytes()
    pair(log)
    third = lines(log)[2]
    for length in range(len(third)):
        rewrite(log, [*complete, third[:length]])
        (log.directory / "audit.head").write_bytes(anchor)
        assert whole(log).records == (3 if length == len(third) - 1 else 2)
        pair(log)
        verdict = whole(log)
        assert verdict.torn == (0 < length < len(third) - 1), length
        assert lines(log)[2].rstrip(b"\n") == third[:length] or length == 0  # sealed, never rewritten


def test_empty_lines_mean_nothing(log: Audit) -> None:
    pair(log)
    rewrite(log, [b"\n\n", *lines(log), b"\n"])
    pair(log)
    assert whole(log).records == 4


def test_a_record_that_is_just_too_deep_to_hash_is_an_altered_one(log: Audit) -> None:
    pair(log)
    found = lines(log)
    for depth in range(900, 1010, 3):  # about as deep as the interpreter goes
        deep = b"[" * depth + b"]" * depth
        rewrite(log, [found[0], found[1].replace(b'"approved"', deep)])
        assert audit.verify(log.directory).problems


def test_zeros_left_by_a_power_cut_are_a_torn_line(log: Audit) -> None:
    pair(log)
    rewrite(log, [*lines(log), b"\0" * 300])
    assert whole(log).torn == 1
    pair(log)
    assert whole(log).records == 4


def test_many_torn_lines_do_not_hide_the_last_record(log: Audit) -> None:
    pair(log)
    rewrite(log, [*lines(log), *[b'{"args":' + b"x" * 60_000 + b"\n"] * 40])
    pair(log)
    assert whole(log).records == 4


CODES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE, errno.EDQUOT, errno.EACCES)


@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_an_error_at_any_call_is_raised_or_harmless_and_the_log_stays_whole(tmp_path: Path, code: int) -> None:
    def fail() -> None:
        raise OSError(code, os.strerror(code))

    number, raised = 0, 0
    while True:
        number += 1
        log = Audit(tmp_path / str(number), "s", rotate_bytes=500)
        pair(log)
        pair(log)
        count = Count(number, fail)
        before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
        with osfs.inject(count):
            try:
                log.intents([(CALL, Effect.WRITE)])
            except OSError as error:
                assert error.errno == code
                raised += 1
        if before:
            assert len(os.listdir("/proc/self/fd")) == before
        whole(log)
        pair(log)
        whole(log)
        if not count.fired:
            break
    assert raised > 8


def test_a_full_disk_leaves_a_torn_line_that_the_next_record_survives(log: Audit) -> None:
    pair(log)
    rewrite(log, [*lines(log), b'{"args":{"path":'])  # the part of a short write that had room
    with pytest.raises(OSError), osfs.inject(Count(7, lambda: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))):
        log.intents([(CALL, Effect.WRITE)])
    pair(log)
    verdict = whole(log)
    assert (verdict.records, verdict.torn) == (4, 1)


def append_many(log: Audit, count: int) -> None:
    for _ in range(count):
        pair(log)


def in_processes(processes: int, work: Callable[[int], None]) -> None:
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(number)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * processes


@pytest.mark.parametrize("rotate_bytes", [audit.ROTATE_BYTES, 100_000], ids=["one file", "rotated under load"])
def test_four_processes_append_a_thousand_records_each_and_no_link_breaks(tmp_path: Path, rotate_bytes: int) -> None:
    directory = tmp_path / "audit"
    in_processes(4, lambda number: append_many(Audit(directory, f"s{number}", rotate_bytes), 500))
    verdict = audit.verify(directory)
    assert (verdict.problems, verdict.records, verdict.torn, verdict.unfinished) == ([], 4000, 0, 0)
    sessions = [record["session"] for record in audit.read(directory)]
    assert {name: sessions.count(name) for name in set(sessions)} == {f"s{number}": 1000 for number in range(4)}
    assert (len(list(directory.glob("audit-*"))) > 3) == (rotate_bytes == 100_000)


def test_a_check_at_any_moment_of_the_first_records_finds_nothing_wrong(log: Audit) -> None:
    def check(_: str) -> None:
        with osfs.inject(lambda _: None):
            assert audit.verify(log.directory).problems == []

    with osfs.inject(check):
        pair(log)


def test_a_record_that_comes_first_between_two_looks_of_a_check_finds_nothing_wrong(log: Audit) -> None:
    log.directory.mkdir()
    seen = 0
    while seen is not None:
        at, seen = seen + 1, None
        for file in log.directory.iterdir():
            file.unlink()
        count = Count(at, lambda: pair(Audit(log.directory, "s")))
        with osfs.inject(count):
            assert audit.verify(log.directory).problems == []
        seen = at if count.fired else None


def test_a_check_during_appends_and_rotations_finds_nothing_wrong(tmp_path: Path) -> None:
    directory = tmp_path / "audit"

    def check_or_append(number: int) -> None:
        if number:
            append_many(Audit(directory, "s", 5_000), 300)
        else:
            for _ in range(60):
                assert audit.verify(directory).problems == []

    in_processes(3, check_or_append)


def test_killed_processes_leave_a_whole_log(tmp_path: Path) -> None:
    log = Audit(tmp_path / "audit", "s", rotate_bytes=20_000)
    for round_ in range(15):
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                append_many(log, 100_000)
            children.append(child)
        while audit.verify(log.directory).records < 40 * (round_ + 1):
            pass
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        whole(log)


def test_a_stopped_process_that_holds_the_lock_stops_nobody_for_ever(
    log: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 0.05)
    pair(log)
    with audit._opened(log.directory) as folder, audit._locked(folder):
        with pytest.raises(OSError, match="another gemcode"):
            log.intents([(CALL, Effect.WRITE)])
        assert whole(log).records == 2


def test_without_locks_on_the_file_system_it_still_writes(log: Audit) -> None:
    def no_locks(operation: str) -> None:
        if operation == "flock":
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with osfs.inject(no_locks):
        pair(log)
    assert whole(log).records == 2


# --- cost ---


def test_an_append_reads_the_tail_only_and_flushes_nothing(log: Audit) -> None:
    for _ in range(50):
        pair(log)
    for appending, reads in ((Audit(log.directory, "other"), 2), (log, 2), (log, 0)):  # the last was the last to write
        count = Count(0, lambda: None)
        with osfs.inject(count):
            appending.intents([(CALL, Effect.WRITE)])
        assert count.names.count("read") == reads and "fsync" not in count.names and len(count.names) <= 20, count.names
    assert whole(log).records == 103


@pytest.mark.parametrize("change", ["cut", "removed", "replaced"])
def test_a_log_that_is_not_as_it_was_left_is_read_again(log: Audit, change: str) -> None:
    pair(log)
    pair(log)
    file = log.directory / "audit.jsonl"
    data = file.read_bytes()
    file.unlink()
    if change != "removed":
        file.write_bytes(data if change == "replaced" else data[: data.rfind(b"\n", 0, -1) + 1])
    log.intents([(CALL, Effect.WRITE)])
    found = audit.verify(log.directory)
    assert bool(found.problems) is (change != "replaced")


def test_a_check_streams(log: Audit) -> None:
    pair(log)
    with (log.directory / "audit.jsonl").open("ab") as file:
        for _ in range(200):
            file.write(b'{"args":' + b"x" * 60_000 + b"\n")
    tracemalloc.start()
    try:
        audit.verify(log.directory)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


# --- through the registry ---


def call_with(bench: ToolBench, registry: ToolRegistry, name: str, **args: Any) -> ToolResult:
    async def approve(request: ApprovalRequest) -> Approved:
        return Approved(request.preview)

    async def run() -> ToolResult:
        turn = TurnState(Mode.ASK, approve)
        ready = await registry.prepare(ToolCall("c", name, args), turn)
        return (await registry.start([ready], turn)[ready.call.id])[0] if isinstance(ready, Prepared) else ready.result

    return asyncio.run(run())


def test_every_execution_and_every_refusal_is_in_the_log(tools: ToolBench, log: Audit) -> None:
    from gemcode.tools import build_tools

    registry = ToolRegistry(build_tools(tools.bench), log)
    call_with(tools, registry, "write_file", path="a.txt", content="one\n")
    call_with(tools, registry, "read_file", path="../a.txt")
    call_with(tools, registry, "read_fiel", path="a.txt")
    call_with(tools, registry, "read_file", file="a.txt")
    outcomes = [record for record in audit.read(log.directory) if record["event"] == "outcome"]
    assert [record["decision"] for record in outcomes] == ["approved", "refused", "invalid", "invalid"]
    assert [record.get("error") for record in outcomes] == [
        None,
        "outside_project",
        "unknown_tool",
        "invalid_arguments",
    ]
    assert whole(log).unfinished == 0


def test_without_an_audit_log_writes_are_refused_and_reads_go_on(tools: ToolBench, log: Audit) -> None:
    from gemcode.tools import build_tools

    tools.put("a.txt", "one\n")
    registry = ToolRegistry(build_tools(tools.bench), log)

    log.directory.write_text("a file where the directory should be")
    assert call_with(tools, registry, "read_file", path="a.txt").ok
    refused = call_with(tools, registry, "write_file", path="b.txt", content="x\n")
    assert refused.error_kind == "audit" and "audit log" in refused.error_message
    assert not (tools.project / "b.txt").exists()
    log.directory.unlink()
    assert call_with(tools, registry, "write_file", path="b.txt", content="x\n").ok


@pytest.mark.parametrize("digits", [19, 20, 4300])
def test_a_forged_number_does_not_end_the_log(tools: ToolBench, log: Audit, digits: int) -> None:
    from gemcode.tools import build_tools

    registry = ToolRegistry(build_tools(tools.bench), log)
    assert call_with(tools, registry, "write_file", path="a.txt", content="one\n").ok
    number, nothing = "9" * digits, "0" * 64
    with (log.directory / "audit.jsonl").open("a") as file:
        file.write(f'{{"seq":{number},"prev":"{nothing}","hash":"{nothing}"}}\n')
    assert call_with(tools, registry, "write_file", path="b.txt", content="two\n").ok
    assert audit.verify(log.directory).problems


@pytest.fixture
def tools(tmp_path: Path) -> Any:
    with open_bench(tmp_path) as bench:
        yield bench
