"""Taking back, where only a part of it can be taken back."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gemcode import app
from gemcode.agent.errors import GemcodeError
from gemcode.commands.journal import undo_now
from gemcode.workspace import osfs, writer
from gemcode.workspace.proposal import propose, snapshot
from tests.test_config import Home
from tests.workspace.ground import before_call


@pytest.fixture
def project(tmp_path: Path) -> Iterator[app.Project]:
    place = tmp_path / "project"
    place.mkdir()
    with app.open_project(replace(Home(tmp_path / "home").load(), project=place), "s") as opened:
        yield opened


def write(project: app.Project, *paths: str) -> None:
    bench = project.bench
    for path in paths:
        writer.write(bench.root, bench.store, propose(snapshot(bench.root, path), b"new\n"), turn="t", reason="test")


def test_a_turn_that_is_undone_in_part_says_of_each_file_what_became_of_it(
    project: app.Project, tmp_path: Path
) -> None:
    write(project, "a.txt", "b.txt")
    saved = tmp_path / "project" / "a.txt"
    with osfs.inject(before_call("fsync", lambda: saved.write_bytes(b"saved by hand\n"))):
        told = undo_now(project, "turn").splitlines()
    assert [line.split()[:2] for line in told] == [["✓", "b.txt"], ["✗", "a.txt"], ["Undo", "this:"]]
    assert saved.read_bytes() == b"saved by hand\n"
    assert not saved.with_name("b.txt").exists()


def test_an_undo_that_takes_nothing_back_is_an_error(project: app.Project, tmp_path: Path) -> None:
    write(project, "a.txt")
    saved = tmp_path / "project" / "a.txt"
    with (
        osfs.inject(before_call("fsync", lambda: saved.write_bytes(b"saved by hand\n"))),
        pytest.raises(GemcodeError, match=r"a\.txt"),
    ):
        undo_now(project, "")
    assert saved.read_bytes() == b"saved by hand\n"
