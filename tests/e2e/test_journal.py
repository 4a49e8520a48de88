"""The write journal and the audit log, through the commands: seen, taken back, taken back again, never over a save."""

import re
from pathlib import Path

import pytest

from tests.e2e.program import Place, Result, call, calls, press, says

ONE, TWO, THREE = b"one\n", b"two\n", b"three\n"


def overwrite(place: Place, path: str, content: bytes) -> str:
    """Let the model read and replace a file; the id of the write."""
    replies = [
        calls(call("read_file", path=path)),
        calls(call("write_file", path=path, content=content.decode())),
        says("Done."),
    ]
    result = place.ask("replace it", "-y", "-o", "json", replies=replies)
    assert result.code == 0
    return identifier(result)


def create(place: Place, *paths: str) -> Result:
    wanted = [call("write_file", path=path, content=f"{path}\n") for path in paths]
    result = place.ask("create", "-y", "-o", "json", replies=[calls(*wanted), says("Done.")])
    assert result.code == 0
    return result


def identifier(result: Result) -> str:
    found: str = result.json["files_changed"][-1]["backup_id"]
    return found


def now(place: Place, path: str = "a.txt") -> bytes:
    return place.files()[path]


@pytest.fixture
def written(place: Place) -> str:
    """One write has happened: a.txt went from one to two."""
    place.write("a.txt", ONE)
    return overwrite(place, "a.txt", TWO)


def test_an_empty_history_says_so(place: Place) -> None:
    result = place.run("history")
    assert (result.code, result.stdout) == (0, "No writes in this project yet.\n")


def test_the_history_names_the_writes_newest_last(place: Place, written: str) -> None:
    second = overwrite(place, "a.txt", THREE)
    lines = place.run("history").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [written, second]
    assert all("a.txt" in line and "modified" in line for line in lines)


def test_the_history_of_one_file_and_its_diff(place: Place, written: str) -> None:
    create(place, "b.txt")
    assert "b.txt" not in place.run("history", "a.txt").stdout
    shown = place.run("history", "a.txt", "--diff").stdout
    assert "-one" in shown
    assert "+two" in shown
    assert "No writes to c.txt" in place.run("history", "c.txt").stdout


def test_undo_takes_the_last_write_back_and_undo_of_undo_is_redo(place: Place, written: str) -> None:
    first = place.run("undo", "--yes")
    assert (first.code, now(place)) == (0, ONE)
    assert written in first.stdout
    assert place.run("undo", "--yes").code == 0
    assert now(place) == TWO
    assert place.run("undo", "--yes").code == 0
    assert now(place) == ONE
    assert len(place.run("history").stdout.splitlines()) == 4


def test_undo_of_a_named_write_among_others(place: Place, written: str) -> None:
    create(place, "b.txt")
    assert place.run("undo", written, "--yes").code == 0
    assert place.files() == {"a.txt": ONE, "b.txt": b"b.txt\n"}


def test_undo_of_a_new_file_removes_it_and_its_new_directories(place: Place) -> None:
    create(place, "deep/er/new.txt")
    assert place.run("undo", "--yes").code == 0
    assert list(place.project.iterdir()) == []
    assert place.run("undo", "--yes").code == 0
    assert place.files() == {"deep/er/new.txt": b"deep/er/new.txt\n"}


def test_undo_of_a_turn_takes_back_all_of_it_and_no_more(place: Place, written: str) -> None:
    create(place, "b.txt", "c.txt")
    assert place.run("undo", "--turn", "--yes").code == 0
    assert place.files() == {"a.txt": TWO}


def test_a_file_that_was_saved_since_is_a_conflict(place: Place, written: str) -> None:
    place.write("a.txt", b"saved by hand\n")
    result = place.run("undo", "--yes")
    assert (result.code, result.stdout) == (5, "")
    assert "a.txt was changed" in result.stderr
    assert now(place) == b"saved by hand\n"


def test_a_turn_with_one_conflict_is_not_undone_by_half(place: Place) -> None:
    create(place, "b.txt", "c.txt")
    place.write("c.txt", b"saved by hand\n")
    result = place.run("undo", "--turn", "--yes")
    assert result.code == 5
    assert place.files() == {"b.txt": b"b.txt\n", "c.txt": b"saved by hand\n"}


def test_restore_brings_back_the_bytes_from_before_a_write_whatever_came_since(place: Place, written: str) -> None:
    overwrite(place, "a.txt", THREE)
    place.write("a.txt", b"saved by hand\n")
    assert place.run("restore", written, "--yes").code == 0
    assert now(place) == ONE
    assert place.run("undo", "--yes").code == 0
    assert now(place) == b"saved by hand\n"


