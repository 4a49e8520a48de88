"""Another process swaps names while we resolve them: nothing outside the project is ever read, listed or made.

The naive method (look at the real path, then open) runs in the same harness and must lose, or the run proves nothing.
"""

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs
from gemcode.workspace.listing import ListingLimits, list_files, walk_files
from gemcode.workspace.root import Root
from tests.workspace.corpus import INSIDE, OUTSIDE, Place, build, snapshot
from tests.workspace.operations import Resolver
from tests.workspace.swapper import Swaps, swapping

Directories = frozenset[tuple[int, int]]  # the project's own, by device and inode, which no swap changes
Try = Callable[[Root, Directories], str]  # "inside", or a refusal; an escape fails an assertion
LIMITS = ListingLimits()
NAIVE_TRIES = 300_000


def read(root: Root, path: str) -> str:
    with root.open_file(path) as file:
        assert file.read(100) == INSIDE
    return "inside"


def read_below_swapped_directory(root: Root, inside: Directories) -> str:
    return read(root, "swapped/x")


def read_swapped_leaf(root: Root, inside: Directories) -> str:
    return read(root, "leaf")


def read_through_moving_dots(root: Root, inside: Directories) -> str:
    return read(root, "deep/er/up")


def list_swapped_directory(root: Root, inside: Directories) -> str:
    assert set(list_files(root, "swapped", limits=LIMITS).files) <= {"swapped/x", "swapped/mine"}
    return "inside"


def search_around_swapped_directory(root: Root, inside: Directories) -> str:
    for found in walk_files(root, limits=LIMITS):
        with contextlib.suppress(OSError):
            fd = osfs.open(found.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=found.directory_fd)
            try:
                assert osfs.read_all(fd, 100) == INSIDE
            finally:
                osfs.close(fd)
    return "inside"


def write_below_swapped_directory(root: Root, inside: Directories) -> str:
    with root.open_parent("swapped/x") as parent:
        assert parent.identity in inside
        leaf = parent.open_leaf()
        assert leaf is not None
        leaf.close()
    return "inside"


def make_directory_below_swapped_directory(root: Root, inside: Directories) -> str:
    with root.open_parent("swapped/new/x", create=True) as parent:
        made = root.open_directory("swapped/new") if parent.created else None
        if made is not None:
            osfs.close(made)
    with root.open_parent("swapped/new") as parent:
        osfs.rmdir(parent.fd, "new")
    return "inside"


def write_swapped_leaf(root: Root, inside: Directories) -> str:
    with root.open_parent("leaf") as parent:
        leaf = parent.open_leaf()
        assert leaf is not None
        with leaf:
            assert leaf.read(100) == INSIDE
    return "inside"


# What is swapped: the two names, and how they are built.
def directory_and_link(place: Place) -> tuple[str, str]:
    place.file("swapped/x")
    place.file("swapped/mine")
    place.link("zz-link", "../outdir")
    return "swapped", "zz-link"


def leaf_and_link(place: Place) -> tuple[str, str]:
    place.file("leaf")
    place.link("zz-link", "../outside.txt")
    return "leaf", "zz-link"


def leaf_and_fifo(place: Place) -> tuple[str, str]:
    place.file("leaf")
    os.mkfifo(place.project / "zz-fifo")
    return "leaf", "zz-fifo"


def leaf_and_directory(place: Place) -> tuple[str, str]:
    place.file("leaf")
    (place.project / "zz-directory").mkdir()
    return "leaf", "zz-directory"


def directories_at_two_depths(place: Place) -> tuple[str, str]:
    """`up` leads to the project's own file from one depth and out of the project from the other."""
    place.link("deep/er/up", "../../outside.txt")
    place.link("zz-flat/up", "../../outside.txt")
    place.file("outside.txt")
    return "deep/er", "zz-flat"


class Race(NamedTuple):
    attempt: Try
    prepare: Callable[[Place], tuple[str, str]]
    tries: int
    shows: bool = True  # whether meeting the swap gives another answer than missing it


