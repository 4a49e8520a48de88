"""The project's git branch, read from its HEAD file. Git itself is never run: a repository can make it start programs
(core.fsmonitor, filters), so there is no count of changed files either."""

import re

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs
from gemcode.workspace.root import Root

_MOST = 1024  # bytes; a name that is longer is nobody's
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def branch_of(root: Root) -> str:
    """The branch, the short hash of a detached HEAD, or "" where none can be read inside the project.

    The name is what the file says, so whoever shows it escapes it.
    """
    head = _line(root, ".git/HEAD")
    if head is None and (pointer := _line(root, ".git") or "").startswith("gitdir: "):
        head = _line(root, f"{pointer.removeprefix('gitdir: ')}/HEAD")  # of a worktree it is outside, and stays there
    if not head or "\n" in head:
        return ""
    if head.startswith("ref: "):
        name = head.removeprefix("ref: ").removeprefix("refs/heads/").strip()
        return "" if name == ".invalid" else name  # then it is in a table of git's own
    return head[:7] if _COMMIT.fullmatch(head) else ""


def _line(root: Root, path: str) -> str | None:
    """What a small file of one line says; None where there is no such file that may be read."""
    try:
        with root.open_file(path, internal=True) as file:
            text = osfs.read_all(file.fd, _MOST + 1).decode("utf-8", "replace")
    except (ToolError, OSError):
        return None
    return text.rstrip("\r\n") if len(text) <= _MOST else ""
