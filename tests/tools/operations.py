"""The five tools as a table of operations for the path corpus, called through the registry as the loop calls them."""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gemcode.agent.errors import ToolError
from gemcode.agent.messages import ToolResult
from gemcode.agent.registry import Limits, ToolRegistry
from gemcode.tools import build_tools
from gemcode.tools.workbench import Workbench
from gemcode.workspace.known import KnownVersions
from gemcode.workspace.root import Root
from gemcode.workspace.store import Store
from tests.tools.bench import ToolBench
from tests.workspace.operations import Operation

HANG = 10.0  # seconds: no answer takes a hundredth of it, but the machine may be busy
UNLIMITED = Limits(calls_per_turn=10**9, writes_per_turn=10**9, calls_per_minute=1e9, writes_per_minute=1e9)


@contextmanager
def tools_on(root: Root, state: Path) -> Iterator[ToolBench]:
    with closing(Store.open(state, root, "test")) as store:
        tools = ToolBench(Path(root.display), Workbench(root, store, KnownVersions()))
        tools.registry = ToolRegistry(build_tools(tools.bench), limits=UNLIMITED)
        yield tools


def memory() -> str | None:
    """A directory in memory where there is one: nothing here is about the disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def answer(tools: ToolBench, name: str, **args: Any) -> ToolResult:
    """The tool's answer: in time, and never a traceback in disguise."""
    started = time.monotonic()
    result = tools.call(name, **args)
    assert time.monotonic() - started < HANG, (name, args)
    assert result.ok or result.error_kind != "internal", result.response
    return result


def operation(name: str, *, read_first: bool = False, **more: Any) -> Operation:
    def run(root: Root, path: Any) -> object:
        with (
            tempfile.TemporaryDirectory(dir=memory()) as state,
            tools_on(root, Path(state) / "state") as tools,
        ):
            seen = [answer(tools, "read_file", path=path).response] if read_first else []
            result = answer(tools, name, path=path, **more)
            if not result.ok:
                error = dict(result.response["error"])
                raise ToolError(error.pop("type"), error.pop("message"), **error, seen=seen)
            return seen, result.response

    return run


TOOL_OPERATIONS: Mapping[str, Operation] = {
    "list": operation("list_files"),
    "read": operation("read_file"),
    "search": operation("search_files", pattern="."),
    "edit": operation("edit_file", read_first=True, edits=[{"old": "inside", "new": "changed"}]),
    "write": operation("write_file", read_first=True, content="written\n"),
}
