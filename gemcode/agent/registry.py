"""ToolRegistry runs calls: validated, decided, timed, audited. It never raises into the loop."""

import asyncio
import contextlib
import difflib
import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from gemcode.agent.caps import capped
from gemcode.agent.errors import ToolError
from gemcode.agent.events import FileChanged
from gemcode.agent.messages import ToolCall, ToolDeclaration, ToolResult
from gemcode.agent.policy import Effect, Mode, Sensitivity, Verdict, decide
from gemcode.agent.rate import TokenBucket
from gemcode.agent.results import cancelled, error_of, failure, invalid_arguments, subject_of, success
from gemcode.agent.tool import (
    AnyTool,
    ApprovalRequest,
    Approved,
    Approver,
    AuditLog,
    Declined,
    Output,
    Overtaken,
    Preview,
    Stopped,
)
from gemcode.frozen import frozen

if TYPE_CHECKING:
    from gemcode.agent.arguments import Arguments


T = TypeVar("T")
Running: TypeAlias = "asyncio.Future[tuple[ToolResult, float]]"
_THREADS = 16  # calls of one step that run at the same time


class StopTurn(Exception):
    """The person ended the turn at a question."""


@frozen
class Limits:
    call_seconds: float = 30.0
    calls_per_turn: int = 200
    writes_per_turn: int = 50
    calls_per_minute: float = 600
    writes_per_minute: float = 120
    result_bytes: int = 64 * 1024


@dataclass(slots=True)
class TurnState:
    """What one turn has used up and been granted."""

    mode: Mode
    approve: Approver
    calls: int = 0
    writes: int = 0
    granted: bool = False
    changed: list[FileChanged] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # path → why, of writes that did not happen
    late: dict[str, ToolResult] = field(default_factory=dict)  # results that came although the turn was cancelled


@frozen
class _Checked:
    """A call that is valid and within the limits; nobody was asked yet."""

    call: ToolCall
    tool: AnyTool
    arguments: "Arguments"
    subject: str
    notes: tuple[str, ...]


@frozen
class Prepared:
    """A call that was validated and decided on, ready to run."""

    call: ToolCall
    tool: AnyTool
    arguments: "Arguments"
    subject: str
    preview: Preview | None
    decision: str
    notes: tuple[str, ...] = ()


@frozen
class Refused:
    """A call that will not run, with the result that says why."""

    call: ToolCall
    subject: str
    result: ToolResult
    decision: str