def test_a_deleted_file_is_restored(place: Place, written: str) -> None:
    (place.project / "a.txt").unlink()
    assert place.run("restore", written, "--yes").code == 0
    assert now(place) == ONE


@pytest.mark.parametrize("command", ["undo", "restore"])
def test_without_a_terminal_it_needs_yes(place: Place, written: str, command: str) -> None:
    result = place.run(command, written)
    assert (result.code, result.stdout) == (2, "")
    assert "--yes" in result.stderr
    assert now(place) == TWO


@pytest.mark.parametrize("command", ["undo", "restore"])
def test_an_unknown_id_is_a_mistake(place: Place, written: str, command: str) -> None:
    result = place.run(command, "zzzzzz", "--yes")
    assert result.code == 2
    assert "zzzzzz" in result.stderr
    assert result.stderr.count("gemcode history") == 1


def test_nothing_to_undo_is_a_mistake(place: Place) -> None:
    assert place.run("undo", "--yes").code == 2


@pytest.mark.parametrize(("key", "code", "left"), [("y", 0, ONE), ("n", 5, TWO)])
def test_on_a_terminal_an_undo_shows_the_difference_and_asks(
    place: Place, written: str, key: str, code: int, left: bytes
) -> None:
    with place.terminal("undo") as (screen, _):
        screen.wait_for(r"-\s*two[\s\S]*\+\s*one")
        press(screen, r"a\.txt\?", key)
        assert screen.wait_for_end() == code  # and no reason is asked for: there is no model to tell
    assert now(place) == left


def test_bytes_of_any_kind_come_back_exactly(place: Place) -> None:
    content = b"\xef\xbb\xbfna\xc3\xafve\r\nmixed\nends\rand no last newline"
    place.write("a.txt", content)
    overwrite(place, "a.txt", b"replaced\n")
    assert place.run("undo", "--yes").code == 0
    assert now(place) == content


def test_another_project_has_another_history(place: Place, written: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    result = place.run("history", "-C", str(other))
    assert (result.code, result.stdout) == (0, "No writes in this project yet.\n")


def test_the_audit_log_tells_of_every_call_and_is_whole(place: Place, written: str) -> None:
    shown = place.run("audit", "show").stdout
    assert re.search(r"intent\s+read_file", shown)
    assert re.search(r"outcome\s+write_file\s+allowed: ok", shown)
    verdict = place.run("audit", "verify")
    assert verdict.code == 0
    assert "4 records" in verdict.stdout


def test_the_audit_log_as_json_is_a_line_a_record(place: Place, written: str) -> None:
    records = place.run("audit", "--json").events
    assert [record["event"] for record in records] == ["intent", "outcome", "intent", "outcome"]
    assert [record["seq"] for record in records] == [1, 2, 3, 4]


def test_a_refused_call_is_in_the_audit_log_too(place: Place) -> None:
    replies = [
        calls(call("read_file", path="../../etc/passwd"), call("write_file", path="x", content="x")),
        says("No."),
    ]
    place.ask("escape", replies=replies)
    shown = place.run("audit", "show").stdout
    assert "../../etc/passwd" in shown
    assert "denied" in shown


def logs(place: Place) -> list[Path]:
    return list(place.home.rglob("audit.jsonl"))


def test_a_changed_record_is_found(place: Place, written: str) -> None:
    (log,) = logs(place)
    log.write_bytes(log.read_bytes().replace(b"write_file", b"read_files", 1))
    result = place.run("audit", "verify")
    assert result.code == 1
    assert "altered" in result.stderr


def test_a_cut_tail_is_found(place: Place, written: str) -> None:
    (log,) = logs(place)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    result = place.run("audit", "verify")
    assert result.code == 1
    assert "missing" in result.stderr


def test_undo_is_in_the_audit_log(place: Place, written: str) -> None:
    before = len(place.run("audit", "--json").events)
    place.run("undo", "--yes")
    assert len(place.run("audit", "--json").events) > before
    assert place.run("audit", "verify").code == 0


def test_what_is_kept_is_for_the_user_alone(place: Place, written: str) -> None:
    state = place.home / "state"
    assert state.stat().st_mode & 0o077 == 0
    found = [path for path in state.rglob("*") if not path.is_symlink()]
    assert found
    assert [path for path in found if path.stat().st_mode & 0o077] == []
