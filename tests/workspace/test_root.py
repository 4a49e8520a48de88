"""Root beyond the corpus: what it hands out, what it closes, and what each refusal says."""

import contextlib
import errno
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs
from gemcode.workspace.listing import ListingLimits, list_files
from gemcode.workspace.refusal import tool_error
from gemcode.workspace.resolve import open_by_walk
from gemcode.workspace.root import Root
from tests.workspace.corpus import INSIDE, Place, build
from tests.workspace.operations import ROOT_OPERATIONS, Resolver

RESOLVERS = pytest.mark.parametrize("resolver", ["openat2", "walk"])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return build(tmp_path / "outside")


def open_fds() -> set[str]:
    return set(os.listdir("/dev/fd"))


@contextlib.contextmanager
def refused(kind: str) -> Iterator[None]:
    with pytest.raises(ToolError) as caught:
        yield
    assert caught.value.kind == kind, caught.value.as_json()


def test_the_root_knows_itself(place: Place) -> None:
    with Root.open(place.project) as root:
        status = place.project.stat()
        assert root.identity == (status.st_dev, status.st_ino)
        assert root.display == str(place.project)
        assert root.resolver in ("openat2", "walk")
    assert root.fd == -1
    root.close()


def test_a_relative_root_is_shown_in_full(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.outside)
    with Root.open("proj") as root:
        assert root.display == str(place.project)


@pytest.mark.parametrize(
    ("path", "kind"), [("nothing", "not_found"), ("outside.txt", "not_a_directory"), ("/proc", "protected")]
)
def test_a_root_that_can_not_be_one_is_refused(place: Place, path: str, kind: str) -> None:
    before = open_fds()
    with refused(kind):
        Root.open(place.outside / path)
    assert open_fds() == before


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_without_openat2_the_walk_is_used(place: Place, code: int) -> None:
    def no_openat2(operation: str) -> None:
        if operation == "openat2":
            raise OSError(code, os.strerror(code))

    with osfs.inject(no_openat2), Root.open(place.project) as root:
        assert root.resolver == "walk"
        with root.open_file("a/ok") as file:
            assert file.read(100) == INSIDE


@RESOLVERS
def test_a_file_is_named_without_links(place: Place, resolver: Resolver) -> None:
    place.link("a/up", "..")
    place.link("there", "a/up/a/deep/.")
    with Root.open(place.project, resolver) as root:
        with root.open_file("there/ok") as file:
            assert file.path == "a/deep/ok"
        fd, real = root.open_directory_and_name("a/up")
        osfs.close(fd)
        assert real == "."
        fd, real = root.open_directory_and_name("there")
        osfs.close(fd)
        assert real == "a/deep"


@RESOLVERS
def test_a_link_is_not_followed_when_told_not_to(place: Place, resolver: Resolver) -> None:
    place.link("there", "a")
    with Root.open(place.project, resolver) as root, refused("symlink"):
        root.open_directory("there", follow=False)


@RESOLVERS
def test_a_link_that_ends_with_a_slash_must_lead_to_a_directory(place: Place, resolver: Resolver) -> None:
    place.link("file", "a/ok/")
    place.link("directory", "a/")
    with Root.open(place.project, resolver) as root:
        with refused("not_a_directory"):
            root.open_file("file")
        with root.open_file("directory/ok") as file:
            assert file.path == "a/ok"


def answer_of_the_kernel(root: Root, path: str) -> object:
    """What openat2 says when it may follow links beneath the root: an inode, or the kind of a refusal."""
    try:
        fd = osfs.openat2(root.fd, path, os.O_RDONLY, osfs.RESOLVE_BENEATH | osfs.RESOLVE_NO_MAGICLINKS)
    except OSError as error:
        return tool_error(error, path).kind
    inode = osfs.fstat(fd).st_ino
    osfs.close(fd)
    return inode


def answer_of_the_walk(root: Root, path: str) -> object:
    try:
        fd, real = open_by_walk(root.fd, path, os.O_RDONLY, True)
    except OSError as error:
        return tool_error(error, path).kind
    inode = osfs.fstat(fd).st_ino
    assert os.lstat(os.path.join(root.display, real)).st_ino == inode, "the name without links is not the file's"
    osfs.close(fd)
    return inode


@pytest.mark.parametrize("seed", range(6))
def test_the_walk_follows_random_links_as_the_kernel_does(place: Place, seed: int) -> None:
    source = random.Random(seed)
    directories = ["", "d/", "e/", "d/d/", "d/e/", "d/e/d/"]
    for directory in directories:
        place.file(f"{directory}f")
        for number in range(5):
            target = "/".join(
                source.choices(["..", ".", "f", "d", "e", "l0", "l1", "l2", "l3"], k=source.randint(1, 4))
            )
            place.link(
                f"{directory}l{number}", source.choice(("", "", "", "/")) + target + source.choice(("", "", "/"))
            )
    answers = Counter[str]()
    with Root.open(place.project) as root:
        if root.resolver != "openat2":
            pytest.skip("there is no kernel's answer here")
        for _ in range(1500):
            path = source.choice(directories) + "/".join(
                source.choices(["f", "d", "e", "l0", "l1", "l2", "l3", "l4"], k=source.randint(1, 2))
            )
            kernel = answer_of_the_kernel(root, path)
            assert answer_of_the_walk(root, path) == kernel, path
            answers[kernel if isinstance(kernel, str) else "opened"] += 1
    assert answers["opened"] > 50 and len(answers) > 2, f"too little was compared: {answers}"


