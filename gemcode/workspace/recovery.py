"""Finish or sweep what a killed process left: temporary files in the project, displaced files in the store.

Only for processes that are gone, and only what the journal names. Nothing is deleted that is not proved to be ours or
to be in the store. Running it again changes nothing.
"""

import contextlib
import errno

from gemcode.agent.errors import ToolError
from gemcode.workspace import locks, osfs
from gemcode.workspace.area import LATE_FLAGS, Area, hash_file
from gemcode.workspace.displaced import preserve
from gemcode.workspace.journal import Identity, Status, WriteRecord
from gemcode.workspace.objects import Hash
from gemcode.workspace.root import Parent, Root
from gemcode.workspace.swap import ASIDE, move


def recover(area: Area, root: Root) -> list[str]:
    """Settle every write that a dead process began and did not end; what the person should know."""
    notices: list[str] = []
    with locks.holding(area.fd, "recovery.lock", patience=0) as free:
        if not free:
            return notices
        area.journal.refresh()
        for record in [r for r in area.journal.records.values() if r.status == "open"]:
            if locks.is_alive(record.process):
                continue
            try:
                notices += _settle(area, root, record)
            except (OSError, ToolError) as error:
                notices.append(f"An unfinished write to {record.path} could not be cleaned up: {error}")
        for name in sorted(osfs.listdir(area.late)):
            try:
                notices += _settle_late(area, name)
            except (OSError, ToolError) as error:
                notices.append(f"A displaced file in the store could not be checked: {error}")
    return notices


def _settle(area: Area, root: Root, record: WriteRecord) -> list[str]:
    try:
        parent = root.open_parent(record.path)
    except ToolError as error:
        if error.kind not in ("not_found", "not_a_directory", "symlink"):
            raise
        return _end(area, record, "durability_unknown" if record.ready else "not_written")
    with parent, area.write_lock(parent.identity, parent.leaf, patience=0) as free:
        if not free:
            return []  # a process that looks dead from here (another container) is still at it
        if record.ready is not None and record.ready[1] != parent.identity:
            return _end(area, record, "durability_unknown")  # the directory was moved or replaced since
        status: Status = "not_written"
        notices: list[str] = []
        if record.ready is not None:
            status = _settle_ready(area, parent, record, record.ready[0], notices)
        elif not parent.missing:
            with contextlib.suppress(FileNotFoundError):
                osfs.unlink(parent.fd, record.intent.temporary)  # it never was anything but our own, unfinished
    if status == "not_written":
        remove_directories(root, record.intent.directories)
    return _end(area, record, status) + notices


def _end(area: Area, record: WriteRecord, status: Status) -> list[str]:
    area.journal.end(record.id, status)
    effect = {"written": "had taken effect", "not_written": "had not taken effect"}.get(status, "may have taken effect")
    return [f"The write {record.id} to {record.path} was cut short; it {effect}."]


def _settle_ready(area: Area, parent: Parent, record: WriteRecord, ours: Identity, notices: list[str]) -> Status:
    """The temporary name may hold our content or, after the exchange, the user's file."""
    here, content = _look(area, parent.fd, parent.leaf)
    for name in (record.intent.temporary, record.intent.temporary + ASIDE):
        identity, found = _look(area, parent.fd, name)
        if identity is None:
            continue
        if identity == here or (identity == ours and found == record.intent.new):
            osfs.unlink(parent.fd, name)
        elif here is None and name.endswith(ASIDE):  # cut short between taking our file away and giving this one back
            move(parent.fd, name, parent.leaf)
        else:
            notices += _to_late(area, parent.fd, name, record)
    displaced = any(name.startswith(record.id + "-") for name in osfs.listdir(area.late))
    if record.intent.new is None:
        return "written" if here is None or displaced else "not_written"
    if here == ours or displaced or content == record.intent.new:
        return "written"
    return "not_written" if content == record.intent.old else "durability_unknown"


def _look(area: Area, dir_fd: int, name: str) -> tuple[Identity | None, Hash | None]:
    """Who sits at a name and what it holds, if that is a regular file."""
    try:
        status = osfs.fstatat(dir_fd, name)
    except FileNotFoundError:
        return None, None
    identity = (status.st_dev, status.st_ino)
    try:
        fd = osfs.open(name, LATE_FLAGS, dir_fd=dir_fd)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EACCES):
            raise
        return identity, None
    try:
        return identity, hash_file(fd, area.file_bytes)[0]
    finally:
        locks.close_quietly(fd)


def _to_late(area: Area, dir_fd: int, name: str, record: WriteRecord) -> list[str]:
    """Out of the project, into the store: by name on the same device, else by content."""
    late = osfs.random_name(f"{record.id}-")
    try:
        osfs.rename(dir_fd, name, area.late, late)
    except OSError:
        fd = osfs.open(name, LATE_FLAGS, dir_fd=dir_fd)
        try:
            kept, notice = preserve(area, fd, record.path, _known(record))
        finally:
            locks.close_quietly(fd)
        if kept is None:
            raise
        osfs.unlink(dir_fd, name)
        return [notice] if notice else []
    return []


def _settle_late(area: Area, name: str) -> list[str]:
    record = area.journal.records.get(name.partition("-")[0])
    if record is not None and (record.status == "open" or locks.is_alive(record.process)):
        return []
    path = record.path if record else "an unknown file"
    try:
        fd = osfs.open(name, LATE_FLAGS, dir_fd=area.late)
    except FileNotFoundError:
        return []
    try:
        kept, notice = preserve(area, fd, path, _known(record) if record else ())
    finally:
        locks.close_quietly(fd)
    if kept is not None:
        osfs.unlink(area.late, name)
    return [notice] if notice and kept is not None else []


def _known(record: WriteRecord) -> tuple[Hash, ...]:
    """Contents that need no keeping: the old one is in the store, the new one is our own."""
    return tuple(content for content in (record.intent.old, record.intent.new) if content)


def remove_directories(root: Root, directories: tuple[str, ...]) -> None:
    """Remove directories that a write made, the deepest first, as far as they are empty."""
    for path in reversed(directories):
        with contextlib.suppress(OSError, ToolError), root.open_parent(path) as parent:
            osfs.rmdir(parent.fd, parent.leaf)
