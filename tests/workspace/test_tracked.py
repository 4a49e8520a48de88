"""Git's index: every version says the same, and no bytes lead to more than names."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.workspace.listing import ListingLimits, list_files
from gemcode.workspace.root import Root
from gemcode.workspace.tracked import Tracked

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="git is not installed")
PATHS = ("a.log", "build/keep.txt", "build/sub/deep.txt", "b.txt", "caf\udce9.log", "x" * 200 + ".log")
LONG = "/".join(["y" * 250] * 16) + "/" + "z" * 250 + ".log"  # longer than the 12 bits that an entry has for it


def git(directory: Path, *arguments: str) -> None:
    subprocess.run([str(GIT), *arguments], cwd=directory, check=True, capture_output=True)


def repository(directory: Path, version: str = "2", kind: str = "sha1", *more: str) -> Path:
    git(directory, "init", "-q", f"--object-format={kind}")
    for path in PATHS:
        target = Path(os.fsdecode(os.fsencode(directory / path)))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.encode("utf-8", "surrogateescape"))
    git(directory, "add", "--force", ".")
    for path in more:
        entry = f"100644,{'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'},{path}"
        git(directory, "update-index", "--add", "--cacheinfo", entry)
    git(directory, "update-index", "--index-version", version)
    return directory


def listed(project: Path) -> list[str]:
    with Root.open(project) as root:
        return list(list_files(root, limits=ListingLimits(seconds=60)).files)


@needs_git
@pytest.mark.parametrize("kind", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_a_tracked_file_is_listed_although_a_rule_names_it(tmp_path: Path, version: str, kind: str) -> None:
    repository(tmp_path, version, kind)
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    (tmp_path / "untracked.log").touch()
    (tmp_path / "build" / "untracked.txt").touch()
    (tmp_path / "build" / "sub" / ".gitignore").write_text("!untracked.txt\n")
    (tmp_path / "build" / "sub" / "untracked.txt").touch()
    (tmp_path / "b.txt").unlink()
    names = {".gitignore", "a.log", "build/keep.txt", "build/sub/deep.txt", "handle:caf%E9.log", "x" * 200 + ".log"}
    assert set(listed(tmp_path)) == names


@needs_git
def test_gemcodes_own_ignore_file_hides_tracked_files_too(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / ".gemcodeignore").write_text("*.log\nbuild/sub/\n")
    assert listed(tmp_path) == [".gitignore", "b.txt", "build/keep.txt"]


@needs_git
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_a_path_longer_than_its_length_field_is_read(tmp_path: Path, version: str) -> None:
    repository(tmp_path, version, "sha1", LONG, LONG + "2", "zz.log")
    tracked = Tracked((tmp_path / ".git" / "index").read_bytes)
    assert all(tracked.has(path.encode(), False) for path in (LONG, LONG + "2", "zz.log", "a.log"))
    assert tracked.has(LONG[:250].encode(), True) and not tracked.has(b"y", True) and not tracked.has(b"a.log", True)


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    made = [repository(tmp_path_factory.mktemp("index"), version) for version in "24"]
    return [(directory / ".git" / "index").read_bytes() for directory in made]


@needs_git
@given(data=st.data())
def test_a_damaged_index_says_nothing_or_other_names(data: st.DataObject, indexes: list[bytes]) -> None:
    index = bytearray(data.draw(st.sampled_from(indexes)))
    for at in data.draw(st.lists(st.integers(0, len(index) - 1), max_size=8)):
        index[at] = data.draw(st.integers(0, 255))
    stop = data.draw(st.integers(0, len(index)))
    for damaged in (bytes(index), bytes(index[:stop])):
        assert Tracked(lambda damaged=damaged: damaged).has(b"nowhere", False) is False


@pytest.mark.timeout(20)
def test_an_index_made_to_be_slow_or_large_is_answered() -> None:
    head = b"DIRC" + (4).to_bytes(4, "big")
    endless_number = head + (1).to_bytes(4, "big") + bytes(62) + b"\xff" * (8 << 20)
    many = 60_000
    long_name = bytes(62) + b"\0" + b"a" * 100_000 + b"\0"
    repeated = (bytes(62) + b"\0b\0") * many
    for index in (endless_number, head + (many + 1).to_bytes(4, "big") + long_name + repeated):
        assert not Tracked(lambda index=index: index).has(b"a", False)
