"""What may be forgotten: old, many or large backups, oldest first. Needs the exclusive lock of the project it prunes.

Nothing of the running and the previous session is ever pruned. The journal forgets first, then the objects go, so that
a kill in between leaves too much, never too little.
"""

import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gemcode.frozen import frozen
from gemcode.workspace import locks, osfs
from gemcode.workspace.area import Area
from gemcode.workspace.journal import WriteRecord
from gemcode.workspace.objects import DIRECTORY, Hash, Objects


@frozen
class Limits:
    """How much is kept, and how much room a write must find."""

    days: float = 30.0
    versions: int = 200
    project_bytes: int = 1 << 30
    total_bytes: int = 5 << 30
    free_bytes: int = 16 << 20
    file_bytes: int = 8 << 20


@frozen
class Pruned:
    """What a prune removed."""

    records: int = 0
    objects: int = 0


def prune(area: Area, limits: Limits, *, now: float | None = None) -> Pruned:
    """Bring one project within its limits."""
    area.journal.refresh()
    records = sorted(area.journal.records.values(), key=lambda record: record.sequence)
    protected = {r.id for r in records if r.status == "open"} | _of_last_sessions(records, area.session)
    moment = time.time() if now is None else now
    keep = _fit(_fresh(records, protected, limits, moment), protected, limits.project_bytes, area.objects.sizes())
    dropped = len(records) - len(keep)
    if dropped:
        area.journal.rewrite((record.id for record in keep), {"records": dropped})
    _forget_late(area, protected, moment - limits.days * 86_400)
    return Pruned(dropped, area.objects.keep_only(_contents(keep)))


def _forget_late(area: Area, protected: set[str], oldest: float) -> None:
    """Displaced files that could not become objects have their time too; what is no file stays for a person."""
    for name in osfs.listdir(area.late):
        status = osfs.fstatat(area.late, name)
        if name.partition("-")[0] not in protected and status.st_ctime < oldest and stat.S_ISREG(status.st_mode):
            osfs.unlink(area.late, name)


def prune_others(projects: int, area: Area, excess: int, limits: Limits) -> int:
    """Free up to `excess` bytes in other projects, the longest unused first, where no session runs; the bytes freed."""
    freed = 0
    for fd in _others(projects, area):
        if freed >= excess:
            break
        with locks.holding(fd, "lock", patience=0) as free:
            if free:
                other = Area(osfs.open(".", DIRECTORY, dir_fd=fd), area.locks, "", limits.file_bytes)
                try:
                    before = other.usage()
                    prune(other, replace(limits, project_bytes=max(before - (excess - freed), 0)))
                    freed += before - other.usage()
                finally:
                    other.close()
    return freed


def usage_elsewhere(projects: int, area: Area) -> int:
    """Bytes of objects in all other projects."""
    total = 0
    for fd in _others(projects, area):
        objects = Objects(fd)
        total += sum(objects.sizes().values())
        objects.close()
    return total


def _others(projects: int, area: Area) -> Iterator[int]:
    """Directory fds of the other projects, the longest unused first."""
    mine = osfs.fstat(area.fd).st_ino
    status = {name: osfs.fstatat(projects, name) for name in osfs.listdir(projects)}
    for name in sorted(status, key=lambda name: status[name].st_mtime):
        if status[name].st_ino != mine and stat.S_ISDIR(status[name].st_mode):
            fd = osfs.open(name, DIRECTORY, dir_fd=projects)
            try:
                yield fd
            finally:
                locks.close_quietly(fd)


def _of_last_sessions(records: list[WriteRecord], running: str) -> set[str]:
    """The records of the running session and of the one before it; where none runs, of the last two."""
    recent = list(dict.fromkeys(record.session for record in reversed(records) if record.session != running))
    kept = {running, *recent[: 1 if running else 2]}
    return {record.id for record in records if record.session in kept}


def _fresh(records: list[WriteRecord], protected: set[str], limits: Limits, now: float) -> list[WriteRecord]:
    newer: Counter[str] = Counter()
    keep: list[WriteRecord] = []
    for record in reversed(records):
        newer[record.path] += 1
        fresh = now - record.time <= limits.days * 86_400 and newer[record.path] <= limits.versions
        if fresh or record.id in protected:
            keep.append(record)
    return keep[::-1]


def _fit(records: list[WriteRecord], protected: set[str], room: int, sizes: dict[Hash, int]) -> list[WriteRecord]:
    """Without the oldest records, as many as it takes for the contents of the others to fit."""
    references = Counter(name for record in records for name in _contents([record]))
    used = sum(sizes.get(name, 0) for name in references)
    keep: list[WriteRecord] = []
    for record in records:
        if used <= room or record.id in protected:
            keep.append(record)
            continue
        for name in _contents([record]):
            references[name] -= 1
            used -= 0 if references[name] else sizes.get(name, 0)
    return keep


def _contents(records: Iterable[WriteRecord]) -> set[Hash]:
    return {name for record in records for name in (record.intent.old, record.intent.new) if name}
