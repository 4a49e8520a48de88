"""A power cut at any moment, on a weak file system: what was not yet fsynced may be there or not, in any combination.

The operations are recorded from a real write and replayed on a model: contents belong to inodes and become durable by
fsync of the file, names belong to directories and become durable by fsync of the directory.
"""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gemcode.workspace import osfs
from gemcode.workspace.objects import hash_of
from tests.workspace.ground import Ground, Session

Entry = tuple[int, str]  # directory, name


@dataclass(frozen=True)
class Operation:
    """One thing that an fsync of `belongs_to` makes durable."""

    belongs_to: int
    names: tuple[tuple[Entry, int | None], ...] = ()
    content: bytes | None = None


@dataclass
class Disk:
    """What is durable, and what is pending."""

    names: dict[Entry, int] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    pending: list[Operation] = field(default_factory=list)

    def apply(self, operation: Operation) -> None:
        for entry, inode in operation.names:
            self.names.pop(entry, None)
            if inode is not None:
                self.names[entry] = inode
        if operation.content is not None:
            self.contents[operation.belongs_to] = operation.content

    def sync(self, inode: int) -> None:
        for operation in [each for each in self.pending if each.belongs_to == inode]:
            self.apply(operation)
        self.pending = [each for each in self.pending if each.belongs_to != inode]

    def after_a_cut(self) -> Iterator["Disk"]:
        for size in range(len(self.pending) + 1):
            for survived in itertools.combinations(self.pending, size):
                disk = Disk(dict(self.names), dict(self.contents))
                for operation in survived:
                    disk.apply(operation)
                yield disk

    def read(self, start: int, *path: str) -> bytes | None:
        inode: int | None = start
        for name in path:
            inode = self.names.get((inode or 0, name))
        return None if inode is None else self.contents.get(inode, b"")


