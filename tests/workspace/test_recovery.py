"""What a dead process left behind, in every shape; and writes that fail twice."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gemcode.agent.errors import ToolError
from gemcode.workspace import locks, names, osfs
from gemcode.workspace.objects import hash_of
from gemcode.workspace.store import Limits
from tests.workspace.ground import SMALL, Ground, Session, before_call, kill, killed_at


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def die_before(operation: str, occurrence: int = 1) -> Callable[[str], None]:
    return before_call(operation, kill, occurrence)


def die_after(operation: str) -> Callable[[str], None]:
    seen: list[str] = []

    def hook(name: str) -> None:
        if operation in seen:
            kill()
        seen.append(name)

    return hook


def killed(ground: Ground, hook: Callable[[str], None], work: Callable[[Session], object]) -> None:
    """Do the work in a child that dies by the hook."""

    def child(session: Session) -> None:
        with osfs.inject(hook):
            work(session)

    assert killed_at(1_000_000, ground, child)


def broken(*operations: str, code: int = errno.EIO) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name in operations:
            raise OSError(code, os.strerror(code))

    return hook


def hidden(ground: Ground) -> list[Path]:
    return list(ground.project.rglob(names.TEMPORARY_PREFIX + "*"))


def test_a_write_that_died_before_the_exchange_is_swept_and_said(ground: Ground) -> None:
    ground.put("a", b"old")
    killed(ground, die_before("exchange"), lambda session: session.write("a", b"new"))
    assert len(hidden(ground)) == 1
    with ground.session("s2") as session:
        assert len(session.store.notices) == 1
        assert "had not taken effect" in session.store.notices[0]
        assert session.records() == []
    assert not ground.leftovers()


def test_a_write_that_died_after_the_exchange_is_completed_and_can_be_undone(ground: Ground) -> None:
    ground.put("a", b"old")
    killed(ground, die_after("exchange"), lambda session: session.write("a", b"new"))
    assert hidden(ground)[0].read_bytes() == b"old"
    with ground.session("s2") as session:
        assert "had taken effect" in session.store.notices[0]
        session.undo()
    assert ground.read("a") == b"old"
    assert not ground.leftovers()


def test_a_save_that_was_displaced_when_the_process_died_is_kept(ground: Ground) -> None:
    place = ground.put("a", b"old")

    def hook(name: str) -> None:
        if "exchange" in seen:
            kill()
        seen.append(name)
        if name == "exchange":
            place.write_bytes(b"mine")

    seen: list[str] = []
    killed(ground, hook, lambda session: session.write("a", b"new"))
    assert ground.read("a") == b"new"
    with ground.session("s2") as session:
        assert any("gemcode restore" in notice for notice in session.store.notices)
        assert list(session.kept().values()) == [b"mine"]
        session.restore(next(iter(session.kept())))
    assert ground.read("a") == b"mine"
    assert not ground.leftovers()


def test_the_same_on_another_device_than_the_store(ground: Ground) -> None:
    place = ground.put("a", b"old")

    def hook(name: str) -> None:
        if "exchange" in seen:
            kill()
        seen.append(name)
        if name == "exchange":
            place.write_bytes(b"mine")

    seen: list[str] = []
    killed(ground, hook, lambda session: session.write("a", b"new"))

    def other_device() -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    with osfs.inject(before_call("rename", other_device)), ground.session("s2") as session:
        assert list(session.kept().values()) == [b"mine"]
        assert any("gemcode restore" in notice for notice in session.store.notices)
    assert not ground.leftovers()


def test_what_can_not_be_moved_or_copied_stays_where_it_is(ground: Ground) -> None:
    place = ground.put("a", b"old")

    def hook(name: str) -> None:
        if "exchange" in seen:
            kill()
        seen.append(name)
        if name == "exchange":
            place.unlink()
            os.mkfifo(place)

    seen: list[str] = []
    killed(ground, hook, lambda session: session.write("a", b"new"))
    with osfs.inject(broken("rename", code=errno.EXDEV)), ground.session("s2") as session:
        assert "could not be cleaned up" in session.store.notices[0]
    assert hidden(ground)[0].is_fifo()
    with ground.session("s3") as session:
        assert "had taken effect" in session.store.notices[0]
    assert not hidden(ground)
    (aside,) = ground.area.glob("late/*")
    assert aside.is_fifo()
    with ground.session("s4") as session:
        assert session.store.notices == []
    assert aside.is_fifo()


def test_a_user_file_that_turned_into_a_link_is_set_aside_as_a_link(ground: Ground) -> None:
    place = ground.put("a", b"old")

    def hook(name: str) -> None:
        if "exchange" in seen:
            kill()
        seen.append(name)
        if name == "exchange":
            place.unlink()
            place.symlink_to("/etc/passwd")

    seen: list[str] = []
    killed(ground, hook, lambda session: session.write("a", b"new"))
    with ground.session("s2"):
        pass
    assert not hidden(ground)
    (aside,) = ground.area.glob("late/*")
    assert aside.is_symlink()


@pytest.mark.parametrize("what", ["gone", "replaced", "link", "file"])
def test_a_directory_that_is_gone_ends_the_matter(ground: Ground, what: str) -> None:
    ground.put("d/a", b"old")
    killed(ground, die_after("exchange"), lambda session: session.write("d/a", b"new"))
    (ground.project / "d").rename(ground.project.parent / "out")
    if what == "replaced":
        ground.put("d/a", b"something else")
    elif what == "link":
        (ground.project / "d").symlink_to("/")
    elif what == "file":
        ground.put("d", b"")
    with ground.session("s2") as session:
        assert "may have taken effect" in session.store.notices[0]
        assert [record.status for record in session.records()] == ["durability_unknown"]
    with ground.session("s3") as session:
        assert session.store.notices == []
    assert (ground.project.parent / "out/a").read_bytes() == b"new"


def test_a_directory_that_is_gone_before_anything_was_ready_ends_the_matter_too(ground: Ground) -> None:
    ground.put("d/a", b"old")
    killed(ground, die_before("fchmod"), lambda session: session.write("d/a", b"new"))
    (ground.project / "d").rename(ground.project.parent / "out")
    with ground.session("s2") as session:
        assert "had not taken effect" in session.store.notices[0]
        assert session.records() == []


def test_a_file_edited_between_the_death_and_the_recovery_is_left_alone(ground: Ground) -> None:
    ground.put("a", b"old")
    killed(ground, die_after("exchange"), lambda session: session.write("a", b"new"))
    ground.put("a", b"mine")
    with ground.session("s2") as session:
        assert ground.read("a") == b"mine"
        assert hash_of(b"old") in ground.stored()
        assert [record.status for record in session.records()] == ["written"]
    assert not ground.leftovers()


def test_a_create_edited_and_saved_by_rename_before_the_recovery_may_have_taken_effect(ground: Ground) -> None:
    killed(ground, die_after("rename_noreplace"), lambda session: session.write("a", b"new"))
    (ground.project / "b").write_bytes(b"mine")
    (ground.project / "b").rename(ground.project / "a")
    with ground.session("s2") as session:
        assert [record.status for record in session.records()] == ["durability_unknown"]
    assert ground.read("a") == b"mine"


def test_without_exchange_a_death_while_a_file_is_given_back_gives_it_back(ground: Ground) -> None:
    place = ground.put("a", b"old")

    def hook(name: str) -> None:
        seen.append(name)
        if name in ("exchange", "rename_noreplace"):
            if name == "rename_noreplace":
                kill()
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if name == "rename" and "exchange" in seen and seen.count("link") == 1 and "late" not in seen:
            seen.append("late")
            place.write_bytes(b"mine")

    seen: list[str] = []
    killed(ground, hook, lambda session: session.write("a", b"new"))
    assert ground.read("a") is None
    with ground.session("s2"):
        pass
    assert ground.read("a") == b"mine"
    assert not ground.leftovers()


def test_a_late_file_of_an_unknown_write_is_kept(ground: Ground) -> None:
    with ground.session("s1") as session:
        session.write("a", b"1")
    (ground.area / "late" / "zzzz-1").write_bytes(b"whose?")
    with ground.session("s2") as session:
        assert list(session.kept().values()) == [b"whose?"]
        assert len(session.store.notices) == 1
    assert not ground.leftovers()


def test_a_late_file_that_is_too_large_stays(ground: Ground) -> None:
    with ground.session("s1") as session:
        session.write("a", b"1")
    (ground.area / "late" / "zzzz-1").write_bytes(b"x" * 100)
    with ground.session("s2", Limits(free_bytes=0, file_bytes=99)) as session:
        assert session.kept() == {}
    assert (ground.area / "late" / "zzzz-1").exists()
    with ground.session("s3", SMALL) as session:
        assert list(session.kept().values()) == [b"x" * 100]


def test_a_recovery_that_is_under_way_elsewhere_is_not_repeated(ground: Ground) -> None:
    ground.put("a", b"old")
    killed(ground, die_before("exchange"), lambda session: session.write("a", b"new"))
    fd = os.open(ground.area, os.O_RDONLY)
    try:
        with locks.holding(fd, "recovery.lock"), ground.session("s2") as session:
            assert session.store.notices == []
            assert hidden(ground)
    finally:
        os.close(fd)
    with ground.session("s3"):
        assert not hidden(ground)


def test_a_living_process_is_left_alone(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session("s1") as first:
        proposal = first.propose("a", b"new")

        def start_another() -> None:
            with ground.session("s2") as session:
                assert session.store.notices == []
                assert len(hidden(ground)) == 1

        with osfs.inject(before_call("exchange", start_another)):
            assert first.carry_out(proposal).status == "written"


# --- writes that fail twice ---


def conflict_with(ground: Ground, hook: Callable[[str, int], None]) -> tuple[Session, ToolError]:
    """A write over a file that was saved right before the exchange; the hook gets the name and its occurrence."""
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        seen: list[str] = []

        def both(name: str) -> None:
            seen.append(name)
            if name == "exchange" and seen.count("exchange") == 1:
                place.write_bytes(b"mine")
            hook(name, seen.count(name))

        with osfs.inject(both), pytest.raises(ToolError) as caught:
            session.carry_out(proposal)
        kept = set(session.kept().values())
        assert b"mine" in kept | {ground.read("a")}
    return session, caught.value


def test_a_save_that_can_not_be_put_back_is_kept_and_the_truth_is_told(ground: Ground) -> None:
    def hook(name: str, occurrence: int) -> None:
        if name == "exchange" and occurrence == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    _, error = conflict_with(ground, hook)
    assert (error.kind, error.details["written"]) == ("conflict", True)
    assert ground.read("a") == b"new"
    with ground.session("s2") as session:
        assert b"mine" in session.kept().values()
        assert len(session.records()) == 1
    assert not ground.leftovers()


def test_a_proposal_that_can_not_be_kept_does_not_hide_the_conflict(ground: Ground) -> None:
    def hook(name: str, occurrence: int) -> None:
        if name == "mkdir" and occurrence == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _, error = conflict_with(ground, hook)
    assert (error.kind, error.details["written"]) == ("conflict", False)
    assert error.details["kept"] == ""
    assert ground.read("a") == b"mine"


def test_an_exchange_that_reports_an_error_but_happened_counts(ground: Ground) -> None:
    ground.put("a", b"old")
    fd = os.open(ground.project, os.O_RDONLY)

    def exchange_then_fail() -> None:
        (temporary,) = hidden(ground)
        osfs._rename_with(osfs._EXCHANGE, fd, temporary.name, fd, "a")
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with ground.session() as session:
        proposal = session.propose("a", b"new")
        with osfs.inject(before_call("exchange", exchange_then_fail)):
            assert session.carry_out(proposal).status == "written"
        session.undo()
    os.close(fd)
    assert ground.read("a") == b"old"
    assert not ground.leftovers()


@pytest.mark.parametrize("path", ["a", "b"])
def test_a_switch_of_which_nothing_can_be_known_is_reported_as_that(ground: Ground, path: str) -> None:
    ground.put("a", b"old")
    failing = {"exchange", "rename_noreplace"}

    def hook(name: str) -> None:
        if name in failing:
            failing.add("fstatat")
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with ground.session() as session:
        proposal = session.propose(path, b"new")
        with osfs.inject(hook):
            assert session.carry_out(proposal).status == "durability_unknown"
    ground.bury()
    with ground.session("s2"):
        assert ground.read("a") == b"old"
        assert not ground.leftovers()


def test_a_failure_after_which_nothing_can_be_cleaned_is_left_to_recovery(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        with osfs.inject(broken("exchange", "unlink")), pytest.raises(ToolError) as caught:
            session.carry_out(proposal)
        assert caught.value.kind == "io_error"
        assert len(hidden(ground)) == 1
    ground.bury()
    with ground.session("s2") as session:
        assert session.records() == []
    assert not ground.leftovers()


def test_a_displaced_file_that_can_not_be_watched_is_left_to_recovery(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        switched: list[str] = []

        def hook(name: str) -> None:
            switched.extend([name] if name == "exchange" else [])
            if switched and name in ("rename", "unlink"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        with osfs.inject(hook):
            result = session.carry_out(proposal)
        assert result.status == "durability_unknown"
        assert result.notes
    assert ground.read("a") == b"new"
    ground.bury()
    with ground.session("s2") as session:
        assert len(session.records()) == 1
    assert not ground.leftovers()


def test_a_displaced_file_that_can_not_be_read_is_said_and_stays(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        session.write("a", b"new")
        with osfs.inject(broken("read")):
            (notice,) = session.store.displaced.recheck()
        assert "could not be checked" in notice
        with osfs.inject(broken("read")):
            assert session.store.displaced.close()
        assert len(ground.leftovers()) == 1
    ground.bury()
    with ground.session("s2"):
        assert not ground.leftovers()


@pytest.mark.parametrize(
    "changes",
    [
        {"temporary": "../precious"},
        {"temporary": "precious"},
        {"temporary": names.TEMPORARY_PREFIX + "/../../precious"},
        {"temporary": 5},
        {"path": ["precious"]},
        {"old": "../../../precious"},
        {"new": 7},
        {"mode": "0644"},
        {"time": "nan"},
        {"time": 1e300},
        {"reason": None},
    ],
    ids=str,
)
def test_a_journal_that_gemcode_did_not_write_removes_and_breaks_nothing(
    ground: Ground, changes: dict[str, object]
) -> None:
    precious = ground.put("precious", b"mine")
    ground.put("a/b", b"old")
    with ground.session() as session:
        session.write("a/b", b"new")
    journal = ground.area / "journal.jsonl"
    intent = json.loads(journal.read_text().splitlines()[0])
    forged = {**intent, "id": "zzzz", "process": "1:1:before-the-last-boot", **changes}
    journal.write_text(journal.read_text() + json.dumps(forged) + "\n" + "[" * 100_000 + "\n")
    with ground.session("next") as session:
        assert [record.path for record in session.records()] == ["a/b"]
        assert session.store.verify().journal_lines_damaged == 2
    assert precious.read_bytes() == b"mine"