@RESOLVERS
def test_missing_directories_are_named_before_they_are_made(place: Place, resolver: Resolver) -> None:
    with Root.open(place.project, resolver) as root:
        with root.open_parent("a/new/er/file") as parent:
            assert parent.missing == ("a/new", "a/new/er")
            assert parent.created == ()
            assert parent.leaf == "file"
            assert parent.identity == ((place.project / "a").stat().st_dev, (place.project / "a").stat().st_ino)
            assert parent.open_leaf() is None
        assert not (place.project / "a/new").exists()
        with root.open_parent("a/new/er/file", create=True) as parent:
            assert parent.created == ("a/new", "a/new/er")
            assert parent.missing == ()
            assert parent.open_leaf() is None
        assert (place.project / "a/new/er").is_dir()


@RESOLVERS
def test_a_directory_that_someone_else_makes_first_is_taken(place: Place, resolver: Resolver) -> None:
    def rival(operation: str) -> None:
        if operation == "mkdir":
            (place.project / "new").mkdir()

    with (
        Root.open(place.project, resolver) as root,
        osfs.inject(rival),
        root.open_parent("new/x", create=True) as parent,
    ):
        assert parent.open_leaf() is None


@RESOLVERS
def test_a_link_that_someone_puts_in_the_place_of_a_new_directory_is_refused(place: Place, resolver: Resolver) -> None:
    def rival(operation: str) -> None:
        if operation == "mkdir":
            place.link("new", "../outdir")

    before = open_fds()
    with Root.open(place.project, resolver) as root, osfs.inject(rival), refused("symlink"):
        root.open_parent("new/x", create=True)
    assert open_fds() == before


def test_a_write_through_a_handle_is_refused(place: Place) -> None:
    with Root.open(place.project) as root, refused("invalid_path"):
        root.open_parent("handle:a%0Ab")


def test_gemcodes_own_code_may_read_what_no_tool_may(place: Place) -> None:
    place.file(".git/info/exclude")
    with Root.open(place.project) as root:
        with root.open_file(".git/info/exclude", internal=True) as file:
            assert file.read(100) == INSIDE
        with refused("protected"):
            root.open_file(".git/info/exclude")


def test_an_absolute_path_of_the_project_is_answered_with_the_relative_one(place: Place) -> None:
    with Root.open(place.project) as root:
        for path in (f"{place.project}/a/ok", f"//{place.project}/a/../a//ok"):
            with pytest.raises(ToolError) as caught:
                root.open_file(path)
            assert caught.value.as_json()["use"] == "a/ok"
        for path in (f"{place.project}-evil/x", str(place.outside), "/"):
            with refused("outside_project"):
                root.open_file(path)


def test_a_file_at_the_limit_is_read_and_one_byte_more_is_not(place: Place) -> None:
    place.file("exact", b"x" * 100)
    with Root.open(place.project) as root, root.open_file("exact") as file:
        assert file.read(100) == b"x" * 100
        assert not file.hard_linked
        with refused("too_large"):
            file.read(99)


def test_a_file_that_grows_while_it_is_read_stays_within_the_limit(place: Place) -> None:
    """T10: the size is right when asked and wrong when read."""
    place.file("log", b"x" * 10)

    def grow(operation: str) -> None:
        if operation == "read":
            with open(place.project / "log", "ab") as log:
                log.write(b"y" * 1000)

    with Root.open(place.project) as root, root.open_file("log") as file, osfs.inject(grow), refused("too_large"):
        file.read(500)


def test_a_sparse_giant_is_refused_by_its_size(place: Place) -> None:
    with open(place.project / "giant", "wb") as giant:
        giant.truncate(1 << 40)
    with Root.open(place.project) as root, root.open_file("giant") as file, refused("too_large"):
        file.read(1 << 20)


def test_a_read_error_is_a_refusal(place: Place) -> None:
    def broken(operation: str) -> None:
        if operation == "read":
            raise OSError(errno.EIO, "broken")

    with Root.open(place.project) as root, root.open_file("ok.txt") as file, osfs.inject(broken), refused("io_error"):
        file.read(100)


def test_a_leaf_deleted_after_the_confirm_is_seen(place: Place) -> None:
    """T20: the parent is held, the leaf is looked at anew."""
    with Root.open(place.project) as root, root.open_parent("a/ok") as parent:
        leaf = parent.open_leaf()
        assert leaf is not None
        leaf.close()
        (place.project / "a/ok").unlink()
        assert parent.open_leaf() is None


def test_a_link_put_in_place_of_the_leaf_is_refused_when_it_is_opened(place: Place) -> None:
    with Root.open(place.project) as root, root.open_parent("a/ok") as parent:
        (place.project / "a/ok").unlink()
        place.link("a/ok", "../../outside.txt")
        with refused("symlink"):
            parent.open_leaf()


