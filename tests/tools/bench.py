"""A project in a temporary directory with all tools on it, called the way the loop calls them."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gemcode.agent.bounds import Bounds
from gemcode.agent.messages import ToolCall, ToolResult
from gemcode.agent.policy import Mode
from gemcode.agent.registry import Prepared, ToolRegistry, TurnState
from gemcode.agent.tool import Answer, ApprovalRequest, Approved, Conflict
from gemcode.tools import build_tools
from gemcode.tools.workbench import Workbench
from gemcode.workspace.known import KnownVersions
from gemcode.workspace.root import Root
from gemcode.workspace.store import Store


class ToolBench:
    def __init__(self, project: Path, bench: Workbench) -> None:
        self.project = project
        self.bench = bench
        self.registry = ToolRegistry(build_tools(bench))
        self.asked: list[ApprovalRequest] = []
        self.answer: Any = None  # an Answer, or a function from the request to one
        self.about_conflict: Answer = Approved(None)  # what is said to a write that came too late
        self.turn = TurnState(Mode.ASK, self.approve)

    async def approve(self, request: ApprovalRequest) -> Answer:
        self.asked.append(request)
        if isinstance(request.preview, Conflict):
            return self.about_conflict
        if callable(self.answer):
            answer: Answer = self.answer(request)
            return answer
        return self.answer or Approved(request.preview)

    def call(self, name: str, **args: Any) -> ToolResult:
        async def run() -> ToolResult:
            ready = await self.registry.prepare(ToolCall("c", name, args), self.turn)
            return (
                (await self.registry.start([ready], self.turn)[ready.call.id])[0]
                if isinstance(ready, Prepared)
                else ready.result
            )

        return asyncio.run(run())

    def output(self, name: str, **args: Any) -> Any:
        result = self.call(name, **args)
        assert result.ok, result.response
        return result.response["output"]

    def error(self, name: str, **args: Any) -> Any:
        result = self.call(name, **args)
        assert not result.ok, result.response
        return result.response["error"]

    def put(self, path: str, content: bytes | str) -> Path:
        target = self.project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return target


@contextmanager
def open_bench(tmp_path: Path, bounds: Bounds = Bounds()) -> Iterator[ToolBench]:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    with Root.open(project) as root, closing(Store.open(tmp_path / "state", root, "test")) as store:
        yield ToolBench(project, Workbench(root, store, KnownVersions(), bounds))
