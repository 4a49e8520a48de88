"""The backup store: where it may be, what it keeps, what it forgets, and several processes at once."""

import errno
import json
import os
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gemcode.agent.errors import ToolError, UsageError
from gemcode.workspace import locks, osfs
from gemcode.workspace.objects import hash_of
from gemcode.workspace.retention import prune
from gemcode.workspace.root import Root
from gemcode.workspace.store import Limits, Store
from tests.workspace.ground import SMALL, Ground, in_child


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def journal(ground: Ground) -> Path:
    return ground.area / "journal.jsonl"


# --- the place ---


def test_everything_in_the_store_is_private(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        session.write("a", b"new")
        assert session.store.directory == ground.area
    for place in [ground.state, *ground.state.rglob("*")]:
        assert place.stat().st_mode & 0o077 == 0, place
    (only,) = ground.area.glob("objects/??/*")
    assert (only.name, stat.S_IMODE(only.stat().st_mode)) == (hash_of(b"old"), 0o400)


def test_a_state_directory_that_others_could_use_is_refused(ground: Ground) -> None:
    ground.state.mkdir()
    for mode in (0o777, 0o770, 0o702):
        ground.state.chmod(mode)
        with pytest.raises(UsageError, match="Other users"), ground.session():
            pass
    ground.state.chmod(0o755)
    with ground.session():
        pass


def test_a_state_directory_that_is_a_link_is_refused(ground: Ground) -> None:
    elsewhere = ground.project.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    ground.state.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="symbolic link"), ground.session():
        pass
    assert list(elsewhere.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_state_directory_of_another_user_is_refused(ground: Ground) -> None:
    ground.state.mkdir(mode=0o700)
    os.chown(ground.state, 1234, 1234)
    with pytest.raises(UsageError, match="another user"), ground.session():
        pass


def test_a_file_in_place_of_the_state_directory_is_said(ground: Ground) -> None:
    ground.state.write_bytes(b"")
    with pytest.raises(UsageError) as caught, ground.session():
        pass
    assert caught.value.hint


def test_a_project_is_known_by_its_path_and_after_a_move_by_its_directory(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        id = session.write("a", b"new").id
    ground.project.rename(ground.project.with_name("moved"))
    ground.project = ground.project.with_name("moved")
    with ground.session("s2") as session:
        assert [record.id for record in session.records()] == [id]
    ground.project.rename(ground.project.with_name("aside"))
    ground.project.mkdir()  # another directory under the same name: the history is of the path
    with ground.session("s3") as session:
        assert [record.id for record in session.records()] == [id]
    (ground.project.parent / "nested").mkdir()
    other = Ground(ground.project.parent / "nested")
    other.state = ground.state
    with other.session("s4") as session:
        assert session.records() == []


def test_a_broken_description_of_another_project_does_no_harm(ground: Ground) -> None:
    for name, text in (("x", "no json"), ("y", "[]"), ("z", None)):
        (ground.state / "projects" / name).mkdir(parents=True)
        if text is not None:
            (ground.state / "projects" / name / "project.json").write_text(text)
    (ground.state / "projects" / "file").write_text("")
    ground.state.chmod(0o700)
    with ground.session() as session:
        session.write("a", b"new")


# --- the journal ---


def test_a_torn_tail_is_sealed_and_the_rest_is_kept(ground: Ground) -> None:
    with ground.session() as session:
        first = session.write("a", b"1").id
    with journal(ground).open("ab") as file:
        file.write(b'{"seq": 99, "kind": "int')
    with ground.session("s2") as session:
        second = session.write("a", b"2").id
        assert [record.id for record in session.records()] == [second, first]
        assert session.store.verify().journal_lines_damaged == 1
        assert session.store.verify().sound
    assert all(line.startswith(b"{") for line in journal(ground).read_bytes().splitlines())
    with ground.session("s3") as session:
        assert [record.id for record in session.records()] == [second, first]
        assert session.store.verify().journal_lines_damaged == 1


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "1",
        "null",
        '{"seq":"x"}',
        '{"seq":1}',
        '{"seq":1,"kind":"end","id":"no","status":"written"}',
        "\xff",
    ],
)
def test_a_damaged_line_is_counted_and_skipped(ground: Ground, line: str) -> None:
    with ground.session() as session:
        id = session.write("a", b"1").id
    with journal(ground).open("ab") as file:
        file.write(line.encode("latin-1") + b"\n")
    with ground.session("s2") as session:
        assert [record.id for record in session.records()] == [id]
        assert session.store.area.journal.damaged == 1
        session.undo()


