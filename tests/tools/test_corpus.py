"""Every path row of the plan through the five tools and both resolvers: no escape, no traceback, nothing outside
changed; and the rows about contents, denial and names that need a question."""

import errno
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gemcode.agent.bounds import Bounds
from gemcode.agent.policy import Mode, Sensitivity
from gemcode.agent.registry import ToolRegistry
from gemcode.audit import Audit
from gemcode.tools import build_tools
from gemcode.workspace import names, osfs
from gemcode.workspace.names import NameClass
from gemcode.workspace.root import Root
from tests.tools.bench import ToolBench, open_bench
from tests.tools.operations import TOOL_OPERATIONS, answer, memory, tools_on
from tests.workspace import mounted
from tests.workspace.corpus import ROWS, Place, Row, build
from tests.workspace.operations import Resolver, build_and_run
from tests.workspace.test_corpus import RESOLVERS, has_openat2, make_device


@pytest.fixture
def ground() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory()) as directory:
        yield Path(directory)


def expected(row: Row, name: str) -> set[str]:
    answers = set(row.expected(name))
    if "invalid_path" in answers:
        answers.add("invalid_arguments")  # what is not even a string is refused by the schema
    if row.hook is not None:
        answers |= {"stale", "conflict"}  # a write looks more often than the hook's one moment
    return answers


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("row", [row for row in ROWS if row.needs != "mounts"], ids=lambda row: row.id)
def test_a_path_is_answered_as_planned_by_every_tool(row: Row, resolver: Resolver, ground: Path) -> None:
    if row.needs == "fuse":
        pytest.skip("a stalling file system needs FUSE; the time limit of a tool call is what bounds it")
    if row.needs == "device":
        try:
            make_device(ground / "devices")
        except PermissionError:
            pytest.skip("only root can make device files")
    if resolver == "openat2" and not has_openat2():
        pytest.skip("this kernel has no openat2, or a filter refuses it")
    for name in row.operations:
        outcome = build_and_run(row, resolver, name, TOOL_OPERATIONS[name], ground / name)
        assert outcome in expected(row, name), f"{row.id} {name}: {outcome}"


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_mounts_inside_are_the_users_but_the_kernels_are_refused(resolver: Resolver, tmp_path: Path) -> None:
    table = "tests.tools.operations:TOOL_OPERATIONS"
    command = [sys.executable, "-m", mounted.__name__, table, resolver, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    if done.returncode == mounted.CAN_NOT:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)["outcomes"]
    for row in (row for row in ROWS if row.needs == "mounts"):
        for name in row.operations:
            assert outcomes[f"{row.id} {name}"] in expected(row, name), (row.id, name, outcomes)


# --- who is asked, by the class of a name ---

SENSITIVITY = {
    NameClass.SECRET: Sensitivity.SECRET,
    NameClass.RUNS_LATER: Sensitivity.RUNS_LATER,
    NameClass.ORDINARY: Sensitivity.ORDINARY,
}
WRITABLE = [row for row in ROWS if row.write == "ok" and row.needs == "" and row.hook is None and row.operations]


@contextmanager
def tools_for(row: Row, ground: Path) -> Iterator[tuple[Place, ToolBench]]:
    place = build(ground / "place")
    row.setup(place)
    with Root.open(row.root(place)) as root, tools_on(root, ground / "state") as tools:
        row.after_open(place)
        yield place, tools
        place.outside.chmod(0o755)


@pytest.mark.parametrize("row", WRITABLE, ids=lambda row: row.id)
def test_a_write_is_asked_for_by_the_class_of_its_name(row: Row, ground: Path) -> None:
    kind = Sensitivity.RUNS_LATER if row.bare else SENSITIVITY[row.name_class]
    with tools_for(row, ground) as (place, tools):
        path = row.given(place)
        answer(tools, "read_file", path=path)
        tools.turn.mode, tools.turn.granted = Mode.EDITS, True
        tools.asked.clear()
        assert answer(tools, "write_file", path=path, content="one\n").ok
        assert [request.preview.sensitivity for request in tools.asked] == ([] if kind == "ordinary" else [kind])
        if kind != "ordinary":
            assert getattr(tools.asked[0].preview, "why", "")


@pytest.mark.parametrize("row", [row for row in WRITABLE if row.read == "ok"], ids=lambda row: row.id)
def test_reading_asks_for_secrets_and_for_nothing_else(row: Row, ground: Path) -> None:
    with tools_for(row, ground) as (place, tools):
        answer(tools, "read_file", path=row.given(place))
        assert len(tools.asked) == (row.name_class is NameClass.SECRET)


