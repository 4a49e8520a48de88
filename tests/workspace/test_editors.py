"""Editors that save without pause while gemcode writes the same file: not one of their versions may be lost.

Every save is a content of its own. The editor notes each content that it replaced itself; all others must be found at
the path or in the store.
"""

import ctypes
import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs
from tests.workspace.ground import Ground, Session

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the editors below exchange names to see what they replaced"
)


def version(number: int, style: str) -> bytes:
    return f"{style} save {number}\n".encode() * (1 + number % 50)


def save_by_rename(path: Path, data: bytes, notes: list[bytes]) -> None:
    """As an editor does it; exchange instead of rename, only to learn what was replaced."""
    other = path.with_name("editor-swap")
    other.write_bytes(data)
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        osfs.exchange(fd, other.name, fd, path.name)
        notes.append(other.read_bytes())
        other.unlink()
    finally:
        os.close(fd)


def save_in_place(path: Path, data: bytes, notes: list[bytes]) -> None:
    """As `open("w")` does it, with a look at what is about to be cut off."""
    fd = os.open(path, os.O_RDWR)
    try:
        notes.append(os.read(fd, 1 << 20))
        os.ftruncate(fd, 0)
        os.pwrite(fd, data, 0)
    finally:
        os.close(fd)


STYLES = {"rename": save_by_rename, "in place": save_in_place}


def edit_forever(path: Path, style: str, saves: int, notes: Path) -> None:
    """The editor's process: all its saves, then what it replaced, one hash a line."""
    replaced: list[bytes] = []
    for number in range(saves):
        try:
            STYLES[style](path, version(number, style), replaced)
        except FileNotFoundError:
            continue
        if number % 20 == 0:  # bursts and pauses, so that writes meet both a busy and a quiet editor
            time.sleep(number % 7 * 0.001)
    notes.write_text("\n".join(hashlib.sha256(data).hexdigest() for data in replaced))


def start(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # never outlive the test
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def run(ground: Ground, style: str, saves: int, write: Callable[[Session, int], None]) -> dict[str, int]:
    """Race, and account for every version; how the writes ended."""
    path = ground.put("a", version(0, "first"))
    notes = ground.project.parent / "notes"
    outcomes: dict[str, int] = {}
    with ground.session() as session:
        pid = start(lambda: edit_forever(path, style, saves, notes))
        number = 0
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            number += 1
            try:
                write(session, number)
                outcome = "written"
            except ToolError as error:
                outcome = error.kind
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    seen = set(notes.read_text().split()) | ground.stored() | {hashlib.sha256(path.read_bytes()).hexdigest()}
    lost = [n for n in range(saves) if hashlib.sha256(version(n, style)).hexdigest() not in seen]
    assert lost == []
    assert not ground.leftovers()
    with ground.session("after") as session:
        assert session.store.verify().sound
    return outcomes


def gemcode_write(session: Session, number: int) -> None:
    session.write("a", f"gemcode {number}\n".encode())


def naive_write(session: Session, number: int) -> None:
    """What most tools do: check, then replace by rename. The harness must catch it, or it proves nothing."""
    path = Path(session.root.display) / "a"
    before = path.read_bytes()
    session.store.back_up(before)
    if path.read_bytes() == before:
        other = path.with_name("naive")
        with other.open("wb") as file:
            file.write(f"gemcode {number}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(other, path)


@pytest.mark.parametrize("style", STYLES)
def test_no_save_of_an_editor_is_lost(tmp_path: Path, style: str) -> None:
    outcomes = run(Ground(tmp_path), style, 4_000, gemcode_write)
    assert outcomes.get("written", 0) > 0, outcomes
    assert outcomes.get("conflict", 0) > 0, outcomes
    assert set(outcomes) <= {"written", "stale", "conflict"}


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("style", STYLES)
def test_no_save_of_an_editor_is_lost_in_a_long_run(tmp_path: Path, style: str) -> None:
    outcomes = run(Ground(tmp_path), style, 100_000, gemcode_write)
    assert outcomes["written"] > 0
    assert outcomes["conflict"] > 0


def test_the_harness_catches_a_writer_that_only_checks_and_replaces(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        for attempt in range(20):
            directory = tmp_path / str(attempt)
            directory.mkdir()
            run(Ground(directory), "rename", 4_000, naive_write)
