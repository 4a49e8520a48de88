"""Every path row of the plan, through Root, with both resolvers: no escape, no traceback, the same answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gemcode.agent.errors import ToolError
from gemcode.workspace import names
from gemcode.workspace.listing import list_files
from gemcode.workspace.root import Root, is_root_or_home
from tests.workspace import mounted
from tests.workspace.corpus import LEXICAL, LINKS_AND_KINDS, PROTECTED_NAMES, ROWS, Row, build
from tests.workspace.operations import LIMITS, ROOT_OPERATIONS, Resolver, build_and_run

RESOLVERS: tuple[Resolver, ...] = ("openat2", "walk")


def has_openat2() -> bool:
    with Root.open("/") as root:
        return root.resolver == "openat2"


def make_device(directory: Path) -> None:
    build(directory)
    row = next(row for row in ROWS if row.needs == "device")
    row.setup(build(directory / "probe"))


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("row", [row for row in ROWS if row.needs != "mounts"], ids=lambda row: row.id)
def test_a_path_is_answered_as_planned(row: Row, resolver: Resolver, tmp_path: Path) -> None:
    if row.needs == "fuse":
        pytest.skip("a stalling file system needs FUSE; the time limit of a tool call is what bounds it")
    if row.needs == "device":
        try:
            make_device(tmp_path / "devices")
        except PermissionError:
            pytest.skip("only root can make device files")
    if resolver == "openat2" and not has_openat2():
        pytest.skip("this kernel has no openat2, or a filter refuses it")
    for name in row.operations:
        outcome = build_and_run(row, resolver, name, ROOT_OPERATIONS[name], tmp_path / name)
        assert outcome in row.expected(name), f"{row.id} {name}: {outcome}"


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_mounts_inside_are_the_users_but_the_kernels_are_refused(resolver: Resolver, tmp_path: Path) -> None:
    table = "tests.workspace.operations:ROOT_OPERATIONS"
    command = [sys.executable, "-m", mounted.__name__, table, resolver, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == mounted.CAN_NOT:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    outcomes = answer["outcomes"]
    assert len(outcomes) == 15
    assert answer["files"] == ["a/deep/ok", "a/ok", "mount/ok", "ok.txt"]
    assert "proc is on a file system that belongs to the kernel." in answer["notes"]
    for row in (row for row in ROWS if row.needs == "mounts"):
        for name in row.operations:
            assert outcomes[f"{row.id} {name}"] in row.expected(name), (row.id, name, outcomes)


# Of a path that the gate refuses, the class matters only where it is the reason.
CLASSED = [row for row in ROWS if row.read != "invalid_path" or row.name_class is not names.NameClass.ORDINARY]


@pytest.mark.parametrize("row", CLASSED, ids=lambda row: row.id)
def test_a_name_has_the_class_that_the_plan_gives_it(row: Row) -> None:
    path = str(row.path)
    assert names.classify(path) is row.name_class
    if row.read != "outside_project":
        assert bool(names.reason(path)) == (row.marked or row.name_class is not names.NameClass.ORDINARY)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_project_is_listed_without_protected_names_whatever_it_holds(row: Row, tmp_path: Path) -> None:
    place = build(tmp_path)
    if row.needs not in ("device", "fuse"):
        row.setup(place)
    with Root.open(place.project) as root:
        for path in list_files(root, limits=LIMITS).files:
            assert names.classify(names.check_lexical(path)) is not names.NameClass.NEVER


def test_a_name_that_is_no_text_is_listed_by_a_handle_that_opens_it(tmp_path: Path) -> None:
    row = next(row for row in ROWS if row.id == "P55")
    place = build(tmp_path)
    row.setup(place)
    with Root.open(place.project) as root:
        listing = list_files(root, limits=LIMITS)
        assert row.path in listing.files
        assert any("handle:" in note for note in listing.notes)


def test_a_write_into_a_bare_repository_is_known(tmp_path: Path) -> None:
    for row in (row for row in PROTECTED_NAMES if row.name_class is names.NameClass.ORDINARY):
        place = build(tmp_path / row.id)
        row.setup(place)
        with Root.open(place.project) as root:
            assert root.in_bare_repository(str(row.path)) == row.bare


def test_the_whole_disk_and_the_home_directory_are_known_as_wide_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "people" / "ann"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    wide = dict.fromkeys(("/", str(home), str(home.parent)), True) | {str(home / "work"): False}
    for path, expected in wide.items():
        with Root.open(path) as root:
            assert is_root_or_home(root) == expected


def test_the_corpus_is_complete() -> None:
    assert {row.id for row in LEXICAL} == {f"P{number}" for number in range(1, 61)}
    assert {row.id for row in LINKS_AND_KINDS} == {f"S{number}" for number in range(1, 37)}
    assert {row.id for row in PROTECTED_NAMES} >= {f"G{number}" for number in range(1, 46)}


def test_a_refusal_never_names_where_a_link_leads(tmp_path: Path) -> None:
    place = build(tmp_path)
    place.link("link", "../outside.txt")
    with Root.open(place.project) as root, pytest.raises(ToolError) as caught:
        root.open_file("link")
    assert "outside.txt" not in str(caught.value.as_json())


def test_forty_links_are_followed_as_by_the_kernel(tmp_path: Path) -> None:
    place = build(tmp_path)
    place.link("link40", "ok.txt")
    for number in range(39, 0, -1):
        place.link(f"link{number}", f"link{number + 1}")
    assert os.path.exists(place.project / "link1")
    for resolver in RESOLVERS:
        with Root.open(place.project, resolver) as root, root.open_file("link1") as file:
            assert file.path == "ok.txt"
