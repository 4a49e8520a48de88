"""Measurements inside one process, beside their floors: `python -m bench.inside NAME ROUNDS [SIZE…]` prints JSON.

Each runs in a process of its own, so that the benchmark itself stays small and nothing is measured warm by accident.
"""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gemcode import app
from gemcode.agent.messages import ModelMessage, ToolCall, ToolMessage, ToolResult, Usage, UserMessage
from gemcode.agent.policy import Mode
from gemcode.agent.registry import Prepared, TurnState
from gemcode.agent.session import SessionStore
from gemcode.agent.tool import decline_unasked
from gemcode.agent.transcript import CallEnded, Committed, StepTaken
from gemcode.terminal.diffview import draw_all
from gemcode.terminal.view import marks_for
from gemcode.tools.list_files import ListFilesArguments, list_files
from gemcode.workspace.diff import unified
from gemcode.workspace.listing import ListingLimits, walk_files
from gemcode.workspace.listing import list_files as listing_of

Times = dict[str, list[float]]
MEGABYTE = 1024 * 1024


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory with a state directory beside it, gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="bench-inside-"))
    os.environ["GEMCODE_HOME"] = str(home / "gemcode")
    project = home / "project"
    project.mkdir()
    try:
        yield project
    finally:
        shutil.rmtree(home)


@contextmanager
def opened(directory: Path) -> Iterator[app.Project]:
    options = app.Options(project=directory)
    with app.open_project(app.load_settings(options), "bench") as project:
        yield project


def make_tree(directory: Path, files: int) -> None:
    """Half of the files are ignored: a quarter in directories that are never entered, a quarter by their names."""
    subprocess.run(["git", "init", "-q", str(directory)], check=True)
    (directory / ".gitignore").write_text(
        "node_modules/\n*.o\n/build\n!keep.o\n# a comment\n.cache/\n", encoding="utf-8"
    )
    for number in range(files // 100):
        folder = directory / f"pkg{number % 20:02d}" / f"mod{number:04d}"
        hidden = folder / "node_modules"
        hidden.mkdir(parents=True)
        for index in range(25):
            for path in (
                folder / f"s{index}.py",
                folder / f"t{index}.txt",
                folder / f"s{index}.o",
                hidden / f"{index}.js",
            ):
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def listing(rounds: int, files: int) -> Times:
    """A bounded page, and a walk over everything, beside git, rg and the same number of bare scandir entries."""
    times: Times = {"page": [], "whole": [], "git": [], "rg": [], "scandir": []}
    with scratch() as directory:
        make_tree(directory, files)
        with opened(directory) as project:
            run = list_files(project.bench).run
            git = ["git", "-C", str(directory), "ls-files", "-co", "--exclude-standard", "-z"]
            expected = subprocess.run(git, check=True, capture_output=True).stdout.decode().split("\0")[:-1]
            limits = ListingLimits(seconds=60.0, depth=64)
            found = [one.path for one in walk_files(project.root, limits=limits)]
            if found != sorted(expected):
                raise SystemExit("the listing is not git's")
            for _ in range(rounds):
                times["git"].append(timed(lambda: subprocess.run(git, check=True, stdout=subprocess.DEVNULL)))
                times["page"].append(timed(lambda: run(ListFilesArguments(), None)))
                times["scandir"].append(timed(lambda: sum(len(names) for _, _, names in os.walk(directory))))
                times["whole"].append(timed(lambda: listing_of(project.root, pattern="*.nothing", limits=limits)))
                if rg := shutil.which("rg"):
                    command = [rg, "--files", "--sort", "path", "--hidden", str(directory)]
                    times["rg"].append(timed(partial(subprocess.run, command, stdout=subprocess.DEVNULL)))
    return times


def numbered_lines(count: int, seed: int, changes: int = 0) -> bytes:
    """Lines of about 52 bytes; the same seed gives the same text, with `changes` lines replaced, added or removed."""
    source = random.Random(seed)
    lines = [f"{number:06d} {source.getrandbits(160):040x} end\n" for number in range(count)]
    for index, place in enumerate(random.Random(changes).sample(range(count), changes)):
        changed = f"{place:06d} changed here {changes}\n"
        lines[place] = (changed, lines[place] + changed, "")[index % 3]
    return "".join(lines).encode()


def writing(rounds: int, _: int) -> Times:
    """write_file of 1 MB with all that belongs to it, beside a copy, fsync and rename in bare Python."""
    times: Times = {"write_file": [], "floor": []}
    with scratch() as directory:
        plain, backup = directory / "plain.txt", directory / "backup"
        backup.mkdir()
        plain.write_bytes(numbered_lines(19_900, 0))
        with opened(directory) as project:
            for number in range(rounds):
                data = numbered_lines(19_900, 1, number % 60)
                times["floor"].append(timed(partial(_bare_write, plain, backup, number, data)))
                call = ToolCall(f"c{number}", "write_file", {"path": "file.txt", "content": data.decode()})
                times["write_file"].append(timed(partial(asyncio.run, _write(project, call))))
    return times


async def _write(project: app.Project, call: ToolCall) -> None:
    turn = TurnState(Mode.ALL, decline_unasked)
    prepared = await project.registry.prepare(call, turn)
    if not isinstance(prepared, Prepared):
        raise SystemExit(str(prepared.result.response))
    result, _ = await project.registry.start([prepared], turn)[call.id]
    if not result.ok:
        raise SystemExit(result.error_message)


def _bare_write(path: Path, backup: Path, number: int, data: bytes) -> None:
    """The least that deserves the name of a safe write: a durable backup, a durable new file, a rename."""
    _durable(backup / str(number), path.read_bytes())
    temporary = path.with_suffix(".new")
    _durable(temporary, data)
    os.rename(temporary, path)


def _durable(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, data)
    os.fsync(descriptor)
    os.close(descriptor)


def diff(rounds: int, lines: int) -> Times:
    """The confirm screen's diff, made from bytes and drawn whole, beside git's."""
    times: Times = {"shown": [], "git": [], "python": []}
    before, after = numbered_lines(lines, 1), numbered_lines(lines, 1, 50)
    with scratch() as directory:
        old, new = directory / "old", directory / "new"
        old.write_bytes(before)
        new.write_bytes(after)
        command = ["git", "diff", "--no-index", "--no-color", str(old), str(new)]
        marks = marks_for(unicode=True)
        for _ in range(rounds):
            times["git"].append(timed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL)))
            times["python"].append(timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)))
            times["shown"].append(timed(lambda: list(draw_all(unified(before, after), 100, marks))))
    return times