class ToolRegistry:
    """All tools of a session. `strict`: unknown arguments are an error; otherwise they are dropped with a note."""

    def __init__(
        self, tools: Iterable[AnyTool], audit: AuditLog | None = None, limits: Limits = Limits(), *, strict: bool = True
    ) -> None:
        self._given = tools
        self._loading = threading.Lock()
        self._made: Mapping[str, AnyTool] | None = None
        self._declared: tuple[ToolDeclaration, ...] = ()
        self._audit = audit
        self._limits = limits
        self._strict = strict
        self._threads = ThreadPoolExecutor(_THREADS, "tool")
        self._calls = TokenBucket(limits.calls_per_minute)
        self._writes = TokenBucket(limits.writes_per_minute)

    def load(self) -> Mapping[str, AnyTool]:
        """The tools by name. They are made at the first use, or ahead of it in a thread: `tools` may be a generator."""
        with self._loading:
            if self._made is None:
                self._made = {tool.name: tool for tool in self._given}
                self._declared = tuple(tool.declaration() for tool in self._made.values())
            return self._made

    def declarations(self, mode: Mode) -> tuple[ToolDeclaration, ...]:
        """What the model is told. In read-only mode the write tools are left out."""
        tools = self.load()
        reads_only = mode is Mode.NONE
        return tuple(one for one in self._declared if not reads_only or tools[one.name].effect is Effect.READ)

    def effect(self, name: str) -> Effect:
        tool = self.load().get(name)
        return tool.effect if tool else Effect.READ

    async def prepare(self, call: ToolCall, turn: TurnState) -> Prepared | Refused:
        """Validate and decide, asking the person where the policy says so. Raises only StopTurn."""
        return (await self.prepare_together([call], turn))[0]

    async def prepare_together(
        self, calls: Sequence[ToolCall], turn: TurnState, announce: Callable[[ToolCall], None] = lambda _: None
    ) -> list[Prepared | Refused]:
        """The same for calls that are to run together: each announced and decided in its order. What they would do is
        looked up before, for all of them at once: one way to a thread and back, not one for each."""
        checked = [self._check(call, turn) for call in calls]
        valid = [item for item in checked if isinstance(item, _Checked)]
        found = iter(await self._look_ahead(valid))
        ready: list[Prepared | Refused] = []
        for call, item in zip(calls, checked, strict=True):
            announce(call)
            ready.append(item if isinstance(item, Refused) else await self._decide(item, next(found), turn))
        return ready

    async def _look_ahead(self, items: Sequence["_Checked"]) -> Sequence[Preview | ToolError | None]:
        try:
            async with asyncio.timeout(self._limits.call_seconds):
                return await self._in_thread(_look_up, items)
        except TimeoutError:
            return [self._too_slow()] * len(items)

    def _too_slow(self) -> ToolError:
        return ToolError("timeout", f"Stopped waiting after {self._limits.call_seconds:g} s.")

    def _check(self, call: ToolCall, turn: TurnState) -> "_Checked | Refused":
        turn.calls += 1
        try:
            self._count_call(turn)
            tool, arguments, notes = self._validate(call, turn)
        except ToolError as error:
            decision = "refused" if error.kind == "limit" else "invalid"
            return self._refuse(call, subject_of(call), error, decision, turn)
        subject = tool.subject(arguments)
        try:
            if tool.effect is Effect.WRITE:
                self._count_write(turn)
            if tool.effect is not Effect.READ and turn.mode is Mode.NONE:
                raise ToolError("denied", "Read-only: this session can't write.", tool=tool.name)
        except ToolError as error:
            return self._refuse(call, subject, error, "denied" if error.kind == "denied" else "refused", turn)
        return _Checked(call, tool, arguments, subject, notes)

    async def _decide(
        self, item: "_Checked", found: "Preview | ToolError | None", turn: TurnState
    ) -> Prepared | Refused:
        call, tool = item.call, item.tool
        try:
            if isinstance(found, ToolError):
                raise found
            preview, decision = await self._consent(call, tool, found, turn)
        except (ToolError, OSError) as raised:
            error = error_of(call, raised)
            return self._refuse(call, item.subject, error, "denied" if error.kind == "denied" else "refused", turn)
        return Prepared(call, tool, item.arguments, item.subject, preview, decision, item.notes)

    def start(self, group: Iterable[Prepared], turn: TurnState) -> dict[str, Running]:
        """Run prepared calls at the same time; for each id the result and the milliseconds it took. Raises StopTurn
        and CancelledError alone. That they are about to run is noted first, in one write for all."""
        group = list(group)
        entries = self._intend([(item.call, item.tool.effect) for item in group])
        pairs = zip(group, entries, strict=True)
        return {item.call.id: asyncio.ensure_future(self._run(item, entry, turn)) for item, entry in pairs}

    async def _run(self, prepared: Prepared, entry: object, turn: TurnState) -> tuple[ToolResult, float]:
        started, call = time.perf_counter(), prepared.call
        if isinstance(entry, ToolError):
            return self._settle(prepared, None, failure(call, entry), turn), 0.0
        try:
            done = await self._execute(prepared, turn)
            took = _since(started)
            if isinstance(done, Overtaken) and prepared.decision == "approved":
                done = await self._ask_again(prepared, done, turn)
        except (asyncio.CancelledError, StopTurn):
            turn.late[call.id] = self._settle(prepared, entry, turn.late.get(call.id) or cancelled(call), turn)
            raise
        return self._settle(prepared, entry, _result(prepared, done, turn), turn), took

    async def _ask_again(self, prepared: Prepared, error: Overtaken, turn: TurnState) -> ToolError:
        """Whoever approved a write that then met a newer file is asked what to do about it. Nothing is written."""
        conflict = error.conflict
        turn.late[prepared.call.id] = failure(prepared.call, error)  # the truth, should the question be cut off
        answer = await turn.approve(ApprovalRequest(prepared.call, conflict))
        if isinstance(answer, Stopped):
            raise StopTurn
        if isinstance(answer, Approved):
            error.said = f"{conflict.what}, to be read again"
            return error
        dropped = f"{conflict.path} {conflict.what} since it was shown, so nothing was written."
        told = ToolError("denied", f"{dropped} The user dropped your proposal: do not make it again unless asked.")
        told.said = "proposal dropped"
        return told

    def _intend(self, calls: Sequence[tuple[ToolCall, Effect]]) -> Sequence[object]:
        """Note in the audit log that calls are about to run. For each: its entry, None where it has none, or ToolError
        where it must not run without one."""
        try:
            return self._audit.intents(calls) if self._audit and calls else [None] * len(calls)
        except Exception as error:  # noqa: BLE001 - however it fails, what can't be noted is not done
            why = (isinstance(error, OSError) and error.strerror) or type(error).__name__
            refusal = ToolError("audit", f"Not run: the audit log can't be written ({why}). See: gemcode doctor")
            return [None if effect is Effect.READ else refusal for _, effect in calls]

    def _conclude(self, entry: object, call: ToolCall, decision: str, result: ToolResult) -> None:
        if self._audit and entry is not None:
            # An intent without outcome stays visible in the log, and what was done is done: nothing is left to refuse.
            with contextlib.suppress(Exception):
                self._audit.outcome(entry, call, decision, result)

    def _settle(self, prepared: Prepared, entry: object, result: ToolResult, turn: TurnState) -> ToolResult:
        """Book what became of a call: in the audit log, and in what the turn owes the person."""
        result = capped(result, 4 * self._limits.result_bytes)  # far above what our own tools give
        self._conclude(entry, prepared.call, prepared.decision, result)
        if prepared.tool.effect is Effect.WRITE:
            if result.ok:
                turn.refused.pop(prepared.subject, None)
            else:
                said = result.display
                turn.refused[prepared.subject] = said if isinstance(said, str) else result.error_message
        return result

    def _in_thread(self, function: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """Not in the loop's own threads: the end of the program waits for those, and a cancelled read may take long."""
        return asyncio.get_running_loop().run_in_executor(self._threads, functools.partial(function, *arguments))

    async def _execute(self, prepared: Prepared, turn: TurnState) -> Output | ToolError:
        work = self._in_thread(prepared.tool.run, prepared.arguments, prepared.preview)
        try:
            async with asyncio.timeout(self._limits.call_seconds):
                await asyncio.wait([work])
        except TimeoutError:
            work.add_done_callback(_forget)
            return self._too_slow()
        except asyncio.CancelledError:
            if prepared.tool.effect is Effect.READ:
                work.add_done_callback(_forget)
            else:  # a write is never left half done: it is short, so its end is awaited and told
                await _finish(work, self._limits.call_seconds)
                if work.done():
                    turn.late[prepared.call.id] = _result(prepared, _collect(prepared.call, work), turn)
            raise
        return _collect(prepared.call, work)

    def _validate(self, call: ToolCall, turn: TurnState) -> tuple[AnyTool, "Arguments", tuple[str, ...]]:
        tool = self.load().get(call.name)
        if tool is None:
            declared = [declaration.name for declaration in self.declarations(turn.mode)]
            close = difflib.get_close_matches(call.name, declared, n=3)
            raise ToolError("unknown_tool", f"There is no tool named {call.name!r}.", closest=close or declared)
        args, notes = call.args, tuple[str, ...]()
        if not self._strict and (unknown := sorted(set(args) - set(tool.arguments.model_fields))):
            args = {name: value for name, value in args.items() if name not in unknown}
            notes = (f"unknown arguments ignored: {', '.join(unknown)}",)
        from pydantic import ValidationError  # here, since the first prompt does not wait for it

        try:
            return tool, tool.arguments.model_validate(args), notes
        except ValidationError as error:
            raise invalid_arguments(tool, error) from None

    def _count_call(self, turn: TurnState) -> None:
        if turn.calls > self._limits.calls_per_turn:
            raise ToolError(
                "limit", f"More than {self._limits.calls_per_turn} calls in one turn. Give your answer now."
            )
        _spend(self._calls, "calls")

    def _count_write(self, turn: TurnState) -> None:
        turn.writes += 1
        if turn.writes > self._limits.writes_per_turn:
            raise ToolError(
                "limit", f"More than {self._limits.writes_per_turn} writes in one turn. Ask the user first."
            )
        _spend(self._writes, "writes")

    async def _consent(
        self, call: ToolCall, tool: AnyTool, preview: Preview | None, turn: TurnState
    ) -> tuple[Preview | None, str]:
        sensitivity = preview.sensitivity if preview else Sensitivity.ORDINARY
        verdict = decide(tool.effect, sensitivity, turn.mode, granted=turn.granted)
        if verdict is Verdict.DENY:
            raise ToolError("denied", "Read-only: this session can't write.", tool=tool.name)
        if verdict is Verdict.ALLOW or preview is None:
            return preview, "allowed"
        answer = await turn.approve(ApprovalRequest(call, preview))
        if isinstance(answer, Approved):
            turn.granted = turn.granted or answer.rest_of_turn
            return answer.preview, "approved"
        if isinstance(answer, Declined):
            why = f" Their reason: {answer.reason!r}." if answer.reason else ""
            refusal = ToolError("denied", f"The user declined this.{why} Do not try it again unchanged.")
            refusal.said = f"declined: {answer.reason}" if answer.reason else "declined"
            raise refusal
        raise StopTurn

    def _refuse(self, call: ToolCall, subject: str, error: ToolError, decision: str, turn: TurnState) -> Refused:
        result = failure(call, error)
        tool = self.load().get(call.name)
        if tool and tool.effect is Effect.WRITE:
            turn.refused[subject] = error.said or error.message
        [entry] = self._intend([(call, self.effect(call.name))])
        if not isinstance(entry, ToolError):  # nothing ran, so nothing is hidden
            self._conclude(entry, call, decision, result)
        return Refused(call, subject, result, decision)


def _spend(bucket: TokenBucket, what: str) -> None:
    if wait := bucket.take():
        message = f"More than {bucket.per_minute:g} {what} in a minute. Do less at a time, or give your answer now."
        raise ToolError("limit", message, retry_after_seconds=round(wait, 1))


def _look_up(items: Sequence[_Checked]) -> list[Preview | ToolError | None]:
    """What each call would do, or why it can't be done."""

    def one(item: _Checked) -> Preview | ToolError | None:
        try:
            return item.tool.preview(item.arguments)
        except Exception as error:  # noqa: BLE001 - a bug in a tool must not end the conversation
            return error_of(item.call, error)

    return [one(item) for item in items]


def _collect(call: ToolCall, work: "asyncio.Future[Output]") -> Output | ToolError:
    """What finished work gave, whatever became of it."""
    try:
        return work.result()
    except Exception as error:  # noqa: BLE001 - a bug in a tool must not end the conversation
        return error_of(call, error)


def _result(prepared: Prepared, done: Output | ToolError, turn: TurnState) -> ToolResult:
    """The result for the model; a change on disk is booked."""
    if isinstance(done, ToolError):
        return failure(prepared.call, done)
    if done.changed:
        turn.changed.append(done.changed)
    return success(prepared.call, done, prepared.notes)


async def _finish(work: "asyncio.Future[Output]", seconds: float) -> None:
    """Wait for work to end, through further cancels, but not for ever."""
    deadline = time.monotonic() + seconds
    while not work.done() and (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([work], timeout=left)


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _forget(work: "asyncio.Future[Output]") -> None:
    """Take the exception of work nobody waits for, so that it is not reported as never retrieved."""
    if not work.cancelled():
        work.exception()
