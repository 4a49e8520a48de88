"""The compare-and-swap write: what it keeps, what it refuses, and what happens when others save at the same time."""

import errno
import hashlib
import os
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs, undo, writer
from gemcode.workspace.store import Limits
from tests.workspace.ground import SMALL, Ground, Session, before_call, in_child


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def refused(act: Callable[[], object]) -> ToolError:
    with pytest.raises(ToolError) as caught:
        act()
    assert caught.value.message.strip()
    assert "\n" not in caught.value.message
    return caught.value


def test_an_existing_file_is_replaced_and_its_old_bytes_are_in_the_store(ground: Ground) -> None:
    ground.put("a.txt", b"old\r\n")
    with ground.session() as session:
        result = session.write("a.txt", b"new\r\n")
        assert (result.status, result.action, result.hash) == ("written", "modified", digest(b"new\r\n"))
        assert 4 <= len(result.id) <= 6
        assert result.notes == ()
        assert ground.read("a.txt") == b"new\r\n"
        record = session.records()[0]
        assert (record.id, record.path, record.action, record.intent.turn) == (result.id, "a.txt", "modified", "t1")
        assert session.store.read_object(record.intent.old or "") == b"old\r\n"
    assert not ground.leftovers()


def test_a_new_file_is_created_with_its_directories_and_the_mode_of_the_umask(ground: Ground) -> None:
    with ground.session() as session:
        proposal = session.propose("deep/er/new.txt", b"fresh")
        assert proposal.before.missing == ("deep", "deep/er")
        assert not (ground.project / "deep").exists()
        result = session.carry_out(proposal)
    assert (result.action, ground.read("deep/er/new.txt")) == ("created", b"fresh")
    (ground.project / "plain").touch()
    assert (ground.project / "deep/er/new.txt").stat().st_mode == (ground.project / "plain").stat().st_mode


def test_no_change_and_too_much_are_refused_before_anything_is_asked(ground: Ground) -> None:
    ground.put("a", b"same")
    with ground.session() as session:
        assert refused(lambda: session.propose("a", b"same")).kind == "no_change"
        before = writer.snapshot(session.root, "a")
        assert refused(lambda: writer.propose(before, b"12345", limit=4)).kind == "too_large"
        assert writer.propose(before, b"1234", limit=4).action == "modified"
        assert refused(lambda: writer.snapshot(session.root, "a", limit=3)).kind == "too_large"


@pytest.mark.parametrize("mode", [0o444, 0o754, 0o600, 0o666])
def test_the_mode_is_kept(ground: Ground, mode: int) -> None:
    place = ground.put("a", b"old", mode)
    with ground.session() as session:
        session.write("a", b"new")
    assert place.stat().st_mode & 0o7777 == mode


def test_set_user_id_is_dropped_and_said(ground: Ground) -> None:
    place = ground.put("a", b"old", 0o4755)
    with ground.session() as session:
        assert "set-user-id" in session.write("a", b"new").notes[0]
    assert place.stat().st_mode & 0o7777 == 0o755


def test_extended_attributes_are_kept(ground: Ground) -> None:
    place = ground.put("a", b"old")
    try:
        os.setxattr(place, "user.colour", b"blue")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    with ground.session() as session:
        assert session.write("a", b"new").notes == ()
    assert os.getxattr(place, "user.colour") == b"blue"


def access_list(named_user: int) -> bytes:
    """user::rw- user:named:r-- group::r-- mask::r-- other::---, in the kernel's form."""
    entries = [(1, 6, 0xFFFFFFFF), (2, 4, named_user), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)]
    parts = [(2).to_bytes(4, "little")]
    parts += [
        tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + who.to_bytes(4, "little") for tag, bits, who in entries
    ]
    return b"".join(parts)


def test_an_access_list_is_kept_and_one_that_the_directory_hands_down_is_not_added(ground: Ground) -> None:
    listed, plain = ground.put("listed", b"old"), ground.put("plain", b"old", 0o640)
    try:
        os.setxattr(listed, "system.posix_acl_access", access_list(1234))
        os.setxattr(ground.project, "system.posix_acl_default", access_list(4321))
    except OSError:
        pytest.skip("this file system has no access lists")
    with ground.session() as session:
        session.write("listed", b"new")
        session.write("plain", b"new")
    assert os.getxattr(listed, "system.posix_acl_access") == access_list(1234)
    assert "system.posix_acl_access" not in os.listxattr(plain)
    assert plain.stat().st_mode & 0o777 == 0o640


