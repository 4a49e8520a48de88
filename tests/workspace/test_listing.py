"""Listings: order, pages, budgets, and what is shown of names that are no text."""

import errno
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs
from gemcode.workspace.listing import Listing, ListingLimits, WalkReport, list_files, walk_files
from gemcode.workspace.root import Root

PLENTY = ListingLimits(entries=10_000, depth=60, seconds=60)


def make(directory: Path, *paths: str) -> Path:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(b"")
    return directory


def list_all(project: Path, path: str = ".", pattern: str | None = None, limits: ListingLimits = PLENTY) -> Listing:
    with Root.open(project) as root:
        return list_files(root, path, pattern, limits=limits)


def list_by_pages(project: Path, limits: ListingLimits, path: str = ".") -> tuple[list[str], int]:
    files: list[str] = []
    pages = 0
    cursor = None
    with Root.open(project) as root:
        while True:
            page = list_files(root, path, limits=limits, cursor=cursor)
            assert page.truncated == (page.next_cursor is not None)
            files += page.files
            pages += 1
            cursor = page.next_cursor
            if cursor is None:
                return files, pages


def test_files_are_sorted_by_their_whole_path(tmp_path: Path) -> None:
    make(tmp_path, "b", "a/z", "a/b/c", "a-", "a0", "a.b", ".hidden", "c/d")
    files = list_all(tmp_path).files
    assert files == (".hidden", "a-", "a.b", "a/b/c", "a/z", "a0", "b", "c/d")
    assert list(files) == sorted(files)


def test_a_directory_is_listed_with_paths_from_the_root_and_the_rules_above_it(tmp_path: Path) -> None:
    make(tmp_path, "src/a.py", "src/a.pyc", "src/lib/b.py", "src/lib/gen/c.py", "other")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    (tmp_path / "src" / ".gitignore").write_text("gen/\n")
    assert list_all(tmp_path, "src").files == ("src/.gitignore", "src/a.py", "src/lib/b.py")
    assert list_all(tmp_path, "src/lib/").files == ("src/lib/b.py",)
    assert list_all(tmp_path, "src/lib/gen").files == ("src/lib/gen/c.py",)  # asked for by name


def test_a_pattern_is_compared_from_the_listed_directory_and_from_the_root(tmp_path: Path) -> None:
    make(tmp_path, "src/a.py", "src/b/a.py", "a.py", "a.txt")
    assert list_all(tmp_path, pattern="*.py").files == ("a.py", "src/a.py", "src/b/a.py")
    assert list_all(tmp_path, "src", "b/*.py").files == ("src/b/a.py",)
    assert list_all(tmp_path, "src", "src/*.py").files == ("src/a.py",)
    assert list_all(tmp_path, pattern="*.rs") == Listing((), False, None, ())


def test_links_are_listed_as_links_and_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "dir/file")
    (tmp_path / "to-dir").symlink_to("dir")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "loop").symlink_to("loop")
    listing = list_all(tmp_path)
    assert listing.files == ("dir/file", "loop", "out", "to-dir")
    assert listing.links == {"loop", "out", "to-dir"}


def test_a_directory_asked_for_through_a_link_is_listed_under_its_own_name(tmp_path: Path) -> None:
    make(tmp_path, "dir/deep/file")
    (tmp_path / "link").symlink_to("dir/deep")
    assert list_all(tmp_path, "link").files == ("dir/deep/file",)


def test_protected_names_and_special_files_are_not_listed(tmp_path: Path) -> None:
    make(
        tmp_path, "a", ".git/config", "sub/.GIT/x", "x.pth", ".gemcodeignore", ".gemcode-tmp-1", "git~1/x", "é/．git/x"
    )
    os.mkfifo(tmp_path / "fifo")
    assert list_all(tmp_path).files == ("a",)


