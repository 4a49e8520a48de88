"""The REPL with a scripted model and two small tools, for the tests that need a real terminal.

Usage: program.py [ask:]SCENARIO DIRECTORY. Requests are recorded in DIRECTORY/../requests.txt.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gemcode.agent.arguments import Arguments
from gemcode.agent.errors import ModelError, UsageError
from gemcode.agent.events import FileChanged
from gemcode.agent.loop import Agent
from gemcode.agent.messages import ModelRequest, ToolMessage, UserMessage
from gemcode.agent.model import Retrying, TextDelta
from gemcode.agent.persona import Persona
from gemcode.agent.policy import Effect, Mode, Sensitivity
from gemcode.agent.registry import ToolRegistry
from gemcode.agent.tool import FileChange, Output, Preview, SecretRead, Tool, decline_unasked
from gemcode.terminal.headless import OutputFormat, open_reporter, run_once
from gemcode.terminal.look import choose_look, terminal_size
from gemcode.terminal.repl import Repl, open_approval, open_front
from gemcode.terminal.safe import StdoutClosed
from gemcode.terminal.session import ReplSession, SavedSession, Services
from gemcode.terminal.tty import is_terminal
from gemcode.terminal.view import About
from tests.scripted import Script, ScriptedModel, calls, says

CODE = 'def total(lines):\n\treturn sum(lines)\n\n\nclass Cart:\n    """A cart."""\n\n    items: list[int]'
MARKDOWN = f"""# Totals

The total differs because `round()` is applied **per line**.

- one
  - two
    - three
- [x] done
- [ ] open

| name | value |
|------|-------|
| a    | 1     |