def fails(operation: str, code: int) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name == operation:
            raise OSError(code, os.strerror(code))

    return hook


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_owner_is_kept_or_the_write_is_refused(ground: Ground) -> None:
    place = ground.put("a", b"old")
    os.chown(place, 1234, 1234)
    with ground.session() as session:
        with osfs.inject(fails("fchown", errno.EPERM)):
            assert refused(lambda: session.write("a", b"new")).kind == "permission"
        assert ground.read("a") == b"old"
        assert not ground.leftovers()
        session.write("a", b"new")
        assert (place.stat().st_uid, place.stat().st_gid) == (1234, 1234)
        os.chown(place, 0, 1234)
        with osfs.inject(fails("fchown", errno.EPERM)):
            assert "group" in session.write("a", b"newer").notes[0]


def test_an_attribute_that_can_not_be_kept_is_said(ground: Ground) -> None:
    place = ground.put("a", b"old")
    try:
        os.setxattr(place, "user.colour", b"blue")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    with ground.session() as session, osfs.inject(fails("setxattr", errno.ENOSPC)):
        assert "extended attribute" in session.write("a", b"new").notes[0]
    assert ground.read("a") == b"new"


def test_a_file_with_two_names_is_refused(ground: Ground) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        os.link(place, ground.project / "b")
        assert "hard link" in refused(lambda: session.carry_out(proposal)).message
        assert "hard link" in refused(lambda: session.write("a", b"new")).message
    assert ground.read("a") == b"old"


def test_what_is_no_plain_file_is_refused(ground: Ground) -> None:
    ground.put("target", b"old")
    (ground.project / "link").symlink_to("target")
    (ground.project / "directory").mkdir()
    os.mkfifo(ground.project / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(".", os.O_RDONLY)
        os.chdir(ground.project)
        listener.bind("socket")
        os.fchdir(here)
        os.close(here)
    with ground.session() as session:
        for name in ("link", "directory", "pipe", "socket", ".git/config", "../x"):
            refused(lambda name=name: session.write(name, b"new"))  # type: ignore[misc]
        with pytest.raises(ToolError):
            session.write("target/below", b"new")
    assert ground.read("target") == b"old"
    assert (ground.project / "link").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0 or not hasattr(os, "setresuid"), reason="needs root to become somebody else")
def test_without_permission_the_old_file_stays(ground: Ground) -> None:
    ground.put("closed/a", b"old")
    ground.put("unreadable", b"old", 0)

    def as_nobody() -> None:
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        with ground.session() as session:
            assert refused(lambda: session.write("closed/a", b"new")).kind == "permission"
            assert refused(lambda: session.write("unreadable", b"new")).kind == "permission"

    ground.state.mkdir(mode=0o700)
    os.chown(ground.state, 65534, 65534)
    for place in (ground.project, *ground.project.parents):
        if place.stat().st_mode & 0o005 != 0o005:
            place.chmod(place.stat().st_mode | 0o005)
        if place == Path("/tmp"):
            break
    assert in_child(as_nobody) == 0
    assert ground.read("closed/a") == b"old"


# --- races, T11 to T20: another program acts at one exact moment ---


def save(place: Path, data: bytes) -> Callable[[], None]:
    """As most editors do: a new file, renamed over the old one."""

    def act() -> None:
        other = place.with_name("editor-swap")
        other.write_bytes(data)
        os.rename(other, place)

    return act


def save_in_place(place: Path, data: bytes) -> Callable[[], None]:
    return lambda: place.write_bytes(data) and None


def test_a_change_between_the_reading_and_the_writing_is_stale(ground: Ground) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        save(place, b"mine\nand more\n")()
        error = refused(lambda: session.carry_out(proposal))
        assert (error.kind, error.details["what"], error.details["lines"]) == ("stale", "changed on disk", 2)
        assert ground.read("a") == b"mine\nand more\n"
        place.unlink()
        removed = refused(lambda: session.carry_out(proposal))
        assert (removed.kind, removed.details["what"]) == ("stale", "was removed")
        assert not place.exists()
        assert not session.records()


