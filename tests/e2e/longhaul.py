"""A long conversation in a process of its own: the real agent, tools, session and client; only the waits are skipped.

python -m tests.e2e.longhaul URL PROJECT HOME TURNS → one JSON object: what became of the turns, memory, times.
"""

import asyncio
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from gemcode import app
from gemcode.agent.events import Status
from gemcode.agent.messages import UserMessage
from gemcode.agent.policy import Mode
from gemcode.agent.tool import decline_unasked
from gemcode.gemini.client import GeminiModel
from gemcode.gemini.persistent import PersistentModel
from gemcode.gemini.settings import GeminiSettings, Sent, Traffic


def memory() -> int:
    """Bytes that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def no_wait(_: float) -> None:
    return None


class Watch:
    """When the first request of a turn went out."""

    def __init__(self) -> None:
        self.begun = 0.0
        self.sent: list[float] = []
        self._open = False

    def begin(self) -> None:
        self.begun, self._open = time.perf_counter(), True

    def __call__(self, traffic: Traffic) -> None:
        if self._open and isinstance(traffic, Sent):
            self.sent.append(time.perf_counter() - self.begun)
            self._open = False


async def converse(project: app.Project, url: str, turns: int) -> dict[str, Any]:
    watch = Watch()
    inner = GeminiModel(GeminiSettings("simulated-key", url, observe=watch))
    agent = app.make_agent(project, PersistentModel(inner, sleep=no_wait), decline_unasked, Mode.EDITS)
    session = project.sessions.create()
    agent.begin(session.state, session.record)
    failed: list[str] = []
    memories: list[int] = []
    for number in range(turns):
        watch.begin()
        outcome = await agent.run(UserMessage.of(f"prompt {number}"), lambda _: None)
        if outcome.status is not Status.OK:
            failed.append(f"{number}: {outcome.status} {outcome.error}")
        if number % 10 == 9:
            memories.append(memory())
    await inner.aclose()
    session.close()
    resumed = project.sessions.resume(session.id)
    same = resumed.state == agent.state
    resumed.close()
    return {"failed": failed, "memories": memories, "sent": watch.sent, "turns": agent.state.turns, "same": same}


def main(url: str, directory: str, home: str, turns: str) -> None:
    environment = {"GEMCODE_HOME": home, "GEMINI_API_KEY": "simulated-key"}
    settings = app.config.load(Path(directory), environment, {})
    with app.open_project(settings, "longhaul") as project:
        result = asyncio.run(converse(project, url, int(turns)))
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
