"""A project and a state directory for the tests of writing, and the questions that every one of them asks."""

import contextlib
import os
import signal
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gemcode.workspace import locks, names, osfs, undo, writer
from gemcode.workspace.journal import WriteRecord
from gemcode.workspace.objects import hash_of
from gemcode.workspace.root import Root
from gemcode.workspace.store import Limits, Store
from gemcode.workspace.writer import Proposal, WriteResult

SMALL = Limits(free_bytes=0)


@dataclass(slots=True)
class Session:
    root: Root
    store: Store

    def propose(self, path: str, data: bytes) -> Proposal:
        return writer.propose(writer.snapshot(self.root, path), data)

    def carry_out(self, proposal: Proposal, turn: str = "t1", reason: str = "write_file") -> WriteResult:
        return writer.write(self.root, self.store, proposal, turn=turn, reason=reason)

    def write(self, path: str, data: bytes, turn: str = "t1") -> WriteResult:
        return self.carry_out(self.propose(path, data), turn)

    def undo(self, id: str | None = None, turn: str | None = None) -> list[WriteResult]:
        plan = undo.undo(self.root, self.store, id, turn=turn)
        for conflict in plan.conflicts:
            raise conflict
        return [self.carry_out(proposal, "undo", plan.reason) for proposal in plan.proposals]

    def restore(self, id: str) -> WriteResult:
        return self.carry_out(undo.restore(self.root, self.store, id), "restore")

    def records(self, path: str | None = None) -> list[WriteRecord]:
        return [record for record in self.store.history(path) if record.happened]

    def kept(self) -> dict[str, bytes]:
        """The versions set aside, by id."""
        found = [record for record in self.store.history() if record.status == "kept"]
        return {record.id: self.store.read_object(record.intent.old or "") for record in found}


class Ground:
    def __init__(self, directory: Path) -> None:
        self.project = directory / "project"
        self.state = directory / "state"
        self.project.mkdir()

    @contextlib.contextmanager
    def session(self, name: str = "s1", limits: Limits = SMALL) -> Iterator[Session]:
        with Root.open(self.project) as root:
            store = Store.open(self.state, root, name, limits)
            try:
                yield Session(root, store)
            finally:
                store.close()

    def put(self, path: str, data: bytes, mode: int = 0o644) -> Path:
        place = self.project / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(mode)
        return place

    def read(self, path: str) -> bytes | None:
        place = self.project / path
        return place.read_bytes() if place.is_file() else None

    @property
    def area(self) -> Path:
        (only,) = (self.state / "projects").iterdir()
        return only

    def bury(self) -> None:
        """Let every process that wrote to the journal be dead, so that recovery looks after what it left."""
        for journal in self.state.glob("projects/*/journal.jsonl"):
            journal.write_text(journal.read_text().replace(locks.this_process(), "1:1:before-the-last-boot"))

    def stored(self) -> set[str]:
        """The hashes of all objects that are what their name says."""
        found = {place.name: place.read_bytes() for place in self.area.glob("objects/??/*")}
        return {name for name, data in found.items() if hash_of(data) == name}

    def leftovers(self) -> list[str]:
        """What a write may leave in the project or in the store only for a while."""
        hidden = [str(place) for place in self.project.rglob(names.TEMPORARY_PREFIX + "*")]
        return hidden + [str(place) for place in self.area.glob("late/*")]

    def picture(self) -> dict[str, tuple[int, bytes | None]]:
        """Every file of the project and the store, to see whether something changed."""
        return {
            str(place): (place.lstat().st_mode, place.read_bytes() if stat.S_ISREG(place.lstat().st_mode) else None)
            for place in [*self.project.rglob("*"), *self.state.rglob("*")]
        }


class Count:
    """A hook that does something at call number `at`, counting from 1; `names` are all calls seen."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.at = at
        self.act = act
        self.names: list[str] = []

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self.at:
            self.act()

    @property
    def fired(self) -> bool:
        return len(self.names) >= self.at


def before_call(name: str, act: Callable[[], None], occurrence: int = 1) -> Callable[[str], None]:
    """A hook that does something once, right before the named call."""
    seen = 0

    def hook(called: str) -> None:
        nonlocal seen
        if called == name:
            seen += 1
            if seen == occurrence:
                act()

    return hook


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Callable[[], None]) -> int:
    """Run in a process of its own, where a kill harms nobody; its wait status."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def killed_at(number: int, ground: Ground, work: Callable[[Session], None]) -> bool:
    """Run in a child that is killed at the given file call; False when it had fewer calls and ended by itself."""

    def child() -> None:
        with Root.open(ground.project) as root:
            session = Session(root, Store.open(ground.state, root, "killed", SMALL))
            with osfs.inject(Count(number, kill)):
                work(session)

    status = in_child(child)
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL, status
    return status != 0