def test_a_proposal_that_came_too_late_is_kept_and_can_be_restored(ground: Ground) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        save(place, b"mine")()
        kept = str(refused(lambda: session.carry_out(proposal)).details["kept"])
        assert session.kept() == {kept: b"new"}
        assert ground.read("a") == b"mine"
        session.restore(kept)
        assert ground.read("a") == b"new"
        session.undo()
        assert ground.read("a") == b"mine"


def test_a_deletion_that_came_too_late_keeps_nothing(ground: Ground) -> None:
    with ground.session() as session:
        created = session.write("a", b"new")
        (proposal,) = undo.undo(session.root, session.store, created.id).proposals
        (ground.project / "a").write_bytes(b"mine")
        assert refused(lambda: session.carry_out(proposal)).details["kept"] == ""
        assert (ground.read("a"), session.kept()) == (b"mine", {})


@pytest.mark.parametrize("saver", [save, save_in_place])
def test_a_save_between_the_backup_and_the_exchange_wins_and_the_proposal_is_kept(
    ground: Ground, saver: Callable[[Path, bytes], Callable[[], None]]
) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        with osfs.inject(before_call("exchange", saver(place, b"mine"))):
            error = refused(lambda: session.carry_out(proposal))
        assert error.kind == "conflict"
        assert error.details["written"] is False
        assert ground.read("a") == b"mine"
        assert session.kept()[str(error.details["kept"])] == b"new"
        assert not session.records()
        session.restore(str(error.details["kept"]))
        assert ground.read("a") == b"new"
    assert not ground.leftovers()


def test_a_write_to_the_displaced_file_before_it_is_verified_is_a_conflict(ground: Ground) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session, place.open("r+b", buffering=0) as editor:
        proposal = session.propose("a", b"new")

        def hook(name: str) -> None:
            if name == "exchange":
                seen.append(name)
            elif seen == ["exchange"]:
                seen.append("done")
                editor.write(b"mine")

        seen: list[str] = []
        with osfs.inject(hook):
            assert refused(lambda: session.carry_out(proposal)).kind == "conflict"
        assert ground.read("a") == b"mine"
        assert b"new" in session.kept().values()


def test_a_late_write_to_the_displaced_file_is_kept_and_said_at_the_next_action(ground: Ground) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session, place.open("r+b", buffering=0) as editor:
        session.write("a", b"new")
        editor.write(b"late")
        session.write("b", b"something else")
        assert any("gemcode restore" in notice for notice in session.store.notices)
        assert list(session.kept().values()) == [b"late"]
        editor.write(b" and later")
        notices = session.store.close()
        assert len(notices) == 2
    assert ground.read("a") == b"new"
    assert not ground.leftovers()
    with ground.session("s2") as session:
        assert set(session.kept().values()) == {b"late", b"late and later"}


def test_a_late_write_is_kept_also_where_the_store_is_on_another_device(ground: Ground) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session, place.open("r+b", buffering=0) as editor:
        proposal = session.propose("a", b"new")
        cross = [0]

        def hook(name: str) -> None:
            cross[0] += name == "exchange"
            if name == "rename" and cross[0]:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

        with osfs.inject(hook):
            session.carry_out(proposal)
        assert not ground.leftovers()
        editor.write(b"late")
        assert session.store.displaced.recheck()
        assert list(session.kept().values()) == [b"late"]


@pytest.mark.parametrize("saver", [save, save_in_place])
def test_a_third_save_while_the_second_is_given_back_ends_up_at_the_path(
    ground: Ground, saver: Callable[[Path, bytes], Callable[[], None]]
) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")

        def hook(name: str) -> None:
            if name == "exchange":
                exchanges.append(name)
                if len(exchanges) == 1:
                    save(place, b"second")()
                if len(exchanges) == 2:
                    saver(place, b"third")()

        exchanges: list[str] = []
        with osfs.inject(hook):
            assert refused(lambda: session.carry_out(proposal)).kind == "conflict"
        assert ground.read("a") == b"third"
        assert {b"second", b"new"} <= set(session.kept().values())
    assert not ground.leftovers()


