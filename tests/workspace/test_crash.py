"""A kill or an error at every file call: the target is old or new, the old bytes are reachable, recovery cleans up.

The loop is SQLite's: fail at call 1, 2, 3 … until the work ends without the failure being reached.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs
from gemcode.workspace.objects import hash_of
from gemcode.workspace.root import Root
from gemcode.workspace.store import Limits, Store
from tests.workspace.ground import SMALL, Count, Ground, Session, in_child, kill, killed_at

OLD, NEW = b"the old content\n" * 100, b"the new content\r\n" * 120


@dataclass(frozen=True)
class Scenario:
    """Something done to one path that turns `old` into `new` (None: no file)."""

    path: str
    old: bytes | None
    new: bytes | None
    work: Callable[[Session], object]
    prepare: Callable[[Session], object] = lambda session: None

    def set_up(self, directory: Path) -> Ground:
        ground = Ground(directory)
        if self.old is not None:
            ground.put(self.path, self.old, 0o640)
        with ground.session("before") as session:
            self.prepare(session)
        return ground


def without_exchange(work: Callable[[Session], object]) -> Callable[[Session], object]:
    """On a file system that can't exchange names; the injected failures come on top of it."""

    def run(session: Session) -> object:
        outer = osfs._hook
        assert outer is not None

        def hook(name: str) -> None:
            outer(name)
            if name in ("exchange", "rename_noreplace"):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

        with osfs.inject(hook):
            return work(session)

    return run


def write_new(session: Session) -> object:
    return session.write("a", NEW)


SCENARIOS = {
    "overwrite": Scenario("a", OLD, NEW, write_new),
    "overwrite and close": Scenario("a", OLD, NEW, lambda session: [session.write("a", NEW), session.store.close()]),
    "create": Scenario("a", None, NEW, write_new),
    "create with directories": Scenario("d/e/a", None, NEW, lambda session: session.write("d/e/a", NEW)),
    "undo of an overwrite": Scenario("a", OLD, NEW, lambda session: session.undo(), lambda s: _back(s)),
    "undo of a creation": Scenario("d/a", None, None, lambda session: session.undo(), lambda s: s.write("d/a", OLD)),
    "overwrite without exchange": Scenario("a", OLD, NEW, without_exchange(write_new)),
    "create without exchange": Scenario("a", None, NEW, without_exchange(write_new)),
}


def _back(session: Session) -> None:
    """Leave the file with OLD in it, and NEW as what an undo brings back."""
    session.write("a", NEW)
    session.write("a", OLD)


def before_and_after(name: str) -> tuple[bytes | None, bytes | None]:
    scenario = SCENARIOS[name]
    return (OLD, None) if name == "undo of a creation" else (scenario.old, scenario.new)


def check(ground: Ground, name: str) -> str:
    """The invariants, before and after recovery; which of the two contents the target has."""
    scenario = SCENARIOS[name]
    old, new = before_and_after(name)
    found = ground.read(scenario.path)
    assert found in (old, new)
    if found != old and old is not None:
        assert hash_of(old) in ground.stored()
    with ground.session("after") as session:
        assert ground.read(scenario.path) == found
        records = [record for record in session.records(scenario.path) if record.session == "killed"]
        assert len(records) == (found == new)
        assert session.store.area.journal.damaged == 0
        assert session.store.verify().sound
        assert all(record.status != "open" for record in session.store.area.journal.records.values())
        assert not ground.leftovers()
    if found is None and scenario.old is None and name != "undo of a creation":
        assert list(ground.project.iterdir()) == []  # no directories left behind
    picture = ground.picture()
    with ground.session("again") as session:
        assert session.store.notices == []
    assert ground.picture() == picture
    if found == new:
        with ground.session("undoing") as session:
            session.undo(records[0].id)
        assert ground.read(scenario.path) == old
    return "new" if found == new else "old"


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_kill_at_any_call_leaves_old_or_new_and_nothing_behind(tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]
    outcomes: list[str] = []
    number = 0
    while True:
        number += 1
        directory = tmp_path / str(number)
        directory.mkdir()
        ground = scenario.set_up(directory)
        if not killed_at(number, ground, lambda session: scenario.work(session) and None):
            break
        outcomes.append(check(ground, name))
        shutil.rmtree(directory)
    assert number > 40
    assert set(outcomes) == {"old", "new"}
    assert outcomes == sorted(outcomes, reverse=True)  # once new, it stays new


# --- errors ---

CODES = [
    *(errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EDQUOT, errno.EACCES),
    *(errno.EINTR, errno.ENOMEM, errno.ENOSYS, errno.EXDEV, errno.EPERM, errno.EINVAL),
]


@dataclass(frozen=True)
class Outcome:
    fired: bool
    result: str


def failing_at(number: int, code: int, ground: Ground, work: Callable[[Session], object]) -> Outcome:
    """Do the work with an error at file call `number`, then die; what the work said came of it."""

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    count = Count(number, fail)
    with ground.session("killed") as session, osfs.inject(count):
        try:
            done = work(session)
            result = done[0] if isinstance(done, list) else done
            said = getattr(result, "status", "written")
        except ToolError as error:
            said = "written" if error.details.get("written") else f"refused {error.kind}"
    ground.bury()
    return Outcome(count.fired, said)