class Recorder:
    """Stands in front of osfs and takes down what changes the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *roots: Path) -> None:
        self.disk = Disk()
        self.log: list[tuple[str, Operation | int]] = []
        self.live: dict[int, bytes] = {}
        for root in roots:
            for place in [root, *root.rglob("*")]:
                self.disk.names[(place.parent.stat().st_ino, place.name)] = place.stat().st_ino
                if place.is_file():
                    self.disk.contents[place.stat().st_ino] = self.live[place.stat().st_ino] = place.read_bytes()
        for name in (
            "open",
            "mkdir",
            "rmdir",
            "write_all",
            "fsync",
            "rename",
            "exchange",
            "rename_noreplace",
            "unlink",
        ):
            monkeypatch.setattr(osfs, name, self._wrap(name, getattr(osfs, name)))

    def _wrap(self, name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            before = self._before(name, args, kwargs)
            result = real(*args, **kwargs)
            note = getattr(self, f"_{name}")(result, before, *args, **kwargs)
            self.log += [(name, each) for each in note]
            return result

        return call

    def _before(self, name: str, args: Any, kwargs: Any) -> Any:
        if name in ("rename", "exchange", "rename_noreplace"):
            return [self._inode(args[0], args[1]), self._inode(args[2], args[3])]
        if name == "open":
            return self._inode(kwargs.get("dir_fd"), args[0])
        return None

    @staticmethod
    def _inode(fd: int | None, name: str) -> int | None:
        try:
            return os.stat(name, dir_fd=fd, follow_symlinks=False).st_ino
        except OSError:
            return None

    @staticmethod
    def _directory(fd: int) -> int:
        return os.fstat(fd).st_ino

    def _open(self, fd: int, before: int | None, path: str, flags: int, *_: Any, **kwargs: Any) -> Iterator[Operation]:
        if before is None and flags & os.O_CREAT:
            directory, inode = self._directory(kwargs["dir_fd"]), os.fstat(fd).st_ino
            self.live[inode] = b""
            yield Operation(directory, (((directory, path), inode),))

    def _mkdir(self, _: None, __: None, dir_fd: int, name: str, *mode: int) -> Iterator[Operation]:
        directory = self._directory(dir_fd)
        yield Operation(directory, (((directory, name), self._inode(dir_fd, name)),))

    def _rmdir(self, _: None, __: None, dir_fd: int, name: str) -> Iterator[Operation]:
        yield Operation(self._directory(dir_fd), (((self._directory(dir_fd), name), None),))

    _unlink = _rmdir

    def _write_all(self, _: None, __: None, fd: int, data: bytes) -> Iterator[Operation]:
        inode = os.fstat(fd).st_ino
        half = self.live.get(inode, b"") + data[: len(data) // 2]
        self.live[inode] = self.live.get(inode, b"") + data
        yield Operation(inode, content=half)  # torn
        yield Operation(inode, content=self.live[inode])

    def _fsync(self, _: None, __: None, fd: int) -> Iterator[int]:
        yield os.fstat(fd).st_ino

    def _rename(
        self, _: None, before: list[int], s_fd: int, source: str, t_fd: int, target: str
    ) -> Iterator[Operation]:
        old, new = (self._directory(s_fd), source), (self._directory(t_fd), target)
        if old[0] == new[0]:
            yield Operation(old[0], ((old, None), (new, before[0])))
        else:  # across directories nothing promises that both halves survive together
            yield Operation(old[0], ((old, None),))
            yield Operation(new[0], ((new, before[0]),))

    _rename_noreplace = _rename

    def _exchange(self, _: None, before: list[int], fd: int, one: str, __: int, other: str) -> Iterator[Operation]:
        directory = self._directory(fd)
        yield Operation(directory, (((directory, one), before[1]), ((directory, other), before[0])))


def bad_states(
    ground: Ground, recorder: Recorder, old: bytes | None, new: bytes | None, *, ignore: str = ""
) -> tuple[int, int]:
    """Cut the power after every recorded operation; how many states there are, and how many of them lose something."""
    project, area = ground.project.stat().st_ino, ground.area.stat().st_ino
    disk = recorder.disk
    states = bad = 0
    for name, step in recorder.log:
        if isinstance(step, Operation):
            disk.pending.append(step)
        elif name != ignore:
            disk.sync(step)
        for cut in disk.after_a_cut():
            states += 1
            found = cut.read(project, "a")
            reachable = old is None or found == old or cut.read(area, "objects", hash_of(old)[:2], hash_of(old)) == old
            bad += not (found in (old, new) and reachable)
    done = all(cut.read(project, "a") == new for cut in disk.after_a_cut())
    return states, bad + (not done)


def overwrite(session: Session) -> None:
    session.write("a", b"new content")


@pytest.mark.parametrize(
    ("name", "old", "new"), [("overwrite", b"old content", b"new content"), ("create", None, b"new content")]
)
def test_no_power_cut_tears_a_file_or_loses_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: bytes | None, new: bytes
) -> None:
    ground = Ground(tmp_path)
    if old is not None:
        ground.put("a", old)
    with ground.session() as session:
        recorder = Recorder(monkeypatch, ground.project, ground.state)
        overwrite(session)
        monkeypatch.undo()
        states, bad = bad_states(ground, recorder, old, new)
    assert states > 100
    assert bad == 0


def test_no_power_cut_during_an_undo_loses_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(tmp_path)
    with ground.session() as session:
        session.write("a", b"created")
        recorder = Recorder(monkeypatch, ground.project, ground.state)
        session.undo()
        monkeypatch.undo()
        states, bad = bad_states(ground, recorder, b"created", None)
    assert states > 50
    assert bad == 0


def test_the_model_finds_the_fault_when_fsync_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(tmp_path)
    ground.put("a", b"old content")
    with ground.session() as session:
        recorder = Recorder(monkeypatch, ground.project, ground.state)
        overwrite(session)
        monkeypatch.undo()
        recorder.log = [entry for entry in recorder.log if entry[0] == "fsync" or "journal" not in str(entry)][:24]
        _, bad = bad_states(ground, recorder, b"old content", b"new content", ignore="fsync")
    assert bad > 0