def test_names_that_are_no_plain_text_are_shown_as_handles_that_work(tmp_path: Path) -> None:
    names = [
        b"caf\xe9",
        b"new\nline",
        b"esc\x1b[2J",
        b"back\\slash",
        b"co:lon",
        b"dir\xff/in",
        b"plain",
        b"100%",
        b"%0A",
    ]
    for name in names:
        path = os.path.join(os.fsencode(tmp_path), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(name)
    with Root.open(tmp_path) as root:
        listing = list_files(root, limits=PLENTY)
        assert sum(path.startswith("handle:") for path in listing.files) == 6
        assert all(path.isprintable() for path in listing.files)
        read = set()
        for path in listing.files:
            with root.open_file(path) as file:
                read.add(file.read(100))
    assert read == set(names)
    assert any("handle:" in note for note in listing.notes)
    files, pages = list_by_pages(tmp_path, ListingLimits(entries=1))
    assert tuple(files) == listing.files
    assert pages == len(names)


NAMES = st.sampled_from(["a", "b", "a-", "a.", "a0", "A", "é", "ab", "!", "\U0001f600", "\ue000"])
TREES = st.sets(st.lists(NAMES, min_size=1, max_size=4).map("/".join), max_size=25)


@settings(max_examples=60, deadline=None)
@given(TREES, st.integers(1, 7), st.sampled_from([0.0, 60.0]))
def test_pages_together_are_the_whole_listing(
    tmp_path_factory: pytest.TempPathFactory, paths: set[str], size: int, seconds: float
) -> None:
    """Whatever ends a page, its size or no time at all: nothing is lost, nothing comes twice."""
    project = tmp_path_factory.mktemp("project")
    for path in sorted(paths):
        if not any(other.startswith(path + "/") for other in paths):
            make(project, path)
    whole = list_all(project)
    assert not whole.truncated
    files, _ = list_by_pages(project, ListingLimits(entries=size, seconds=seconds))
    assert tuple(files) == whole.files == tuple(sorted(whole.files))


def test_a_page_ends_exactly_at_its_size(tmp_path: Path) -> None:
    make(tmp_path, *(f"f{number}" for number in range(10)))
    assert not list_all(tmp_path, limits=ListingLimits(entries=10)).truncated
    page = list_all(tmp_path, limits=ListingLimits(entries=9))
    assert (len(page.files), page.truncated, page.next_cursor) == (9, True, "f8")


def test_a_cursor_from_nowhere_only_moves_the_start(tmp_path: Path) -> None:
    make(tmp_path, "a", "b/c", "d")
    with Root.open(tmp_path) as root:
        assert list_files(root, limits=PLENTY, cursor="b/b").files == ("b/c", "d")
        assert list_files(root, limits=PLENTY, cursor="../../etc").files == ("a", "b/c", "d")
        assert list_files(root, limits=PLENTY, cursor="zzz").files == ()
        with pytest.raises(ToolError):
            list_files(root, limits=PLENTY, cursor="handle:nonsense")


def test_no_time_left_is_said_and_can_be_gone_on_from(tmp_path: Path) -> None:
    make(tmp_path, "a/x", "b/x")
    page = list_all(tmp_path, limits=ListingLimits(seconds=0))
    assert page.truncated and page.next_cursor == "a/"
    assert any("Stopped after 0 s" in note for note in page.notes)


def test_a_tree_of_three_thousand_levels_is_bounded(tmp_path: Path) -> None:
    """D1: deeper than any path can be spelled, and than Python recurses."""
    fds = [os.open(tmp_path, os.O_RDONLY)]
    for _ in range(3000):
        os.mkdir("d", dir_fd=fds[-1])
        fds.append(os.open("d", os.O_RDONLY, dir_fd=fds[-1]))
        os.close(fds[-2])
    os.close(fds[-1])
    listing = list_all(tmp_path)
    assert listing.truncated and listing.next_cursor is None
    assert any("too deep" in note for note in listing.notes)
    deeper = list_all(tmp_path, "/".join("d" * 60), limits=ListingLimits(depth=3000, seconds=60))
    assert deeper.files == ()  # perhaps out of file descriptors on the way, but never out of stack
    for _ in range(2999):  # a recursive clean-up would fail
        (tmp_path / "d" / "d").rename(tmp_path / "up")
        (tmp_path / "d").rmdir()
        (tmp_path / "up").rename(tmp_path / "d")


def test_a_directory_with_too_many_entries_is_cut_with_a_note(tmp_path: Path) -> None:
    make(tmp_path, *(f"many/f{number}" for number in range(30)), "one")
    listing = list_all(tmp_path, limits=ListingLimits(directory_entries=20))
    assert len(listing.files) == 21
    assert listing.truncated and any("more than 20" in note for note in listing.notes)


@pytest.mark.timeout(60)  # five minutes otherwise
def test_ignore_rules_made_to_be_slow_are_bounded(tmp_path: Path) -> None:
    source = random.Random(1)
    rules = ["*" + "*".join(source.choices("abcdefgh", k=14)) + "*" for _ in range(1999)]
    (tmp_path / ".gitignore").write_text("\n".join(rules))
    for _ in range(2_000):
        (tmp_path / "".join(source.choices("abcdefghijk", k=250))).touch()
    with Root.open(tmp_path) as root:
        listing = list_files(root, limits=ListingLimits(seconds=0.1))
    assert listing.truncated and "takes too long" in listing.notes[0]


def test_notes_are_bounded(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"d{number}" / "below").mkdir(parents=True)
    with Root.open(tmp_path) as root:
        listing = list_files(root, limits=ListingLimits(depth=1))
    assert len(listing.notes) == 21 and listing.truncated


def test_an_ignore_file_that_is_cut_is_named(tmp_path: Path) -> None:
    make(tmp_path, "sub/a", "sub/b")
    (tmp_path / "sub" / ".gitignore").write_text("a\n" + "#" * 70_000 + "\nb\n")
    listing = list_all(tmp_path)
    assert listing.files == ("sub/.gitignore", "sub/b")
    assert any(note.startswith("sub/.gitignore is longer") for note in listing.notes)


@pytest.mark.parametrize("kind", ["link", "directory", "fifo"])
def test_an_ignore_file_that_is_no_file_says_nothing(tmp_path: Path, kind: str) -> None:
    make(tmp_path, "a", "rules")
    (tmp_path / "rules").write_text("a\n")
    if kind == "link":
        (tmp_path / ".gitignore").symlink_to("rules")
    elif kind == "directory":
        (tmp_path / ".gitignore").mkdir()
    else:
        os.mkfifo(tmp_path / ".gitignore")
    assert {"a", "rules"} <= set(list_all(tmp_path).files)


def test_what_git_excludes_for_this_clone_is_excluded(tmp_path: Path) -> None:
    make(tmp_path, "a", "b", ".git/info/exclude")
    (tmp_path / ".git/info/exclude").write_text("a\n")
    assert list_all(tmp_path).files == ("b",)
    (tmp_path / ".git/info/exclude").unlink()
    assert list_all(tmp_path).files == ("a", "b")


def test_a_walk_gives_an_open_directory_and_a_name_for_each_file(tmp_path: Path) -> None:
    make(tmp_path, "a/b/c", "d")
    (tmp_path / "link").symlink_to("d")
    with Root.open(tmp_path) as root:
        seen = []
        for found in walk_files(root, limits=PLENTY):
            assert os.stat(found.name, dir_fd=found.directory_fd, follow_symlinks=False) == os.lstat(
                tmp_path / found.path
            )
            seen.append((found.path, found.is_link))
        assert seen == [("a/b/c", False), ("d", False), ("link", True)]


def test_a_walk_that_is_left_early_closes_its_directories(tmp_path: Path) -> None:
    make(tmp_path, "a/b/c/d", "a/b/e")
    with Root.open(tmp_path) as root:
        before = os.listdir("/dev/fd")
        walk = walk_files(root, limits=PLENTY)
        assert next(walk).path == "a/b/c/d"
        walk.close()
        assert len(os.listdir("/dev/fd")) == len(before)


def test_a_directory_that_can_not_be_read_is_noted_and_one_that_vanished_is_not(tmp_path: Path) -> None:
    make(tmp_path, "a/x", "b/x", "c/x")
    failing: list[str] = []

    def fail(operation: str) -> None:
        if operation == "scandir":
            failing.append(operation)
            if len(failing) == 2:
                raise OSError(errno.EACCES, "no")
            if len(failing) == 3:
                raise OSError(errno.ENOENT, "gone")

    report = WalkReport()
    with Root.open(tmp_path) as root, osfs.inject(fail):
        files = [found.path for found in walk_files(root, limits=PLENTY, report=report)]
    assert files == ["c/x"]
    assert report.cut and len(report.notes) == 1
    assert report.notes[0].startswith("a could not be listed")


def test_an_ignore_file_that_can_not_be_read_says_nothing(tmp_path: Path) -> None:
    make(tmp_path, "a")
    (tmp_path / ".gitignore").write_text("a\n")

    def fail(operation: str) -> None:
        if operation == "read":
            raise OSError(errno.EIO, "broken")

    with Root.open(tmp_path) as root, osfs.inject(fail):
        assert list_files(root, limits=PLENTY).files == (".gitignore", "a")


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="there is no procfs here")
def test_the_whole_disk_is_listed_without_what_the_kernel_makes() -> None:
    with Root.open("/") as root:
        listing = list_files(root, limits=ListingLimits(entries=1_000_000, depth=1, seconds=60))
        with pytest.raises(ToolError, match="belongs to the kernel"):
            root.open_file("proc/version")
    assert "proc is on a file system that belongs to the kernel." in listing.notes
    assert not any(path.startswith("proc/") for path in listing.files)


def test_a_missing_or_forbidden_directory_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "file", ".git/x")
    for path, kind in (
        ("nothing", "not_found"),
        ("file", "not_a_directory"),
        (".git", "protected"),
        ("..", "outside_project"),
    ):
        with pytest.raises(ToolError) as caught:
            list_all(tmp_path, path)
        assert caught.value.kind == kind


@pytest.mark.soak
def test_half_of_a_hundred_thousand_files_ignored(tmp_path: Path) -> None:
    for number in range(100):
        make(tmp_path, *(f"src/p{number}/m{number}_{file}.{kind}" for file in range(500) for kind in ("py", "pyc")))
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    assert len(list_all(tmp_path, limits=ListingLimits(entries=100_000, seconds=60)).files) == 50_001