def run_errors(tmp_path: Path, name: str, codes_at: Callable[[int], list[int]]) -> list[Outcome]:
    scenario = SCENARIOS[name]
    old, new = before_and_after(name)
    outcomes: list[Outcome] = []
    number, fired = 0, True
    while fired:
        number += 1
        fired = False
        for code in codes_at(number):
            directory = tmp_path / f"{number}-{code}"
            directory.mkdir()
            ground = scenario.set_up(directory)
            outcome = failing_at(number, code, ground, scenario.work)
            fired = fired or outcome.fired
            found = ground.read(scenario.path)
            assert found == (new if outcome.result in ("written", "durability_unknown") else old), (
                number,
                code,
                outcome,
            )
            check(ground, name)
            outcomes.append(outcome)
            shutil.rmtree(directory)
    return outcomes


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_error_at_any_call_is_reported_as_what_it_did(tmp_path: Path, name: str) -> None:
    outcomes = run_errors(tmp_path, name, lambda number: [CODES[number % 13], CODES[(number * 5 + 3) % 13]])
    assert len([outcome for outcome in outcomes if outcome.fired]) > 80
    assert {"written", "durability_unknown"} <= {outcome.result for outcome in outcomes}


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_error_at_every_call_is_reported_as_what_it_did(tmp_path: Path, name: str) -> None:
    outcomes = run_errors(tmp_path, name, lambda _: CODES)
    assert len(outcomes) > 500


# --- start: recovery, prune ---


def kill_during_start(number: int, ground: Ground, limits: Limits = SMALL) -> bool:
    def child() -> None:
        with Root.open(ground.project) as root, osfs.inject(Count(number, kill)):
            Store.open(ground.state, root, "starting", limits)

    status = in_child(child)
    assert status == 0 or os.WTERMSIG(status) == 9
    return status != 0


def calls_of(scenario: Scenario, directory: Path) -> list[str]:
    """The file calls of a scenario's work, in order."""
    directory.mkdir()
    ground = scenario.set_up(directory)
    count = Count(0, lambda: None)
    with ground.session() as session, osfs.inject(count):
        scenario.work(session)
    shutil.rmtree(directory)
    return count.names


def interesting(names: list[str]) -> Iterator[int]:
    """A call number for each kind of unfinished write: nothing yet, half written, ready, switched, retained."""
    switch = next(i for i, name in enumerate(names) if name in ("exchange", "rename_noreplace"))
    yield from (switch - 12, switch, switch + 1, switch + 2, len(names) - 8, len(names) - 1)


@pytest.mark.parametrize("name", ["overwrite", "create with directories", "undo of a creation"])
def test_a_kill_during_recovery_is_recovered_from(tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]
    names = calls_of(scenario, tmp_path / "calls")
    points = [len(names) - 12, len(names) - 6] if name == "undo of a creation" else list(interesting(names))
    for point in points:
        number = 0
        killed = True
        while killed:
            number += 7 if number < 60 else 1  # the first calls only open the store; the last ones recover
            directory = tmp_path / f"{point}-{number}"
            directory.mkdir()
            ground = scenario.set_up(directory)
            assert killed_at(point, ground, lambda session: scenario.work(session) and None)
            killed = kill_during_start(number, ground)
            found = ground.read(scenario.path)
            assert found in before_and_after(name)
            with ground.session("after"):
                assert ground.read(scenario.path) == found
                assert not ground.leftovers()
            picture = ground.picture()
            with ground.session("again") as session:
                assert session.store.notices == []
            assert ground.picture() == picture
            shutil.rmtree(directory)


def test_a_kill_during_the_first_start_of_all_does_no_harm(tmp_path: Path) -> None:
    number, killed = 0, True
    while killed:
        number += 1
        directory = tmp_path / str(number)
        directory.mkdir()
        ground = Ground(directory)
        killed = kill_during_start(number, ground)
        with ground.session("after") as session:
            session.write("a", NEW)
            session.undo()
        assert ground.read("a") is None
        shutil.rmtree(directory)
    assert number > 40


def test_a_kill_during_prune_forgets_too_little_never_too_much(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.put("a", b"0")
    for number in range(1, 6):
        with ground.session(f"s{number}") as session:
            session.write("a", b"%d" % number * 100)
            session.write(f"b{number}", b"x")
    shutil.copytree(ground.state, tmp_path / "copy")
    tight = Limits(free_bytes=0, days=0)
    number, killed = 0, True
    while killed:
        number += 1
        shutil.rmtree(ground.state)
        shutil.copytree(tmp_path / "copy", ground.state)
        killed = kill_during_start(number, ground, tight)
        with ground.session("starting") as session:
            assert session.store.verify().sound
            assert len(session.records()) >= 2  # of the session before, whatever happened
            assert session.store.area.journal.damaged == 0
    assert number > 60


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES])
def test_an_error_at_any_call_of_the_start_is_said_in_one_sentence(tmp_path: Path, code: int) -> None:
    from gemcode.agent.errors import UsageError

    ground = SCENARIOS["overwrite"].set_up(tmp_path)
    names = calls_of(SCENARIOS["overwrite"], tmp_path / "calls")
    assert killed_at(len(names) - 8, ground, lambda session: session.write("a", NEW) and None)
    number = 0
    while True:
        number += 1

        def fail() -> None:
            raise OSError(code, os.strerror(code))

        count = Count(number, fail)
        open_before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
        with Root.open(ground.project) as root, contextlib.suppress(UsageError), osfs.inject(count):
            Store.open(ground.state, root, "starting", SMALL).close()
        if open_before:
            assert len(os.listdir("/proc/self/fd")) <= open_before + 2, (number, count.names[-3:])
        assert ground.read("a") in (OLD, NEW)
        assert hash_of(OLD) in ground.stored()
        if not count.fired:
            break
    with ground.session("after"):
        assert not ground.leftovers()