```python
{CODE}
```
End of it.
"""
HOSTILE = "a\x1b]52;c;aGk=\x07b\x1b[2Jc\x9b31md\u202ee\x1b]8;;http://x\x1b\\f &#x202e; &#27;[2J"


def paragraphs(number: int) -> Script:
    text = "\n\n".join(
        f"Paragraph {index:02d} has some words that make it wrap at forty columns." for index in range(number)
    )
    script: list[object] = []
    for index in range(0, len(text), 40):
        script += [TextDelta(text[index : index + 40]), 0.02]
    return [*script, says(text)[-1]]  # type: ignore[list-item]  # a pause is a number


def write(path: str, content: str) -> tuple[str, dict[str, str]]:
    return ("write_file", {"path": path, "content": content})


LARGE = "\n".join(f"line {n}" if n % 10 else f"changed {n}" for n in range(800)) + "\n"
SCENARIOS: dict[str, list[Script]] = {
    "hello": [says("Hello ", "there."), says("Second answer."), says("Third answer.")],
    "markdown": [says(*[MARKDOWN[i : i + 7] for i in range(0, len(MARKDOWN), 7)])],
    "hostile": [says(HOSTILE), calls(write("a\x1b[2J.txt", HOSTILE)), says("ok")],
    "slow": [[TextDelta("Start of it.\n\nSecond par"), 30.0], says("After cancel.")],
    "silent": [[30.0], says("After cancel.")],
    "paragraphs": [paragraphs(60)],
    "reads": [calls(*(("read_file", {"path": f"f{n}.txt"}) for n in range(10))), says("Read all.")],
    "write": [calls(write("cart.py", "a\nB\nc\n")), says("Done with it."), says("Next.")],
    "twice": [calls(write("cart.py", "a\nB\nc\n")), calls(write("other.py", "x\n")), says("Both."), says("Next.")],
    "makefile": [
        calls(write("one.py", "1\n"), write("Makefile", "all:\n\ttrue\n")), says("Done."),
        calls(write("two.py", "2\n")), says("Again."),
    ],
    "new": [calls(write("docs/new/api.md", "text\n" * 42)), says("Made.")],
    "large": [calls(write("large.txt", LARGE)), says("Large done.")],
    "secret": [calls(("read_file", {"path": ".env"})), says("Seen.")],
    "long": [calls(write("cart.py", "a\n" + "B" * 700 + "\nc\n")), says("Long done.")],
    "limit": [[Retrying("Limit of 10 requests per minute reached", 3.0, 1, 5), 3.0, *says("After the wait.")]],
    "retry": [[TextDelta("Half an ans"), Retrying("The connection broke", 0.2, 1, 5), 0.2, *says("The whole answer.")]],
    "error": [[ModelError("Cannot reach the API: name not resolved.", "Are you offline?", detail='{"raw": 1}')]],
    "thoughts": [[0.3, *says("Thought of it.")]],
}  # fmt: skip


class PathArgument(Arguments):
    path: str


class WriteArguments(PathArgument):
    content: str


def tools(root: Path) -> list[Tool]:  # type: ignore[type-arg]  # tools of different arguments
    def preview(arguments: WriteArguments) -> Preview:
        path = root / arguments.path
        before = path.read_bytes() if path.exists() else None
        runs = path.name == "Makefile"
        folders = tuple(str(folder.relative_to(root)) for folder in reversed(path.parents) if not folder.exists())
        return FileChange(
            arguments.path,
            before,
            arguments.content.encode("utf-8", "surrogatepass"),
            Sensitivity.RUNS_LATER if runs else Sensitivity.ORDINARY,
            "runs when you build" if runs else "",
            folders,
        )

    def run(arguments: WriteArguments, approved: Preview | None) -> Output:
        assert isinstance(approved, FileChange) and approved.after is not None
        path = root / approved.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(approved.after)
        return Output("written", "written", FileChanged(approved.path, "modified", "w1", 1, 1))

    def peek(arguments: PathArgument) -> Preview | None:
        return SecretRead(arguments.path, "Its name says that it holds secrets") if arguments.path == ".env" else None

    def read(arguments: PathArgument, approved: Preview | None) -> Output:
        return Output("text", "120 lines")

    return [
        Tool("write_file", "Writes.", WriteArguments, Effect.WRITE, run, lambda a: a.path, preview),
        Tool("read_file", "Reads.", PathArgument, Effect.READ, read, lambda a: a.path, peek),
    ]


class RecordingModel(ScriptedModel):
    """Leaves a line for each request, so that the test can see what was sent."""

    def __init__(self, record: Path, *scripts: Script) -> None:
        super().__init__(*scripts)
        self._record = record

    def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
        last = request.messages[-1]
        said = last.text if isinstance(last, UserMessage) else ""
        if isinstance(last, ToolMessage):
            said = str([result.response for result in last.results])
        with self._record.open("a") as file:
            file.write(f"{len(request.messages)} {said!r}\n")
        return super().stream(request)


def to_message(text: str, told: Callable[[str], None] = lambda _: None) -> UserMessage:
    for word in text.split():
        if word.startswith("@") and word != "@src/app.py":
            raise UsageError(f"{word} does not exist.", "Did you mean @src/app.py?")
        if word.startswith("@"):
            told(f"{word}: 12 lines")
    return UserMessage.of(text)


async def compact(argument: str) -> str:
    await asyncio.sleep(30)
    return "Compacted."


async def restore(write: str) -> str:
    return f"Restored {write}."


def doctor() -> str:
    """Takes as long as the test wants: it says that it runs, and ends when it is told to."""
    if place := os.environ.get("SLOW"):
        Path(place, "running").touch()
        while not Path(place, "go").exists():
            time.sleep(0.01)
    return "all well"


def services() -> Services:
    return Services(
        models=lambda: [("scripted", "the one and only")],
        use_model=lambda name: name,
        tools=lambda: [("read_file", "Reads.")],
        tool_stats=lambda: "tool  calls",
        diff=lambda argument: "no changes",
        undo=lambda argument: "cart.py restored (undo of w1). Undo this: /undo",
        restore=restore,
        history=lambda argument: "w1 cart.py",
        limit_cost=lambda limit: f"Limit: ${limit:.2f}",
        context=lambda: "1k of 1M tokens",
        compact=compact,
        clear=lambda: "New conversation.",
        sessions=lambda: [SavedSession("7f3k", "14:02 today", "why does the total differ?", 6, 2, 0.02)],
        resume=lambda wanted: f"Resumed {wanted}.",
        save=lambda path: f"Saved to {path}.",
        doctor=doctor,
    )


async def ask(agent: Agent) -> int:
    """One turn as `gemcode ask` runs it."""
    look = choose_look(os.environ, terminal=is_terminal(1), encoding="utf-8", size=terminal_size())
    about = About("1.0", "scripted", session_id="7f3k")
    kind = OutputFormat(os.environ.get("FORMAT", "text"))
    reporter = open_reporter(kind, about, look, terminal=is_terminal(1), out=look)
    if is_terminal(0):
        agent.approve = open_approval(os.environ, "utf-8", pause=reporter.pause)
    outcome = await run_once(lambda emit: agent.run(UserMessage.of("go"), emit), reporter)
    return outcome.status.exit_code


async def main(scenario: str, directory: Path) -> int:
    kind, _, scenario = scenario.rpartition(":")
    model = RecordingModel(directory.parent / "requests.txt", *SCENARIOS[scenario])
    agent = Agent(model, ToolRegistry(tools(directory)), Persona("scripted", lambda mode: ""), decline_unasked)
    agent.mode = Mode(os.environ.get("MODE", "ask"))
    if kind == "ask":
        return await ask(agent)
    session = ReplSession(
        conversation=agent,
        services=services(),
        about=lambda: About("1.0", "scripted", "~/shop", session_id="7f3k"),
        to_message=to_message,
        files=lambda: ["src/app.py", "src/cart.py", "README.md"],
        history_file=directory.parent / "history.txt",
        environ=os.environ,
        first_prompt=os.environ.get("FIRST", ""),
    )
    return await Repl(session, open_front(session, sys.stdout.encoding)).run()


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1], Path(sys.argv[2]))))
    except StdoutClosed:
        sys.exit(141)