def test_a_fourth_save_is_not_lost_either(ground: Ground) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        exchanges: list[str] = []
        saves = [b"second", b"third", b"fourth", b"fifth"]

        def hook(name: str) -> None:
            if name == "exchange" and saves:
                exchanges.append(name)
                save(place, saves.pop(0))()

        with osfs.inject(hook):
            assert refused(lambda: session.carry_out(proposal)).kind == "conflict"
        assert ground.read("a") == b"fifth"
        assert b"new" in session.kept().values()
    assert not ground.leftovers()


def test_a_file_removed_while_its_save_is_given_back_comes_back(ground: Ground) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        exchanges: list[str] = []

        def hook(name: str) -> None:
            if name == "exchange":
                exchanges.append(name)
                save(place, b"mine")() if len(exchanges) == 1 else place.unlink()

        with osfs.inject(hook):
            assert refused(lambda: session.carry_out(proposal)).kind == "conflict"
        assert ground.read("a") == b"mine"


@pytest.mark.parametrize("kind", ["directory", "link", "pipe"])
def test_a_name_that_turns_into_something_else_is_given_back_as_it_is(ground: Ground, kind: str) -> None:
    place = ground.put("a", b"old")

    def turn() -> None:
        place.unlink()
        if kind == "directory":
            place.mkdir()
        elif kind == "link":
            place.symlink_to("/etc/passwd")
        else:
            os.mkfifo(place)

    with ground.session() as session:
        proposal = session.propose("a", b"new")
        with osfs.inject(before_call("exchange", turn)):
            assert refused(lambda: session.carry_out(proposal)).kind == "conflict"
        assert (place.is_dir(), place.is_symlink(), place.is_fifo()) == (
            kind == "directory",
            kind == "link",
            kind == "pipe",
        )
    assert not ground.leftovers()


def test_a_second_name_given_at_the_last_moment_is_a_conflict(ground: Ground) -> None:
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        with osfs.inject(before_call("exchange", lambda: os.link(place, ground.project / "b"))):
            assert refused(lambda: session.carry_out(proposal)).kind == "conflict"
    assert place.samefile(ground.project / "b")
    assert ground.read("a") == b"old"
    assert not ground.leftovers()