@pytest.mark.parametrize("row", [row for row in ROWS if row.name_class is NameClass.NEVER], ids=lambda row: row.id)
def test_a_protected_name_is_refused_in_every_mode_and_nobody_is_asked(row: Row, ground: Path) -> None:
    with tools_for(row, ground) as (place, tools):
        for mode in Mode:
            tools.turn.mode = mode
            for name in ("list", "read", "write"):
                args = {"content": "x\n"} if name == "write" else {}
                tool = {"list": "list_files", "read": "read_file", "write": "write_file"}[name]
                result = answer(tools, tool, path=row.given(place), **args)
                assert result.error_kind in {*expected(row, name), "denied"}
        assert tools.asked == []


# --- F: contents ---

CAP = Bounds().read_bytes


@dataclass(frozen=True)
class Content:
    """A file, one call, and what comes of it: "ok" with the file's new bytes, or the kind of a refusal."""

    id: str
    before: bytes
    call: dict[str, Any]
    expect: str
    after: bytes | None = None


def edited(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"edits": [{"old": old, "new": new, **more}]}


CONTENTS = (
    Content("F1 empty", b"", {"content": "a\n"}, "ok", b"a\n"),
    Content("F2 no final newline", b"a\nb", edited("a", "x"), "ok", b"x\nb"),
    Content("F3 CRLF", b"a\r\nb\r\n", edited("a\nb", "a\nx\nb"), "ok", b"a\r\nx\r\nb\r\n"),
    Content("F4 mixed line ends", b"a\r\nb\nc\rd\n", edited("b", "x"), "ok", b"a\r\nx\nc\rd\n"),
    Content("F5 BOM", b"\xef\xbb\xbfa\n", edited("a", "x"), "ok", b"\xef\xbb\xbfx\n"),
    Content("F6 UTF-16", b"\xff\xfea\0\n\0", edited("a", "x"), "ok", b"\xff\xfex\0\n\0"),
    Content("F7 Latin-1", b"a\xe9\nb\n", edited("b", "x"), "ok", b"a\xe9\nx\n"),
    Content("F7 not in Latin-1", b"a\xe9\nb\n", edited("b", "\u20ac"), "encoding"),
    Content("F8 binary", b"\0\1\2", edited("a", "x"), "not_read|binary"),
    Content("F10 as large as allowed", b"a" + b"\n" * (CAP - 1), edited("a", "x"), "ok", b"x" + b"\n" * (CAP - 1)),
    Content("F11 a byte more", b"a" + b"\n" * CAP, edited("a", "x"), "too_large"),
    Content("F12 one long line", b"a" * (CAP - 1), {"content": "x"}, "not_read"),
    Content("F27 no match", b"a\n", edited("b", "x"), "no_match"),
    Content("F28 two matches", b"a\na\n", edited("a", "x"), "many_matches"),
    Content(
        "F29 overlapping edits",
        b"abc\n",
        {"edits": [{"old": "ab", "new": "x"}, {"old": "bc", "new": "y"}]},
        "overlapping_edits",
    ),
    Content("F29 a match that overlaps itself", b"aaa\n", edited("aa", "x"), "many_matches"),
    Content("F30 empty old text", b"a\n", edited("", "x"), "empty_old"),
    Content("F31 old is new", b"a\n", edited("a", "a"), "no_change"),
    Content("F32 other line ends only", b"a\nb\n", edited("a\r\nb", "x"), "no_match|ok"),
    Content("F33 no content", b"a\n", {}, "invalid_arguments"),
    Content("F34 content is no text", b"a\n", {"content": 5}, "invalid_arguments"),
    Content("F35 lone surrogate", b"a\n", {"content": "\ud800"}, "invalid_arguments|encoding"),
    Content("F36 nine megabytes", b"a\n", {"content": "x" * (9 << 20)}, "too_large"),
)


@pytest.mark.parametrize("row", CONTENTS, ids=lambda row: row.id)
def test_a_content_is_kept_byte_for_byte_or_the_change_is_refused(row: Content, tools: ToolBench) -> None:
    target = tools.put("file.txt", row.before)
    answer(tools, "read_file", path="file.txt")
    name = "edit_file" if "edits" in row.call else "write_file"
    result = answer(tools, name, path="file.txt", **row.call)
    outcome = "ok" if result.ok else result.error_kind
    assert outcome in row.expect.split("|"), result.response
    if outcome != "ok":
        assert target.read_bytes() == row.before
    elif row.after is not None:
        assert target.read_bytes() == row.after


