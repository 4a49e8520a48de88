"""Tables of operations to run over the corpus, and the one function that runs a row and looks for an escape."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from gemcode.agent.errors import ToolError
from gemcode.workspace import names, osfs
from gemcode.workspace.listing import ListingLimits, list_files, walk_files
from gemcode.workspace.root import Root
from tests.workspace.corpus import INSIDE, OUTSIDE, Place, Row, build, snapshot

Operation = Callable[[Root, Any], object]  # gives anything printable, or raises ToolError
Resolver = Literal["openat2", "walk"]
LIMITS = ListingLimits()


def read(root: Root, path: Any) -> object:
    with root.open_file(path) as file:
        return file.read(1 << 20)


def search(root: Root, path: Any) -> object:
    """Read what a search would: one file, or every file of the walk that is no link."""
    try:
        return read(root, path)
    except ToolError as error:
        if error.kind not in ("is_a_directory", "invalid_path"):
            raise
    return [
        read(root, names.to_handle(each.path)) for each in walk_files(root, path, limits=LIMITS) if not each.is_link
    ]


@contextmanager
def closing(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        osfs.close(fd)


def write(root: Root, path: Any) -> object:
    """The least that a write does: reach the parent, look at the leaf, put a file there."""
    with root.open_parent(path, create=True) as parent:
        leaf = parent.open_leaf()
        if leaf is not None:
            leaf.close()
            osfs.unlink(parent.fd, parent.leaf)
        fd = osfs.open(parent.leaf, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, dir_fd=parent.fd)
        with closing(fd):
            osfs.write_all(fd, INSIDE)
        return parent.path


def edit(root: Root, path: Any) -> object:
    """Read through the same doors as a write, then write."""
    with root.open_parent(path) as parent, ExitStack() as closing:
        leaf = parent.open_leaf()
        if leaf is None:
            raise ToolError("not_found", "There is nothing to edit.")
        closing.enter_context(leaf).read(1 << 20)
    return write(root, path)


ROOT_OPERATIONS: Mapping[str, Operation] = {
    "list": lambda root, path: list_files(root, path, limits=LIMITS),
    "read": read,
    "search": search,
    "edit": edit,
    "write": write,
}


def run(row: Row, resolver: Resolver, name: str, operation: Operation, place: Place) -> str:
    """Run one operation of one row in a built place: "ok" or the kind of the refusal. An escape fails an assertion."""
    row.setup(place)
    with Root.open(row.root(place), resolver) as root, ExitStack() as context:
        row.after_open(place)
        canary = snapshot(place.outside, skip=place.project) if os.access(place.outside, os.R_OK) else None
        project = (
            snapshot(place.project) if os.path.isdir(place.project) and not row.hook and row.needs != "mounts" else None
        )
        if row.hook is not None:
            context.enter_context(osfs.inject(row.hook(place)))
        try:
            shown = str(operation(root, row.given(place)))
        except ToolError as error:
            outcome, shown = error.kind, str(error.as_json())
            if row.use is not None and outcome == "invalid_path":
                assert error.details.get("use") == row.use
            if project is not None:
                assert snapshot(place.project) == project, "a refusal left something behind"
        else:
            outcome = "ok"
        place.outside.chmod(0o755)
        escaped = OUTSIDE.decode().strip() in shown
        assert row.shared or not escaped, f"{row.id} {name}: {shown[:200]}"
        if canary is not None and row.after_open.__name__ not in ("_move", "_replace_root"):
            assert snapshot(place.outside, skip=place.project) == canary, "something outside the project changed"
        return outcome


def build_and_run(row: Row, resolver: Resolver, name: str, operation: Operation, directory: Path) -> str:
    return run(row, resolver, name, operation, build(directory))