def test_a_disk_that_does_not_confirm_is_said_and_the_write_can_be_undone(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        switched: list[str] = []

        def hook(name: str) -> None:
            switched.extend([name] if name == "exchange" else [])
            if name == "fsync" and len(switched) == 1:
                switched.append(name)
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        with osfs.inject(hook):
            result = session.carry_out(proposal)
        assert result.status == "durability_unknown"
        assert "did not confirm" in result.notes[0]
        session.undo()
    assert ground.read("a") == b"old"


def test_a_new_file_that_appears_first_is_left_alone(ground: Ground) -> None:
    place = ground.project / "a"
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        with osfs.inject(before_call("rename_noreplace", lambda: place.write_bytes(b"mine") and None)):
            assert refused(lambda: session.carry_out(proposal)).kind == "stale"
        assert ground.read("a") == b"mine"
        place.unlink()
        proposal = session.propose("a", b"new")
        place.write_bytes(b"mine")
        assert refused(lambda: session.carry_out(proposal)).kind == "stale"
    assert not ground.leftovers()


def test_a_directory_replaced_or_moved_out_after_the_confirmation_is_stale(ground: Ground) -> None:
    ground.put("d/a", b"old")
    with ground.session() as session:
        proposal = session.propose("d/a", b"new")
        (ground.project / "d").rename(ground.project.parent / "out")
        assert refused(lambda: session.carry_out(proposal)).kind in ("stale", "not_found")
        ground.put("d/a", b"old")
        assert refused(lambda: session.carry_out(proposal)).kind == "stale"
    assert (ground.project.parent / "out/a").read_bytes() == b"old"
    assert ground.read("d/a") == b"old"


def test_directories_that_appear_after_the_confirmation_are_stale(ground: Ground) -> None:
    with ground.session() as session:
        proposal = session.propose("d/e/a", b"new")
        (ground.project / "d").mkdir()
        assert refused(lambda: session.carry_out(proposal)).kind == "stale"
    assert list((ground.project / "d").iterdir()) == []


def test_a_failed_write_leaves_no_directories_behind(ground: Ground) -> None:
    with ground.session() as session, osfs.inject(fails("rename_noreplace", errno.EIO)):
        assert refused(lambda: session.write("d/e/a", b"new")).kind == "io_error"
    assert list(ground.project.iterdir()) == []


# --- file systems that can't exchange, or can't even link ---


def without(*operations: str) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name in operations:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    return hook


@pytest.mark.parametrize("missing", [("exchange", "rename_noreplace"), ("exchange", "rename_noreplace", "link")])
def test_where_names_can_not_be_exchanged_a_weaker_way_is_taken_and_said(
    ground: Ground, missing: tuple[str, ...]
) -> None:
    ground.put("a", b"old", 0o640)
    with ground.session() as session, osfs.inject(without(*missing)):
        assert "Weaker guarantee" in session.write("a", b"new").notes[0]
        created = session.write("b", b"fresh")
        assert created.notes == (
            ("Weaker guarantee: this file system can't exchange two names in one step.",) if "link" in missing else ()
        )
        assert (ground.read("a"), ground.read("b")) == (b"new", b"fresh")
        assert (
            refused(
                lambda: session.carry_out(replace(session.propose("b", b"x"), before=session.propose("c", b"x").before))
            ).kind
            == "stale"
        )
        session.undo(created.id)
        assert ground.read("b") is None
        session.undo()
        assert ground.read("b") == b"fresh"
    assert (ground.project / "a").stat().st_mode & 0o777 == 0o640
    assert not ground.leftovers()


@pytest.mark.parametrize(("moment", "saver"), [("link", save), ("link", save_in_place), ("rename", save_in_place)])
def test_without_exchange_a_save_at_the_last_moment_is_kept(
    ground: Ground, moment: str, saver: Callable[[Path, bytes], Callable[[], None]]
) -> None:
    # ("rename", save) is the window that the weaker guarantee is about
    place = ground.put("a", b"old")
    with ground.session() as session:
        proposal = session.propose("a", b"new")
        done: list[str] = []

        def hook(name: str) -> None:
            if name in ("exchange", "rename_noreplace"):
                done.append(name)
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            if name == moment and done == ["exchange"]:
                done.append(name)
                saver(place, b"mine")()

        with osfs.inject(hook):
            assert refused(lambda: session.carry_out(proposal)).kind in ("stale", "conflict")
        assert ground.read("a") == b"mine"
    assert not ground.leftovers()


def test_a_new_file_without_any_safe_way_is_still_not_put_over_another(ground: Ground) -> None:
    place = ground.project / "a"
    with ground.session() as session:
        proposal = session.propose("a", b"new")

        def hook(name: str) -> None:
            if name in ("rename_noreplace", "link"):
                place.write_bytes(b"mine")
            without("rename_noreplace", "link")(name)

        with osfs.inject(hook):
            assert refused(lambda: session.carry_out(proposal)).kind == "stale"
    assert ground.read("a") == b"mine"


# --- space ---


def test_too_little_space_refuses_the_write_at_once(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session(limits=replace(SMALL, free_bytes=1 << 60)) as session:
        error = refused(lambda: session.write("a", b"new"))
    assert error.kind == "no_space"
    assert ground.read("a") == b"old"


def test_a_full_store_of_the_running_session_refuses_the_write(ground: Ground) -> None:
    ground.put("a", b"x" * 600)
    with ground.session(limits=Limits(free_bytes=0, project_bytes=1000)) as session:
        session.write("a", b"y" * 600)
        assert refused(lambda: session.write("a", b"z")).kind == "quota"
        assert ground.read("a") == b"y" * 600


def test_a_full_store_is_pruned_of_old_sessions_before_a_write_is_refused(ground: Ground) -> None:
    ground.put("a", b"x" * 400)
    limits = Limits(free_bytes=0, project_bytes=1000)
    for number in range(1, 6):
        with ground.session(f"s{number}", limits) as session:
            session.write("a", bytes([64 + number]) * 400)
    assert ground.read("a") == b"E" * 400


def test_a_file_size_limit_of_the_system_is_reported(ground: Ground) -> None:
    ground.put("a", b"old")

    def child() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with ground.session() as session:
            proposal = session.propose("a", b"n" * 100_000)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
            assert refused(lambda: session.carry_out(proposal)).kind == "too_large"

    assert in_child(child) == 0
    assert ground.read("a") == b"old"
    with ground.session("s2"):
        pass
    assert not ground.leftovers()


def test_too_many_open_files_are_reported(ground: Ground) -> None:
    ground.put("a", b"old")

    def child() -> None:
        with ground.session() as session:
            proposal = session.propose("a", b"new")
            opened = []
            try:
                while True:
                    opened.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                pass
            try:
                refused(lambda: session.carry_out(proposal))
            finally:
                for fd in opened:
                    os.close(fd)
            assert session.carry_out(proposal).status == "written"

    assert in_child(child) == 0


def test_a_state_directory_removed_under_a_session_refuses_the_write(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        shutil.rmtree(ground.state)
        assert refused(lambda: session.write("a", b"new")).kind in ("backup_failed", "not_found", "busy")
    assert ground.read("a") == b"old"


def test_a_file_that_must_not_change_is_refused(ground: Ground) -> None:
    place = ground.put("a", b"old")
    if subprocess.run(["chattr", "+i", str(place)], capture_output=True, check=False).returncode != 0:
        pytest.skip("the immutable flag can't be set here")
    try:
        with ground.session() as session:
            assert refused(lambda: session.write("a", b"new")).kind == "permission"
        assert ground.read("a") == b"old"
        assert not ground.leftovers()
    finally:
        subprocess.run(["chattr", "-i", str(place)], check=True)


def test_a_read_only_file_system_is_refused(ground: Ground) -> None:
    ground.put("a", b"old")
    if subprocess.run(["mount", "--bind", ground.project, ground.project], capture_output=True).returncode != 0:
        pytest.skip("mounting is not permitted here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(ground.project)], check=True)
        with ground.session() as session:
            assert refused(lambda: session.write("a", b"new")).kind == "read_only"
            assert refused(lambda: session.write("d/b", b"new")).kind == "read_only"
        assert ground.read("a") == b"old"
    finally:
        subprocess.run(["umount", "-l", str(ground.project)], check=False)


def test_a_sparse_giant_is_refused_without_being_read(ground: Ground) -> None:
    place = ground.put("a", b"")
    try:
        os.truncate(place, 1 << 40)
    except OSError:
        pytest.skip("this file system has no files of that size")
    with ground.session() as session:
        assert refused(lambda: session.propose("a", b"new")).kind == "too_large"


def test_a_giant_that_takes_the_place_at_the_last_moment_is_given_back(ground: Ground) -> None:
    place = ground.put("a", b"old")

    def grow() -> None:
        os.truncate(place, 1 << 33)

    with ground.session() as session:
        proposal = session.propose("a", b"new")
        with osfs.inject(before_call("exchange", grow)):
            assert refused(lambda: session.carry_out(proposal)).kind == "conflict"
    assert place.stat().st_size == 1 << 33


def full_disk(ground: Ground, size: str) -> bool:
    (ground.project.parent / "disk").mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(ground.project.parent / "disk")],
        capture_output=True,
    )
    return made.returncode == 0


@pytest.mark.parametrize("which", ["project", "state"])
def test_a_disk_that_is_really_full_refuses_the_write_and_loses_nothing(ground: Ground, which: str) -> None:
    if not full_disk(ground, "256k"):
        pytest.skip("mounting a small file system is not permitted here")
    disk = ground.project.parent / "disk"
    try:
        if which == "project":
            ground.project = disk / "project"
            ground.project.mkdir()
        else:
            ground.state = disk / "state"
        ground.put("a", b"o" * 20_000)
        kinds = set()
        with ground.session() as session:
            content = b"o" * 20_000
            for number in range(40):
                wanted = bytes([48 + number]) * (20_000 + 4_000 * number)
                try:
                    session.write("a", wanted)
                    content = wanted
                except ToolError as error:
                    kinds.add(error.kind)
                assert ground.read("a") == content
            assert kinds == {"no_space"}
            for record in session.records():
                assert session.store.read_object(record.intent.old or "")
        assert not ground.leftovers()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_session_object_keeps_no_file_open_after_it_is_closed(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        session.write("a", b"0")
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for number in range(5):
        with ground.session(f"s{number}") as session:
            session.write("a", str(number + 1).encode())
            session.write(f"b{number}/c", b"x")
            session.undo()
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def test_many_displaced_files_are_let_go_in_time(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        for number in range(300):
            session.write("a", b"%d" % number)
        assert len(ground.leftovers()) <= 257
    assert not ground.leftovers()
    assert isinstance(session, Session)