def session(rounds: int, steps: int) -> Times:
    """Load a session of so many tool steps, each with 2 KB of result, beside reading its JSON lines."""
    times: Times = {"load": [], "floor": []}
    with scratch() as directory:
        store = SessionStore(directory)
        made = store.create()
        made.record(Committed(UserMessage.of("hello")))
        for number in range(steps):
            args = {"path": f"src/file{number}.py", "start_line": number + 1}
            raw = {
                "functionCall": {"id": f"c{number}", "name": "read_file", "args": args},
                "thoughtSignature": "c2ln" * 24,
            }
            call = ToolCall(f"c{number}", "read_file", args, "c2ln" * 24, raw)
            result = ToolResult(call.id, call.name, {"output": {"content": f"{number} " + "x" * 2000}})
            made.record(StepTaken("gemini-3.8-flash", Usage(1000, 0, 20, 0, 0, 1020), 0.001, "STOP", 12.5))
            made.record(Committed(ModelMessage((call,))))
            made.record(CallEnded(call.id, call.name, f"src/file{number}.py", True, "", 1.5, 2000))
            made.record(Committed(ToolMessage((result,))))
        made.close()
        path = directory / f"{made.id}.jsonl"
        for _ in range(rounds):
            times["floor"].append(timed(lambda: [json.loads(line) for line in path.read_bytes().splitlines()]))
            times["load"].append(timed(lambda: store.resume(made.id).close()))
    return times


MEASUREMENTS = {"listing": listing, "writing": writing, "diff": diff, "session": session}

if __name__ == "__main__":
    name, number, *size = sys.argv[1:]
    print(json.dumps(MEASUREMENTS[name](int(number), int(size[0]) if size else 0)))