RACES = {
    "T1 read, directory and link": Race(read_below_swapped_directory, directory_and_link, 30_000),
    "T2 list, directory and link": Race(list_swapped_directory, directory_and_link, 10_000),
    "T3 search, directory and link": Race(search_around_swapped_directory, directory_and_link, 4_000, shows=False),
    "T4 write, directory and link": Race(write_below_swapped_directory, directory_and_link, 16_000),
    "T5 make directories, directory and link": Race(make_directory_below_swapped_directory, directory_and_link, 8_000),
    "T7 read, leaf and link": Race(read_swapped_leaf, leaf_and_link, 20_000),
    "T7 write, leaf and link": Race(write_swapped_leaf, leaf_and_link, 12_000),
    "T8 read, leaf and FIFO": Race(read_swapped_leaf, leaf_and_fifo, 10_000),
    "T9 read, leaf and directory": Race(read_swapped_leaf, leaf_and_directory, 10_000),
    "read through dots": Race(read_through_moving_dots, directories_at_two_depths, 10_000, shows=False),
}


def race(name: str, resolver: Resolver, tries: int, directory: Path) -> Counter[str]:
    """How often each answer was given, and how often the names were swapped; AssertionError for an escape."""
    attempt = RACES[name].attempt
    place = build(directory)
    first, second = RACES[name].prepare(place)
    canary = snapshot(place.outside, skip=place.project)
    statuses = [os.stat(directory) for directory, _, _ in os.walk(place.project)]
    inside = frozenset((status.st_dev, status.st_ino) for status in statuses)
    outcomes: Counter[str] = Counter()
    open_files = os.listdir("/dev/fd")
    with Root.open(place.project, resolver) as root, exchange_or_skip(place.project, first, second) as swaps:
        for _ in range(tries):
            try:
                outcomes[attempt(root, inside)] += 1
            except ToolError as error:
                outcomes[error.kind] += 1
            except OSError as error:  # the test's own clean-up met the swap
                outcomes[errno.errorcode[error.errno or 0]] += 1
    assert snapshot(place.outside, skip=place.project) == canary
    assert os.listdir("/dev/fd") == open_files  # a leak would end in refusals that prove nothing
    outcomes["swaps"] = swaps.count
    return outcomes


@contextlib.contextmanager
def exchange_or_skip(directory: Path, first: str, second: str) -> Iterator[Swaps]:
    fd = osfs.open(str(directory), os.O_RDONLY)
    try:
        osfs.exchange(fd, first, fd, second)
        osfs.exchange(fd, first, fd, second)
    except OSError as error:
        pytest.skip(f"this file system can't exchange names: {error.strerror}")
    finally:
        osfs.close(fd)
    with swapping(directory, first, second) as swaps:
        yield swaps


@pytest.mark.parametrize("resolver", ["openat2", "walk"])
@pytest.mark.parametrize("name", RACES)
def test_a_race_never_leads_outside(name: str, resolver: Resolver, tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for attempt in range(5):  # a busy machine may keep the two processes from meeting
        outcomes += race(name, resolver, RACES[name].tries, tmp_path / str(attempt))
        if proves_something(name, outcomes):
            return
    pytest.fail(f"the swap was never met, or never missed, so the run is void: {outcomes}")


def proves_something(name: str, outcomes: Counter[str]) -> bool:
    met = len(set(outcomes) - {"inside", "swaps"}) > 0 or not RACES[name].shows
    return met and outcomes["inside"] > 0 and outcomes["swaps"] > RACES[name].tries / 100


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("resolver", ["openat2", "walk"])
@pytest.mark.parametrize("name", RACES)
def test_a_race_never_leads_outside_in_ten_million_tries(name: str, resolver: Resolver, tmp_path: Path) -> None:
    outcomes = race(name, resolver, 40 * RACES[name].tries, tmp_path / "race")
    print(f"{name}, {resolver}: {dict(outcomes)}")
    assert proves_something(name, outcomes), outcomes


@pytest.mark.parametrize(
    ("prepare", "path"), [(directory_and_link, "swapped/x"), (leaf_and_link, "leaf")], ids=["directory", "leaf"]
)
def test_the_naive_method_loses_in_the_same_harness(
    prepare: Callable[[Place], tuple[str, str]], path: str, tmp_path: Path
) -> None:
    place = build(tmp_path / "race")
    first, second = prepare(place)
    project = os.path.realpath(place.project)
    with exchange_or_skip(place.project, first, second):
        for _ in range(NAIVE_TRIES):
            with contextlib.suppress(OSError):
                asked = os.path.join(project, path)
                if os.path.realpath(asked).startswith(project + os.sep) and Path(asked).read_bytes() == OUTSIDE:
                    return
    pytest.fail(f"the naive method did not escape in {NAIVE_TRIES} tries: the harness proves nothing, the run is void")
