"""The branch is what HEAD says, read inside the project and without git."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gemcode.workspace.branch import branch_of
from gemcode.workspace.root import Root

HASH = "3f2a1bc" + "0" * 33


def branch(project: Path) -> str:
    with Root.open(project) as root:
        return branch_of(root)


def head(project: Path, content: bytes, directory: str = ".git") -> None:
    (project / directory).mkdir(parents=True, exist_ok=True)
    (project / directory / "HEAD").write_bytes(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"ref: refs/heads/main\n", "main"),
        (b"ref: refs/heads/feature/till\n", "feature/till"),
        (b"ref: refs/heads/main\r\n", "main"),
        (b"ref: refs/bisect/bad\n", "refs/bisect/bad"),
        (b"ref: refs/heads/caf\xc3\xa9\n", "café"),
        (b"ref: refs/heads/caf\xe9\n", "caf\ufffd"),
        (b"ref: refs/heads/a\x1b[2J\n", "a\x1b[2J"),
        (HASH.encode() + b"\n", "3f2a1bc"),
        (HASH.encode() + b"0" * 24 + b"\n", "3f2a1bc"),
        (b"ref: refs/heads/.invalid\n", ""),
        (b"", ""),
        (b"\n", ""),
        (b"ref: \n", ""),
        (b"ref: refs/heads/\n", ""),
        (b"ref: refs/heads/main\nmore\n", ""),
        (b"hello\n", ""),
        (b"ref: refs/heads/" + b"x" * 2_000_000, ""),
    ],
)
def test_the_branch_is_what_head_says(tmp_path: Path, content: bytes, expected: str) -> None:
    head(tmp_path, content)
    assert branch(tmp_path) == expected


def test_without_git_there_is_no_branch(tmp_path: Path) -> None:
    assert branch(tmp_path) == ""
    (tmp_path / ".git").mkdir()
    assert branch(tmp_path) == ""


def test_a_fifo_a_directory_and_a_link_out_of_the_project_are_no_head(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    os.mkfifo(project / ".git" / "HEAD")
    assert branch(project) == ""
    (project / ".git" / "HEAD").unlink()
    (project / ".git" / "HEAD").mkdir()
    assert branch(project) == ""
    (project / ".git" / "HEAD").rmdir()
    (tmp_path / "secret").write_text("ref: refs/heads/secret\n")
    (project / ".git" / "HEAD").symlink_to("../../secret")
    assert branch(project) == ""


def test_a_git_file_is_followed_inside_the_project_only(tmp_path: Path) -> None:
    project = tmp_path / "project"
    head(project, b"ref: refs/heads/inside\n", "parts/store")
    (project / ".git").write_text("gitdir: parts/store\n")
    assert branch(project) == "inside"
    head(tmp_path, b"ref: refs/heads/outside\n", "store")
    for pointer in ("../store", str(tmp_path / "store"), "", "x\x00y"):
        (project / ".git").write_text(f"gitdir: {pointer}\n")
        assert branch(project) == "", pointer


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_is_not_run_however_the_repository_asks_for_it(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "trunk")
    git("config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    assert branch(tmp_path) == "trunk"
    assert not (tmp_path / "ran").exists()