def test_a_deleted_project_is_named_as_such(place: Place) -> None:
    with Root.open(place.project) as root:
        for path in sorted(place.project.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        place.project.rmdir()
        for operation in ("read", "write"):
            with pytest.raises(ToolError, match="project directory has been deleted"):
                ROOT_OPERATIONS[operation](root, "x")
        with pytest.raises(ToolError, match="project directory has been deleted"):
            list_files(root, limits=ListingLimits())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(place: Place) -> None:
    (place.project / "ok.txt").chmod(0)
    with Root.open(place.project) as root, refused("permission"):
        root.open_file("ok.txt")


def test_a_bare_repository_is_known_even_before_it_is_complete(place: Place) -> None:
    place.file("bare/objects/x")
    with Root.open(place.project) as root:
        assert root.in_bare_repository("bare/HEAD")
        assert not root.in_bare_repository("bare/config")
        assert not root.in_bare_repository("bare/nothing/here/x")
        place.file("bare/HEAD")
        assert root.in_bare_repository("bare/hooks/post-receive")


@RESOLVERS
@pytest.mark.parametrize("operation", sorted(ROOT_OPERATIONS))
@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.ENOMEM, errno.EACCES, errno.ENOSPC])
def test_any_call_may_fail_without_a_traceback_or_a_leak(
    tmp_path: Path, operation: str, code: int, resolver: Resolver
) -> None:
    """The n-th call fails, for n = 1, 2, … until none does: the answer is a ToolError, or right all the same."""
    for number in range(1, 200):
        place = build(tmp_path / str(number))
        place.link("link", "a/deep/../ok")
        failed = 0
        calls = 0

        def fail(name: str, number: int = number) -> None:
            nonlocal calls, failed
            calls += 1
            if calls == number:
                failed += 1
                raise OSError(code, os.strerror(code))

        before = open_fds()
        path = {"list": "a", "write": "a/new/file", "edit": "a/ok"}.get(operation, "link")
        with Root.open(place.project, resolver) as root, osfs.inject(fail), contextlib.suppress(ToolError):
            try:
                ROOT_OPERATIONS[operation](root, path)
            except OSError:
                assert operation in ("write", "edit")  # the test's own bare write
        assert open_fds() == before, f"call {number} leaked"
        if not failed:
            break
    assert number > 5 and not failed


def test_every_error_of_the_system_becomes_one_sentence() -> None:
    for code in errno.errorcode:
        error = tool_error(OSError(code, os.strerror(code)), "a/b")
        assert "a/b" in error.message
        assert error.message.endswith(".")
    assert tool_error(OSError("no number"), "a").kind == "io_error"


def test_the_walk_gives_up_on_a_name_that_never_holds_still(place: Place) -> None:
    """A link when opened, a file when read as a link, again and again."""

    def flicker(operation: str) -> None:
        if operation in ("open", "readlink"):
            (place.project / "flicker").unlink(missing_ok=True)
        if operation == "open":
            place.link("flicker", "ok.txt")
        if operation == "readlink":
            place.file("flicker")

    with Root.open(place.project) as root, osfs.inject(flicker), pytest.raises(OSError) as caught:
        open_by_walk(root.fd, "flicker", os.O_RDONLY, True)
    assert caught.value.errno == errno.ELOOP


def test_the_walk_enters_a_directory_that_was_a_link_a_moment_ago(place: Place) -> None:
    place.link("moment", "a")

    def settle(operation: str) -> None:
        if operation == "readlink":
            (place.project / "moment").unlink()
            (place.project / "moment").mkdir()
            place.file("moment/ok")

    with Root.open(place.project, "walk") as root, osfs.inject(settle), root.open_file("moment/ok") as file:
        assert file.path == "moment/ok"


@pytest.mark.parametrize("resolver", ["openat2", "walk"])
def test_gemcodes_own_directories_are_out_of_reach_where_they_are_inside(tmp_path: Path, resolver: Resolver) -> None:
    own = tmp_path / ".local" / "state" / "gemcode"
    own.mkdir(parents=True)
    (own / "journal").write_text("")
    (tmp_path / "way").symlink_to(".local/state")
    (tmp_path / "seen").write_text("")
    with Root.open(tmp_path, resolver) as root:
        root.keep_out_of(own, tmp_path.parent / "elsewhere")
        for path in (".local/state/gemcode/journal", ".local/STATE/gemcode/journal", "way/gemcode/journal"):
            with pytest.raises(ToolError, match=r"belongs to gemcode|does not exist"):
                root.open_file(path)
            with pytest.raises(ToolError, match=r"belongs to gemcode|symbolic link"):
                root.open_parent(path)
        with pytest.raises(ToolError, match="belongs to gemcode"):
            root.open_directory("way/gemcode")
        assert list_files(root, limits=ListingLimits()).files == ("seen", "way")
        assert list_files(root, ".local", limits=ListingLimits()).files == ()
        root.open_parent(".local/state/other").close()
