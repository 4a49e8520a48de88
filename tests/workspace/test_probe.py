import errno
from pathlib import Path

from gemcode.workspace import osfs
from gemcode.workspace.probe import can_exchange
from gemcode.workspace.root import Root


def test_an_ordinary_file_system_exchanges_names_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with Root.open(tmp_path) as root:
        found = can_exchange(root)
    assert isinstance(found, bool)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_refuses_is_said_to(tmp_path: Path) -> None:
    def refuse(operation: str) -> None:
        if operation == "exchange":
            raise OSError(errno.EINVAL, "no exchange here")

    with Root.open(tmp_path) as root, osfs.inject(refuse):
        assert can_exchange(root) is False
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_made_nothing_is_promised(tmp_path: Path) -> None:
    def refuse(operation: str) -> None:
        if operation == "open":
            raise OSError(errno.EROFS, "read-only")

    with Root.open(tmp_path) as root, osfs.inject(refuse):
        assert can_exchange(root) is False