def test_the_order_is_by_sequence_even_if_the_clock_goes_back(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    with ground.session() as session:
        first = session.write("a", b"1").id
        monkeypatch.setattr(time, "time", lambda: 0.0)
        second = session.write("a", b"2").id
        assert [record.id for record in session.records()] == [second, first]
        session.undo()
        assert ground.read("a") == b"1"


def test_ids_are_short_unique_and_easy_to_read_aloud(ground: Ground) -> None:
    with ground.session() as session:
        ids = [session.write("a", b"%d" % number).id for number in range(40)]
        assert len(set(ids)) == 40
        assert all(len(id) == 4 and id.isalnum() and not set(id) & set("ilou") for id in ids)
        assert session.store.find(ids[3].upper()).id == ids[3]
        with pytest.raises(ToolError, match="no write"):
            session.store.find("none")


def test_the_history_of_one_path_is_its_own(ground: Ground) -> None:
    with ground.session() as session:
        session.write("a", b"1")
        session.write("b", b"1")
        session.write("a", b"2")
        assert [(record.path, record.action) for record in session.store.history("a")] == [
            ("a", "modified"),
            ("a", "created"),
        ]
        sequences = [record.sequence for record in session.store.history()]
        assert sequences == sorted(sequences, reverse=True)


# --- objects ---


def test_a_damaged_or_missing_object_is_never_used(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        session.write("a", b"new")
        (place,) = ground.area.glob("objects/??/*")
        place.chmod(0o600)
        place.write_bytes(b"bad")
        assert session.store.verify().damaged == (hash_of(b"old"),)
        with pytest.raises(ToolError, match="damaged"):
            session.undo()
        ground.put("b", b"old")
        session.write("b", b"other")  # the same content again: the damaged copy is replaced
        assert session.store.verify().sound
        place.unlink()
        verification = session.store.verify()
        assert len(verification.missing) == 2
        assert not verification.sound
        with pytest.raises(ToolError, match="missing"):
            session.undo()
        place.parent.rmdir()
        with pytest.raises(ToolError, match="can't be read"):
            session.store.read_object(hash_of(b"old"))
    assert ground.read("a") == b"new"


def test_an_unreadable_store_is_said(ground: Ground) -> None:
    def broken(name: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with ground.session() as session:
        session.write("a", b"1")
        for act in (session.store.history, session.store.verify, session.store.prune):
            with osfs.inject(broken), pytest.raises(ToolError, match="can't be used"):
                act()


# --- retention ---


def write_sessions(ground: Ground, count: int, size: int = 10) -> None:
    for number in range(count):
        with ground.session(f"s{number}") as session:
            session.write("a", bytes([65 + number]) * size)


def test_old_backups_go_but_never_those_of_the_last_two_sessions(ground: Ground) -> None:
    write_sessions(ground, 5)
    month = Limits(free_bytes=0, days=30)
    with ground.session("s5") as session:
        session.write("a", b"latest")
        later = prune(session.store.area, month, now=time.time() + 31 * 86_400)
        assert later.records == 4
        assert later.objects == 3  # the first write was a creation and had no content to back up
        assert [record.session for record in session.records()] == ["s5", "s4"]
        assert session.store.verify().sound
        assert prune(session.store.area, month, now=time.time() + 31 * 86_400).records == 0
    assert b'"kind":"prune"' in journal(ground).read_bytes()
    with ground.session("s6") as session:
        assert len(session.records()) == 2
        session.undo()
        assert ground.read("a") == b"E" * 10


def test_displaced_files_that_no_object_could_hold_have_their_time_too(ground: Ground) -> None:
    with ground.session("s1") as session:
        id = session.write("a", b"1").id
        late = ground.area / "late"
        for name in (f"{id}-1", "zzzz-1"):
            (late / name).write_bytes(b"x" * 100)
        os.mkfifo(late / "yyyy-1")
        small = Limits(free_bytes=0, file_bytes=99)
        prune(session.store.area, small, now=time.time() + 29 * 86_400)
        assert len(list(late.iterdir())) == 3
        prune(session.store.area, small, now=time.time() + 31 * 86_400)
        assert {place.name for place in late.iterdir()} == {f"{id}-1", "yyyy-1"}


def test_only_so_many_versions_of_a_file_are_kept(ground: Ground) -> None:
    write_sessions(ground, 8)
    with ground.session("s8", replace(SMALL, versions=3)) as session:
        assert len(session.records("a")) == 3


def test_the_oldest_backups_go_when_the_project_has_too_many_bytes(ground: Ground) -> None:
    write_sessions(ground, 8, size=1000)
    with ground.session("s8", replace(SMALL, project_bytes=2500)) as session:
        assert [record.session for record in session.records()] == ["s7", "s6"]
        assert session.store.area.usage() <= 2500
        assert session.store.verify().sound


def test_other_projects_give_way_when_all_together_have_too_many_bytes(ground: Ground) -> None:
    write_sessions(ground, 8, size=1000)
    (ground.project.parent / "second").mkdir()
    other = Ground(ground.project.parent / "second")
    other.state = ground.state
    total = replace(SMALL, total_bytes=4000)
    with other.session("t0", total) as session:
        session.write("a", b"x" * 1000)
        session.write("a", b"y" * 1000)
        with pytest.raises(ToolError, match="full"):
            session.write("a", b"z" * 5000)
            session.write("a", b"1")
    with ground.session("s8") as session:
        assert 2 <= len(session.records()) <= 5
        assert session.store.verify().sound


def test_other_projects_in_use_are_left_alone(ground: Ground) -> None:
    write_sessions(ground, 6, size=1000)
    (ground.project.parent / "second").mkdir()
    other = Ground(ground.project.parent / "second")
    other.state = ground.state
    with ground.session("s6") as running:
        before = len(running.records())
        with other.session("t0", replace(SMALL, total_bytes=100)):
            pass
        assert len(running.records()) == before
        assert running.store.verify().sound


def test_nothing_is_pruned_while_another_session_is_open(ground: Ground) -> None:
    write_sessions(ground, 5)
    with ground.session("s5") as first, ground.session("s6", replace(SMALL, days=0)) as second:
        assert len(second.records()) == 5
        assert second.store.prune().records == 0
        second.write("b", b"x")
        first.write("c", b"x")
        assert {record.path for record in first.records()} == {"a", "b", "c"}
    with ground.session("s7", replace(SMALL, days=0)) as third:
        assert {record.session for record in third.records()} <= {"s5", "s6"}


# --- several processes ---


def test_two_sessions_can_not_write_the_same_version(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session("s1") as first, ground.session("s2") as second:
        mine, yours = first.propose("a", b"first"), second.propose("a", b"second")
        first.carry_out(mine)
        with pytest.raises(ToolError) as caught:
            second.carry_out(yours)
        assert caught.value.kind == "stale"
    assert ground.read("a") == b"first"


def test_a_write_waits_for_another_one_only_so_long(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.put("a", b"old")
    monkeypatch.setattr(locks, "PATIENCE", 0.05)
    with ground.session("s1") as session:
        proposal = session.propose("a", b"new")
        with session.store.area.write_lock(proposal.before.parent, "a"), pytest.raises(ToolError) as caught:
            session.carry_out(proposal)
        assert caught.value.kind == "busy"


def test_a_lock_ends_with_the_process_that_held_it(ground: Ground) -> None:
    ground.put("a", b"old")

    def die_holding() -> None:
        with ground.session("dying") as session:
            parent = session.propose("a", b"x").before.parent
            with session.store.area.write_lock(parent, "a"):
                os.kill(os.getpid(), 9)

    assert os.WTERMSIG(in_child(die_holding)) == 9
    with ground.session("s2") as session:
        session.write("a", b"new")


def without_locks(name: str) -> None:
    if name == "flock":
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_without_file_locks_there_is_one_session_only(ground: Ground) -> None:
    ground.put("a", b"old")
    with osfs.inject(without_locks):
        with ground.session("s1") as session:
            session.write("a", b"new")
            session.store.prune()
            with pytest.raises(UsageError, match="Another gemcode session"), ground.session("s2"):
                pass
            assert (ground.area / "owner").exists()
        with ground.session("s2") as session:
            session.undo()
        assert ground.read("a") == b"old"

        def die() -> None:
            with ground.session("dying"):
                os.kill(os.getpid(), 9)

        assert os.WTERMSIG(in_child(die)) == 9
        with ground.session("s3"):
            pass


def test_an_error_of_the_lock_is_an_error(ground: Ground) -> None:
    def broken(name: str) -> None:
        if name == "flock":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with osfs.inject(broken), pytest.raises(UsageError, match="can't be used"), ground.session():
        pass


def test_a_process_is_known_by_more_than_its_number() -> None:
    mine = locks.this_process()
    assert locks.is_alive(mine)
    pid, start, boot = mine.split(":")
    if start:
        assert not locks.is_alive(f"{pid}:{int(start) - 1}:{boot}")
        assert not locks.is_alive(f"{pid}:{start}:another-boot")
    assert locks.is_alive(f"{pid}::")
    assert locks.is_alive("1::")
    assert not locks.is_alive("nonsense")
    assert not locks.is_alive(f"{2**22 + 1}:1:{boot}")
    assert locks.is_alive(f"{10**30}::")  # no such number: can't be found out


def test_a_dead_process_that_nobody_waited_for_counts_as_dead() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    deadline = time.monotonic() + 10
    try:
        name = f"{pid}:1:"
        while locks.is_alive(name) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not locks.is_alive(name)
    finally:
        os.waitpid(pid, 0)


def test_what_can_not_be_found_out_counts_as_alive() -> None:
    mine = locks.this_process()

    def broken(name: str) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with osfs.inject(broken):
        assert locks.is_alive(mine)


def race(ground: Ground, works: list[Callable[[], None]]) -> None:
    pids = []
    for work in works:
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
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(works)


def test_four_processes_write_and_prune_at_once_and_nothing_breaks(ground: Ground) -> None:
    ground.put("shared", b"0")
    tight = replace(SMALL, versions=5)

    def worker(number: int) -> Callable[[], None]:
        def work() -> None:
            for round_ in range(6):
                with ground.session(f"w{number}-{round_}", tight) as session:
                    for step in range(5):
                        session.write(f"own{number}", b"%d-%d-%d" % (number, round_, step))
                        try:
                            session.write("shared", b"%d-%d-%d" % (number, round_, step))
                        except ToolError as error:
                            assert error.kind in ("stale", "conflict", "no_change"), error
                    session.store.prune()

        return work

    race(ground, [worker(number) for number in range(4)])
    with ground.session("last", tight) as session:
        assert session.store.verify().sound
        assert session.store.area.journal.damaged == 0
        assert not ground.leftovers()
        for number in range(4):
            assert ground.read(f"own{number}") == b"%d-5-4" % number
        newest = session.records("shared")[0]
        assert newest.intent.new == hash_of(ground.read("shared") or b"")
        sequences = [json.loads(line)["seq"] for line in journal(ground).read_bytes().splitlines()]
        assert len(sequences) == len(set(sequences))


def test_two_recoveries_at_once_do_the_work_once(ground: Ground) -> None:
    from tests.workspace.ground import killed_at

    for number in range(5):
        ground.put(f"f{number}", b"old")
    for number in range(5):
        assert killed_at(75, ground, lambda session, number=number: session.write(f"f{number}", b"new") and None)  # type: ignore[misc]

    def start() -> None:
        with ground.session("starting"):
            pass

    race(ground, [start] * 4)
    with ground.session("last") as session:
        assert session.store.notices == []
        assert not ground.leftovers()
        assert all(record.status != "open" for record in session.store.area.journal.records.values())
    ends = [line for line in journal(ground).read_bytes().splitlines() if b'"kind":"end"' in line]
    assert len(ends) == 5


def test_a_live_process_of_another_name_space_is_not_recovered_while_it_holds_its_lock(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session("s1") as session:
        proposal = session.propose("a", b"new")

        def look(name: str) -> None:
            if name == "exchange":
                ground.bury()
                with Root.open(ground.project) as root:
                    Store.open(ground.state, root, "s2", SMALL).close()

        with osfs.inject(look):
            assert session.carry_out(proposal).status == "written"
    assert ground.read("a") == b"new"


def test_a_new_project_does_not_inherit_the_history_of_a_deleted_one(ground: Ground) -> None:
    """Most file systems give the new directory the inode of the old one, which is forged here."""
    with ground.session() as session:
        session.write("a", b"1")
    ground.project.rename(ground.project.with_name("deleted"))
    ground.project = ground.project.with_name("another")
    ground.project.mkdir()
    about = json.loads((ground.area / "project.json").read_text())
    (ground.area / "project.json").write_text(json.dumps({**about, "inode": ground.project.stat().st_ino}))
    with ground.session("s2") as session:
        assert session.store.history() == []


def test_contents_that_are_there_already_do_not_fill_the_quota(ground: Ground) -> None:
    """Also while a second session keeps everything from being pruned."""
    first, second = b"1" * 100, b"2" * 100
    ground.put("a", first)
    limits = replace(SMALL, project_bytes=1_000)
    with ground.session("s1", limits) as session, ground.session("s2", limits):
        for _ in range(10):
            session.write("a", second)
            session.write("a", first)
            session.store.displaced.close()