FAULTS = {"F22 read-only": errno.EROFS, "F23 no space": errno.ENOSPC, "F24 quota": errno.EDQUOT, "I/O error": errno.EIO}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_disk_is_one_sentence_and_the_old_file_stays(fault: str, tools: ToolBench) -> None:
    target = tools.put("file.txt", "old\n")
    answer(tools, "read_file", path="file.txt")

    def fail(call: str) -> None:
        if call == "write":
            raise OSError(FAULTS[fault], os.strerror(FAULTS[fault]))

    with osfs.inject(fail):
        result = answer(tools, "write_file", path="file.txt", content="new\n")
    assert not result.ok and result.error_message.endswith(".") and "Errno" not in result.error_message
    assert target.read_text() == "old\n" and os.listdir(tools.project) == ["file.txt"]


# --- D: denial ---


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|aa)+$", "(.*)*x", "((a+)+)+$", "a{1,1000}" * 3, "(" * 500 + ")" * 500]
)
def test_d6_an_evil_pattern_is_answered(pattern: str, tools: ToolBench) -> None:
    tools.put("a.txt", "a" * 200_000 + "!\n")
    result = answer(tools, "search_files", pattern=pattern)
    assert result.ok or result.error_kind == "invalid_pattern"


def test_d10_thousands_of_calls_in_one_reply_are_answered_and_recorded(tools: ToolBench, tmp_path: Path) -> None:
    tools.put("a.txt", "x\n")
    tools.registry = ToolRegistry(build_tools(tools.bench), Audit(tmp_path / "audit", "s"))
    results = [tools.call("no_such_tool" if number % 2 else "read_file", path="a.txt") for number in range(2_000)]
    assert sum(result.ok for result in results) == 100
    assert {result.error_kind for result in results[200:]} == {"limit"}


def test_d14_without_a_free_file_descriptor_a_tool_says_so(tools: ToolBench) -> None:
    tools.put("a.txt", "x\n")
    answer(tools, "read_file", path="a.txt")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    call = _prepared(tools)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(64, len(os.listdir("/dev/fd")) + 20), hard))
        with pytest.raises(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        kinds = [call(name) for name in ("read_file", "list_files", "search_files", "write_file")]
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert kinds == ["io_error"] * 4 and (tools.project / "a.txt").read_text() == "x\n"
    assert answer(tools, "read_file", path="a.txt").ok


def _prepared(tools: ToolBench) -> Callable[[str], str]:
    """Call a tool's own functions: an event loop needs file descriptors of its own."""
    from gemcode.agent.errors import ToolError

    made = {tool.name: tool for tool in build_tools(tools.bench)}
    more = {"search_files": {"pattern": "x"}, "write_file": {"content": "y\n"}}

    def call(name: str) -> str:
        tool = made[name]
        path = "." if name in ("list_files", "search_files") else "a.txt"
        try:
            arguments = tool.arguments.model_validate({"path": path, **more.get(name, {})})
            tool.run(arguments, tool.preview(arguments))
        except ToolError as error:
            return error.kind
        except OSError:
            return "io_error"  # as the registry says it
        return "ok"

    return call


@pytest.mark.soak
@pytest.mark.parametrize(("what", "count"), [("D2 files", 1_000_000), ("D3 links", 110_000)])
def test_a_huge_directory_is_listed_in_bounds(what: str, count: int, tmp_path: Path) -> None:
    with open_bench(tmp_path) as tools:
        directory = os.open(tools.project, os.O_RDONLY)
        for number in range(count):
            if what == "D3 links":
                os.symlink("../outside", f"l{number}", dir_fd=directory)
            else:
                os.close(os.open(f"f{number}", os.O_WRONLY | os.O_CREAT, dir_fd=directory))
        os.close(directory)
        for name, args in (("list_files", {}), ("search_files", {"pattern": "x"})):
            output = answer(tools, name, **args).response["output"]
            assert output.get("notes") or output.get("more")


def test_names_are_shown_only_in_a_form_that_can_be_given_back(tools: ToolBench) -> None:
    for name in (b"caf\xe9", b"two\nlines", b"\x1b[31m", b"a:b", b"a\\b", b"handle:x"):
        (Path(os.fsdecode(os.fsencode(tools.project) + b"/" + name))).write_text("found\n")
    shown = tools.output("list_files")["files"]
    assert len(shown) == 6 and all(name.startswith(names.HANDLE_PREFIX) and name.isprintable() for name in shown)
    for name in shown:
        assert tools.output("read_file", path=name)["content"] == "found\n"
    assert {match["path"] for match in tools.output("search_files", pattern="found")["matches"]} == set(shown)
