"""Listings against git itself, on random trees with random ignore files, and the limits of an ignore file."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from gemcode.workspace.ignore import MAX_BYTES, MAX_PATTERNS, IgnoreFile, IgnoreStack
from gemcode.workspace.listing import ListingLimits, list_files
from gemcode.workspace.names import from_handle
from gemcode.workspace.root import Root

GIT = shutil.which("git")
EVERYTHING = ListingLimits(entries=1_000_000, depth=60, seconds=60)
NAMES = [
    "a",
    "b",
    "ab",
    "abc",
    "foo",
    "bar",
    "foo.py",
    "bar.py",
    "a.b",
    "x y",
    "é",
    "#x",
    "!y",
    "t ",
    "[z]",
    "q\\",
    "A",
    "-",
    "a-b",
    "1",
]
PIECES = [
    *(
        "a",
        "b",
        "foo",
        "bar",
        "*",
        "**",
        "?",
        "*.py",
        "a*",
        "*b",
        "fo?",
        "x y",
        "é",
        "[ab]",
        "[!a]*",
        "[^a]*",
        "[a-c]*",
        "[]a]*",
    ),
    *(
        "[[:alpha:]]*",
        "[[:digit:]]",
        "[[:upper:][:space:]]*",
        "[[:nope:]]",
        "[a",
        "\\a",
        "\\*",
        "[\\]z]",
        "\\[z\\]",
        "q\\\\",
        "\\",
        "***",
    ),
    *(
        "a**",
        "**b",
        "foo**",
        "f**o",
        "*o*o*",
        "[a-]",
        "[--a]",
        "[!]",
        "[/]",
        "a[/]b",
        "t\\ ",
        "t ",
        "[[:a]*",
        "[:alpha:]",
        "[a-\\",
        "[a-\\c]",
        "[[:al",
        "?*",
        "a.b",
        "-",
    ),
]


def random_pattern(source: random.Random) -> str:
    parts = [source.choice(PIECES) for _ in range(source.choice((1, 1, 1, 2, 2, 3)))]
    text = source.choice(("", "", "", "/")) + "/".join(parts) + source.choice(("", "", "", "/"))
    text = source.choice(("", "", "", "!")) + text
    return text + source.choice(("", "", "", "", " ", "  ", "\t", "\\ ", "\r"))


def random_ignore_file(source: random.Random) -> bytes:
    lines = [random_pattern(source) for _ in range(source.randint(1, 7))]
    lines += source.choices(
        ["", "# a comment", "\\#x", "\\!y", "!", "/", "//", "!/", " ", "**/", "/**", "/*", "*/"], k=1
    )
    source.shuffle(lines)
    return source.choice((b"", b"", b"\xef\xbb\xbf")) + "\n".join(lines).encode() + source.choice((b"", b"\n"))


def make_random_tree(directory: Path, source: random.Random, depth: int = 0) -> None:
    for name in source.sample(NAMES, source.randint(3, 7)):
        child = directory / name
        kind = source.random()
        if kind < 0.4 and depth < 3:
            child.mkdir()
            make_random_tree(child, source, depth + 1)
        elif kind < 0.5:
            child.symlink_to(source.choice(("a", "../b", "/", "nowhere")))
        else:
            child.write_bytes(b"")
    if source.random() < (0.9 if depth == 0 else 0.25):
        (directory / ".gitignore").write_bytes(random_ignore_file(source))


def listed_by_git(directory: Path) -> list[str]:
    command = [GIT, "-c", "core.excludesFile=", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    result = subprocess.run(command, cwd=directory, capture_output=True, check=True)
    return sorted(os.fsdecode(path) for path in result.stdout.split(b"\0") if path)


def listed_by_us(root: Root) -> list[str]:
    files = list_files(root, limits=EVERYTHING).files
    return sorted(from_handle(path) if path.startswith("handle:") else path for path in files)


def compare_one_tree(directory: Path, seed: int) -> None:
    source = random.Random(seed)
    make_random_tree(directory, source)
    subprocess.run([GIT, "init", "-q"], cwd=directory, check=True)
    if source.random() < 0.3:
        (directory / ".git" / "info").mkdir(exist_ok=True)
        (directory / ".git" / "info" / "exclude").write_bytes(random_ignore_file(source))
    track_some(directory, source)
    with Root.open(directory) as root:
        assert listed_by_us(root) == listed_by_git(directory), f"seed {seed}"


def track_some(directory: Path, source: random.Random) -> None:
    """Let git track a few files, ignored ones among them, in an index of any version."""
    files = [path for path in directory.rglob("*") if not path.is_dir() and ".git" not in path.parts]
    chosen = [path for path in sorted(files) if source.random() < 0.15]
    if chosen and source.random() < 0.5:
        names = b"\0".join(os.fsencode(path.relative_to(directory)) for path in chosen)
        command = [GIT, "--literal-pathspecs", "add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"]
        subprocess.run(command, cwd=directory, check=True, input=names)
        subprocess.run([GIT, "update-index", "--index-version", source.choice("234")], cwd=directory, check=True)


@pytest.mark.skipif(GIT is None, reason="git is not installed")
@pytest.mark.parametrize("block", range(10))
def test_a_listing_is_what_git_lists(tmp_path: Path, block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        tree = tmp_path / str(seed)
        tree.mkdir()
        compare_one_tree(tree, seed)


@pytest.mark.soak
@pytest.mark.skipif(GIT is None, reason="git is not installed")
@pytest.mark.timeout(3600)
def test_a_listing_is_what_git_lists_in_twenty_thousand_trees(tmp_path: Path) -> None:
    for seed in range(1_000, 21_000):
        tree = tmp_path / "tree"
        tree.mkdir()
        compare_one_tree(tree, seed)
        shutil.rmtree(tree)


def ignored(data: bytes, path: str, *, is_directory: bool = False) -> bool:
    return IgnoreStack().with_git(IgnoreFile(data)).ignores(path, is_directory)


def test_gemcodes_own_ignore_file_wins_over_git_and_can_bring_a_file_back(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.txt", "sub/c.txt", "sub/d.txt", "gone/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".gitignore").write_text("*.log\ngone/\n")
    (tmp_path / ".gemcodeignore").write_text("!b.log\nc.txt\n")
    (tmp_path / "sub" / ".gemcodeignore").write_text("!c.txt\n")
    with Root.open(tmp_path) as root:
        assert list_files(root, limits=EVERYTHING).files == (".gitignore", "b.log", "sub/c.txt", "sub/d.txt")


def test_an_ignore_file_that_is_too_long_is_used_up_to_the_limit() -> None:
    lines = b"first\n" + b"#" + b"x" * MAX_BYTES + b"\nlast\n"
    file = IgnoreFile(lines[: MAX_BYTES + 1])
    assert "KiB" in file.note
    assert file.verdict(b"first", False) is True
    assert file.verdict(b"last", False) is None


def test_an_ignore_file_with_too_many_patterns_is_used_up_to_the_limit() -> None:
    file = IgnoreFile(b"".join(b"name%d\n" % number for number in range(MAX_PATTERNS + 1)))
    assert str(MAX_PATTERNS) in file.note
    assert file.verdict(b"name%d" % (MAX_PATTERNS - 1), False) is True
    assert file.verdict(b"name%d" % MAX_PATTERNS, False) is None


def test_the_largest_ignore_file_still_works() -> None:
    lines = [b"*%d*%s*" % (number, b"ab" * 12) for number in range(MAX_PATTERNS)]
    data = b"\n".join(lines)
    assert MAX_BYTES * 3 / 4 < len(data) < MAX_BYTES
    file = IgnoreFile(data)
    assert not file.note
    assert file.verdict(b"x1999y" + b"ab" * 12, False) is True
    assert file.verdict(b"x1999y" + b"ab" * 11, False) is None


@pytest.mark.parametrize("pattern", [b"**/" * 60 + b"x", b"*a" * 60 + b"b", b"*?" * 100 + b"[a-z]*" * 100])
def test_no_pattern_takes_more_than_linear_time(pattern: bytes) -> None:
    """With a backtracking matcher each of these would run for years; the test's own time limit is the guard."""
    file = IgnoreFile(pattern)
    for _ in range(100):
        file.verdict(b"a/" * 100 + b"a" * 200, False)


def test_a_set_of_patterns_that_needs_too_much_memory_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemcode.workspace.wildmatch._MEMORY", 1000)
    file = IgnoreFile(b"*.py\n" * 100)
    assert "too complex" in file.note
    assert not file
    assert file.verdict(b"a.py", False) is None


def test_with_any_memory_a_set_of_patterns_works_or_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running out of memory in a match would look like "no match", so that it must show when the set is compiled."""
    outcomes = set()
    for memory in range(1000, 200_000, 1500):
        monkeypatch.setattr("gemcode.workspace.wildmatch._MEMORY", memory)
        file = IgnoreFile(b"".join(b"*name%d*x\n" % number for number in range(100)))
        outcomes.add(bool(file))
        assert file.verdict(b"a/name42.x", False) is (True if file else None)
    assert outcomes == {True, False}


def test_a_pattern_ends_at_a_nul_as_in_git() -> None:
    assert ignored(b"a\0b\n", "a")


def test_a_directory_pattern_does_not_match_a_file() -> None:
    assert ignored(b"build/\n", "x/build", is_directory=True)
    assert not ignored(b"build/\n", "x/build")
