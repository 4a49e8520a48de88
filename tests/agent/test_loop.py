import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.arguments import Arguments
from gemcode.agent.errors import ExitCode, ModelError, ToolError
from gemcode.agent.events import (
    Event,
    FileChanged,
    Outcome,
    Status,
    StepFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from gemcode.agent.loop import Agent
from gemcode.agent.messages import (
    ChoiceMode,
    Message,
    ModelMessage,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gemcode.agent.model import Finish, FinishKind, Metered, ModelReplied, Retrying, TextDelta
from gemcode.agent.persona import Persona, TurnLimits
from gemcode.agent.policy import Effect, Mode, Sensitivity
from gemcode.agent.registry import Limits, ToolRegistry
from gemcode.agent.tool import (
    Answer,
    ApprovalRequest,
    Approved,
    Declined,
    FileChange,
    Output,
    Preview,
    SecretRead,
    Stopped,
    Tool,
    decline_unasked,
)
from tests.scripted import Script, ScriptedModel, calls, cancel_when, says


class PathArguments(Arguments):
    path: str


class Bench:
    """A few tools whose behaviour a test sets, and a record of what they did."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.active = 0
        self.most_active = 0
        self.lock = threading.Lock()
        self.answers: list[Answer] = []
        self.asked: list[ApprovalRequest] = []
        self.read: Callable[[PathArguments], Output] = lambda arguments: Output({"content": arguments.path})
        self.write_seconds = 0.0

    def _read(self, arguments: PathArguments, _: Preview | None) -> Output:
        with self.lock:
            self.active += 1
            self.most_active = max(self.most_active, self.active)
        try:
            time.sleep(0.02)
            self.ran.append(f"read {arguments.path}")
            return self.read(arguments)
        finally:
            with self.lock:
                self.active -= 1

    def _write(self, arguments: PathArguments, preview: Preview | None) -> Output:
        assert self.active == 0, "a write must run alone"
        assert isinstance(preview, FileChange)
        time.sleep(self.write_seconds)
        self.ran.append(f"write {arguments.path} {preview.after!r}")
        return Output({"written": arguments.path}, changed=FileChanged(arguments.path, "modified", "w1"))

    def _preview(self, arguments: PathArguments) -> Preview:
        runs_later = arguments.path == "Makefile"
        return FileChange(
            arguments.path, b"old", b"new", Sensitivity.RUNS_LATER if runs_later else Sensitivity.ORDINARY
        )

    def registry(self, **options: Any) -> ToolRegistry:
        read = Tool(
            "read", "Reads.", PathArguments, Effect.READ, self._read, lambda a: a.path,
            lambda a: SecretRead(a.path, "may hold secrets") if a.path == ".env" else None,
        )  # fmt: skip
        write = Tool("write", "Writes.", PathArguments, Effect.WRITE, self._write, lambda a: a.path, self._preview)
        return ToolRegistry([read, write], **options)

    async def approve(self, request: ApprovalRequest) -> Answer:
        self.asked.append(request)
        return self.answers.pop(0) if self.answers else Approved(request.preview)


def make_agent(bench: Bench, model: ScriptedModel, mode: Mode = Mode.ASK, **options: Any) -> Agent:
    limits = options.pop("limits", TurnLimits())
    persona = Persona("gemini-test", lambda mode: f"system {mode}", price=options.pop("price", lambda _: 0.01))
    agent = Agent(model, bench.registry(**options), persona, bench.approve, limits)
    agent.mode = mode
    return agent


def run(agent: Agent, prompt: str = "go", choice: ToolChoice = ToolChoice()) -> tuple[Outcome, list[Event]]:
    events: list[Event] = []
    outcome = asyncio.run(agent.run(UserMessage.of(prompt), events.append, choice))
    assert isinstance(events[-1], TurnFinished) and events[-1].outcome is outcome
    return outcome, events


def assert_valid(history: list[Message]) -> None:
    """Every call has exactly one result, in order, in the very next message; no message is empty."""
    waiting: tuple[str, ...] = ()
    for message in history:
        if isinstance(message, ToolMessage):
            assert tuple(result.call_id for result in message.results) == waiting
            waiting = ()
            continue
        assert not waiting, "a call was left without a result"
        assert message.parts, "an empty message would be rejected"
        if isinstance(message, ModelMessage):
            waiting = tuple(call.id for call in message.calls)
    assert not waiting


def test_a_text_ends_the_turn() -> None:
    agent = make_agent(Bench(), ScriptedModel(says("Hel", "lo")))
    outcome, events = run(agent)
    assert (outcome.status, outcome.answer, outcome.steps) == (Status.OK, "Hello", 1)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hel", "lo"]
    assert len(agent.history) == 2


def test_ten_parallel_reads_run_together_and_answer_in_call_order() -> None:
    bench = Bench()
    wanted = [("read", {"path": f"f{number}"}) for number in range(10)]
    agent = make_agent(bench, ScriptedModel(calls(*wanted, text="Looking."), says("done")))
    outcome, events = run(agent)
    assert outcome.status is Status.OK
    assert bench.most_active > 1
    results = agent.history[2]
    assert isinstance(results, ToolMessage)
    assert [result.response["output"]["content"] for result in results.results] == [f"f{n}" for n in range(10)]
    assert [event.subject for event in events if isinstance(event, ToolFinished)] == [f"f{n}" for n in range(10)]
    assert_valid(agent.history)


def test_writes_run_alone_and_in_order_between_reads() -> None:
    bench = Bench()
    script = calls(*[(name, {"path": path}) for name, path in
                     [("read", "a"), ("read", "b"), ("write", "c"), ("write", "d"), ("read", "e")]])  # fmt: skip
    outcome, _ = run(make_agent(bench, ScriptedModel(script, says("ok"))))
    assert set(bench.ran[:2]) == {"read a", "read b"}
    assert bench.ran[2:] == ["write c b'new'", "write d b'new'", "read e"]
    assert [change.path for change in outcome.files_changed] == ["c", "d"]


def test_text_beside_calls_is_shown_but_is_not_the_answer() -> None:
    outcome, events = run(
        make_agent(Bench(), ScriptedModel(calls(("read", {"path": "a"}), text="Let me see."), says("It is a.")))
    )
    finished = [event for event in events if isinstance(event, StepFinished)]
    assert [(step.text, step.final) for step in finished] == [("Let me see.", False), ("It is a.", True)]
    assert outcome.answer == "It is a."


def test_every_call_gets_a_result_whatever_is_wrong_with_it() -> None:
    bench = Bench()

    def fail(arguments: PathArguments) -> Output:
        if arguments.path == "bug":
            raise RuntimeError("a bug")
        raise ToolError("not_found", "No such file.", path=arguments.path)

    bench.read = fail
    bad = [{"path": 3}, {"path": "a", "pth": 1}, {"path": "bug"}]
    script = calls(("read", {"path": "missing"}), ("raed", {"path": "x"}), *[("read", args) for args in bad])
    agent = make_agent(bench, ScriptedModel(script, says("sorry")))
    outcome, _ = run(agent)
    message = agent.history[2]
    assert isinstance(message, ToolMessage)
    kinds = [result.error_kind for result in message.results]
    assert kinds == ["not_found", "unknown_tool", "invalid_arguments", "invalid_arguments", "internal"]
    assert message.results[1].response["error"]["closest"] == ["read"]
    assert message.results[3].response["error"]["problems"][0]["argument"] == "pth"
    assert message.results[3].response["error"]["allowed"] == ["path"]
    assert [record.ok for record in outcome.calls] == [False] * 5
    assert_valid(agent.history)


def test_the_permissive_setting_drops_unknown_arguments_with_a_note() -> None:
    agent = make_agent(Bench(), ScriptedModel(calls(("read", {"path": "a", "pth": 1})), says("ok")), strict=False)
    run(agent)
    message = agent.history[2]
    assert isinstance(message, ToolMessage)
    assert message.results[0].ok
    assert "pth" in message.results[0].response["notes"][0]


def test_a_declined_write_tells_the_model_why_and_the_turn_goes_on() -> None:
    bench = Bench()
    bench.answers = [Declined("keep the public name")]
    agent = make_agent(bench, ScriptedModel(calls(("write", {"path": "a"})), says("Then not.")))
    outcome, _ = run(agent)
    message = agent.history[2]
    assert isinstance(message, ToolMessage)
    assert "keep the public name" in message.results[0].error_message
    assert bench.ran == []
    assert (outcome.status, outcome.answer) == (Status.WRITE_REFUSED, "Then not.")


def test_a_later_write_to_the_same_path_clears_the_refusal() -> None:
    bench = Bench()
    bench.answers = [Declined()]
    script = [calls(("write", {"path": "./a"})), calls(("write", {"path": "./a"})), says("done")]
    outcome, _ = run(make_agent(bench, ScriptedModel(*script)))
    assert outcome.status is Status.OK
    assert bench.ran == ["write ./a b'new'"]


def test_what_the_person_changed_is_what_is_written() -> None:
    bench = Bench()
    bench.answers = [Approved(FileChange("a", b"old", b"edited"))]
    run(make_agent(bench, ScriptedModel(calls(("write", {"path": "a"})), says("done"))))
    assert bench.ran == ["write a b'edited'"]


def test_yes_for_the_rest_of_the_turn_covers_ordinary_files_of_this_turn_only() -> None:
    bench = Bench()
    bench.answers = [Approved(FileChange("a", b"old", b"new"), rest_of_turn=True)]
    names = ["a", "b", "Makefile"]
    script = calls(*[("write", {"path": name}) for name in names])
    agent = make_agent(bench, ScriptedModel(script, says("one"), calls(("write", {"path": "c"})), says("two")))
    run(agent)
    assert [request.preview.path for request in bench.asked] == ["a", "Makefile"]
    run(agent)
    assert [request.preview.path for request in bench.asked] == ["a", "Makefile", "c"]


def test_stopping_at_a_question_ends_the_turn_with_a_result_for_every_call() -> None:
    bench = Bench()
    bench.answers = [Stopped()]
    script = calls(("read", {"path": "a"}), ("write", {"path": "b"}), ("read", {"path": "c"}))
    agent = make_agent(bench, ScriptedModel(script))
    outcome, _ = run(agent)
    assert outcome.status is Status.INTERRUPTED
    assert bench.ran == ["read a"]
    message = agent.history[2]
    assert isinstance(message, ToolMessage)
    assert [result.ok for result in message.results] == [True, False, False]
    assert_valid(agent.history)


def test_read_only_declares_no_write_tool_and_refuses_one_that_is_called_anyway() -> None:
    bench = Bench()
    model = ScriptedModel(calls(("write", {"path": "a"})), says("I can't."))
    outcome, _ = run(make_agent(bench, model, Mode.NONE))
    assert [tool.name for tool in model.requests[0].tools] == ["read"]
    assert "none" in model.requests[0].system
    assert outcome.status is Status.WRITE_REFUSED
    assert bench.ran == [] and bench.asked == []


def test_a_secret_is_asked_for_even_in_read_only_mode() -> None:
    bench = Bench()
    bench.answers = [Declined()]
    agent = make_agent(
        bench, ScriptedModel(calls(("read", {"path": ".env"}), ("read", {"path": "a"})), says("ok")), Mode.NONE
    )
    outcome, _ = run(agent)
    assert bench.ran == ["read a"]
    assert outcome.status is Status.OK


def test_without_a_terminal_nobody_is_asked() -> None:
    bench = Bench()
    agent = make_agent(bench, ScriptedModel(calls(("write", {"path": "a"})), says("ok")))
    agent.approve = decline_unasked
    outcome, _ = run(agent)
    assert outcome.status is Status.WRITE_REFUSED
    assert bench.ran == []


def test_a_forced_choice_holds_for_the_first_step_only() -> None:
    model = ScriptedModel(calls(("read", {"path": "a"})), says("ok"))
    run(make_agent(Bench(), model), choice=ToolChoice(ChoiceMode.REQUIRED, ("read",)))
    assert [request.tool_choice.mode for request in model.requests] == [ChoiceMode.REQUIRED, ChoiceMode.AUTO]


def test_the_step_limit_stops_the_turn_with_a_valid_history() -> None:
    bench = Bench()
    agent = make_agent(bench, ScriptedModel(*[calls(("read", {"path": "a"}))] * 3), limits=TurnLimits(steps=3))
    outcome, _ = run(agent)
    assert (outcome.status, outcome.steps) == (Status.INCOMPLETE, 3)
    assert outcome.error is not None and "--max-steps" in outcome.error.hint
    assert_valid(agent.history)


def test_the_cost_limit_stops_before_the_next_request() -> None:
    model = ScriptedModel(*[calls(("read", {"path": "a"}))] * 5)
    outcome, _ = run(make_agent(Bench(), model, limits=TurnLimits(cost_usd=0.02)))
    assert (outcome.status, len(model.requests)) == (Status.INCOMPLETE, 2)
    assert outcome.cost_usd == pytest.approx(0.02)


def test_an_unknown_price_gives_no_cost_rather_than_a_wrong_one() -> None:
    outcome, _ = run(make_agent(Bench(), ScriptedModel(says("hi")), price=lambda _: None))
    assert outcome.cost_usd is None


def test_the_time_limit_covers_the_whole_turn() -> None:
    agent = make_agent(Bench(), ScriptedModel([30.0]), limits=TurnLimits(seconds=0.05))
    outcome, _ = run(agent)
    assert outcome.status is Status.INCOMPLETE
    assert agent.history == []


def test_usage_is_the_sum_of_all_steps() -> None:
    first, second = Usage(prompt=100, cached=50, output=5, thought=2, total=107), Usage(prompt=120, output=9, total=129)
    model = ScriptedModel(calls(("read", {"path": "a"}), usage=first), says("ok", usage=second))
    outcome, _ = run(make_agent(Bench(), model))
    assert outcome.usage == Usage(prompt=220, cached=50, output=14, thought=2, total=236)


def used(prompt: int) -> Metered:
    return Metered(Usage(prompt=prompt))


UNSAFE = Finish(FinishKind.BLOCKED, "SAFETY")
AGAIN = Retrying("cut", 0.0, 1, 5)


def by_prompt(usage: Usage) -> float:
    """Dearer from a thousand tokens on, so that it shows when attempts are priced together."""
    return usage.prompt * (1.0 if usage.prompt < 1000 else 2.0)


@pytest.mark.parametrize(
    ("script", "status", "paid"),
    [
        ([used(600), TextDelta("ha"), AGAIN, *says("ok", usage=Usage(prompt=500))], Status.OK, 1100),
        ([used(1), used(600), AGAIN, used(700), AGAIN, *says("ok", usage=Usage(prompt=500))], Status.OK, 1800),
        ([used(600), AGAIN, used(500), ModelError("cut")], Status.API_ERROR, 1100),
        ([used(600), *says("x", usage=Usage(prompt=600), finish=UNSAFE)], Status.BLOCKED, 600),
        ([AGAIN, ModelError("cut")], Status.API_ERROR, 0),
        ([used(600), 30.0], Status.INCOMPLETE, 600),
    ],
)  # fmt: skip
def test_every_attempt_that_was_counted_is_paid_for_once(script: Script, status: Status, paid: int) -> None:
    limits = TurnLimits(seconds=0.2 if 30.0 in script else None)
    agent = make_agent(Bench(), ScriptedModel(script), price=by_prompt, limits=limits)
    outcome, events = run(agent)
    assert (outcome.status, outcome.usage.prompt, outcome.cost_usd) == (status, paid, paid)
    assert (agent.spent, agent.state.cost_usd, agent.state.usage.prompt) == (paid, paid, paid)
    steps = [event for event in events if isinstance(event, StepFinished)]
    assert outcome.steps == len(steps) == agent.state.steps
    assert sum(step.usage.prompt for step in steps) == (paid if steps else 0)
    if status is Status.OK:
        assert (agent.window.tokens, len(agent.history)) == (500, 2)
    else:
        assert agent.history == []


def test_no_attempt_follows_when_the_money_is_spent() -> None:
    limits = TurnLimits(cost_usd=500.0)
    model = ScriptedModel([TextDelta("a"), used(600), AGAIN, *says("never")], says("nor this"))
    agent = make_agent(Bench(), model, price=by_prompt, limits=limits)
    outcome, events = run(agent)
    assert (outcome.status, outcome.steps, model.closed) == (Status.INCOMPLETE, 0, 1)
    assert outcome.error is not None
    assert outcome.error.message == "Spent $600.00 of $500.00 (--max-cost)."
    assert AGAIN not in events
    assert (run(agent)[0].status, len(model.requests)) == (Status.INCOMPLETE, 1)
    agent.limits = TurnLimits(cost_usd=1000.0)
    assert run(agent)[0].answer == "nor this"


@pytest.mark.parametrize(
    ("finish", "status", "kept"),
    [
        (Finish(FinishKind.CUT, "MAX_TOKENS"), Status.INCOMPLETE, True),
        (Finish(FinishKind.BLOCKED, "SAFETY"), Status.BLOCKED, False),
        (Finish(FinishKind.MALFORMED, "MALFORMED_FUNCTION_CALL", "bad"), Status.INCOMPLETE, False),
        (Finish(FinishKind.EMPTY, "STOP"), Status.INCOMPLETE, False),
        (Finish(FinishKind.EMPTY, ""), Status.INCOMPLETE, False),
        (Finish(FinishKind.OTHER, "NEW_REASON"), Status.INCOMPLETE, False),
    ],
)
def test_an_unfinished_answer_is_said_and_never_spoils_the_history(finish: Finish, status: Status, kept: bool) -> None:
    agent = make_agent(Bench(), ScriptedModel(says("part", finish=finish), says("fine")))
    outcome, _ = run(agent)
    assert outcome.status is status
    assert outcome.error is not None and outcome.error.message and outcome.error.hint
    assert finish.reason in outcome.error.message or finish.kind is FinishKind.EMPTY
    assert len(agent.history) == (2 if kept else 0)
    assert run(agent)[0].status is Status.OK
    assert_valid(agent.history)


def test_calls_in_an_unfinished_answer_are_never_run() -> None:
    bench = Bench()
    message = ModelMessage((ToolCall("c0", "write", {"path": "a"}),))
    script = [ModelReplied(message, Finish(FinishKind.MALFORMED, "UNEXPECTED_TOOL_CALL"))]
    run(make_agent(bench, ScriptedModel(script), Mode.ALL))
    assert bench.ran == []


@pytest.mark.parametrize("code", [ExitCode.API_ERROR, ExitCode.USAGE, ExitCode.QUOTA, ExitCode.BLOCKED])
def test_a_failed_request_ends_the_turn_with_its_own_status(code: ExitCode) -> None:
    agent = make_agent(
        Bench(), ScriptedModel([TextDelta("par"), ModelError("It failed.", "Wait.", exit_code=code)], says("ok"))
    )
    outcome, _ = run(agent)
    assert outcome.status.exit_code is code
    assert agent.history == []
    assert run(agent)[0].status is Status.OK


def test_a_failure_after_tools_ran_keeps_what_was_done() -> None:
    bench = Bench()
    agent = make_agent(bench, ScriptedModel(calls(("read", {"path": "a"})), [ModelError("It failed.")], says("ok")))
    assert run(agent)[0].status is Status.API_ERROR
    assert len(agent.history) == 3
    assert run(agent)[0].status is Status.OK
    assert_valid(agent.history)
    assert bench.ran == ["read a"]


def test_retries_reach_the_listener() -> None:
    retry = Retrying("overloaded", 0.1, 1, 5)
    _, events = run(make_agent(Bench(), ScriptedModel([TextDelta("par"), retry, *says("whole")])))
    assert retry in events


def test_another_model_goes_on_only_if_the_person_named_one() -> None:
    down = ModelError("The model is overloaded.", "Wait.", retryable=True)
    model = ScriptedModel([TextDelta("par"), down], says("whole"), says("again"))
    agent = make_agent(Bench(), model)
    agent.fallback = Persona("gemini-other", lambda _: "system", price=lambda _: 0.5)
    outcome, events = run(agent)
    assert (outcome.status, outcome.answer, outcome.cost_usd) == (Status.OK, "whole", 0.5)
    assert [request.model for request in model.requests] == ["gemini-test", "gemini-other"]
    assert any(isinstance(event, Retrying) and "gemini-other" in event.reason for event in events)
    run(agent)
    assert model.requests[-1].model == "gemini-other"


def test_a_refused_request_does_not_go_to_another_model() -> None:
    model = ScriptedModel([ModelError("Bad key.", exit_code=ExitCode.USAGE)])
    agent = make_agent(Bench(), model)
    agent.fallback = Persona("gemini-other", lambda _: "system")
    assert run(agent)[0].status is Status.USAGE_ERROR
    assert len(model.requests) == 1


def test_a_stream_that_ends_without_a_reply_is_an_error() -> None:
    assert run(make_agent(Bench(), ScriptedModel([TextDelta("x")])))[0].status is Status.API_ERROR


def run_cancelled(agent: Agent, ready: Callable[[list[Event]], bool]) -> list[Event]:
    events: list[Event] = []

    async def main() -> None:
        task = asyncio.ensure_future(agent.run(UserMessage.of("go"), events.append))
        await cancel_when(task, lambda: ready(events))
        assert task.cancelled()

    asyncio.run(main())
    last = events[-1]
    assert isinstance(last, TurnFinished) and last.outcome.status is Status.INTERRUPTED
    return events


def test_cancel_while_waiting_closes_the_stream_and_gives_the_prompt_back() -> None:
    model = ScriptedModel([30.0], says("ok"))
    agent = make_agent(Bench(), model)
    run_cancelled(agent, lambda _: bool(model.requests))
    assert (agent.history, model.closed) == ([], 1)
    assert run(agent)[0].status is Status.OK


def test_cancel_in_mid_stream_keeps_nothing_half() -> None:
    model = ScriptedModel([TextDelta("par"), 30.0], says("ok"))
    agent = make_agent(Bench(), model)
    run_cancelled(agent, lambda events: TextDelta("par") in events)
    assert (agent.history, model.closed) == ([], 1)


def test_cancel_while_reads_run_answers_every_call() -> None:
    bench = Bench()
    bench.read = lambda _: (time.sleep(0.3), Output("late"))[1]
    agent = make_agent(bench, ScriptedModel(calls(("read", {"path": "a"}), ("read", {"path": "b"})), says("ok")))
    run_cancelled(agent, lambda events: any(isinstance(event, ToolStarted) for event in events))
    assert_valid(agent.history)
    message = agent.history[-1]
    assert isinstance(message, ToolMessage)
    assert [result.error_kind for result in message.results] == ["cancelled", "cancelled"]
    assert run(agent)[0].status is Status.OK


def test_cancel_while_a_write_runs_waits_for_it_and_tells_the_truth() -> None:
    bench = Bench()
    bench.write_seconds = 0.2
    agent = make_agent(bench, ScriptedModel(calls(("write", {"path": "a"}), ("write", {"path": "b"}))), Mode.ALL)
    events = run_cancelled(agent, lambda events: any(isinstance(event, ToolStarted) for event in events))
    message = agent.history[-1]
    assert isinstance(message, ToolMessage)
    wrote = bench.ran == ["write a b'new'"]
    assert message.results[0].ok is wrote
    assert message.results[1].error_kind == "cancelled"
    last = events[-1]
    assert isinstance(last, TurnFinished)
    assert [change.path for change in last.outcome.files_changed] == (["a"] if wrote else [])
    assert_valid(agent.history)


def test_cancel_at_a_question_writes_nothing() -> None:
    bench = Bench()

    async def never(request: ApprovalRequest) -> Answer:
        bench.asked.append(request)
        await asyncio.sleep(30)
        raise AssertionError

    agent = make_agent(bench, ScriptedModel(calls(("write", {"path": "a"})), says("ok")))
    agent.approve = never
    run_cancelled(agent, lambda _: bool(bench.asked))
    assert bench.ran == []
    assert_valid(agent.history)


def test_a_call_that_takes_too_long_is_answered_and_the_turn_goes_on() -> None:
    bench = Bench()
    bench.read = lambda _: (time.sleep(0.3), Output("late"))[1]
    agent = make_agent(bench, ScriptedModel(calls(("read", {"path": "a"})), says("ok")))
    agent.registry = bench.registry(limits=Limits(call_seconds=0.05))
    outcome, _ = run(agent)
    message = agent.history[2]
    assert isinstance(message, ToolMessage)
    assert (message.results[0].error_kind, outcome.status) == ("timeout", Status.OK)


def test_calls_and_writes_beyond_the_limit_are_refused_with_a_reason() -> None:
    bench = Bench()
    script = calls(*[("write", {"path": f"f{n}"}) for n in range(3)], *[("read", {"path": "r"})] * 3)
    agent = make_agent(bench, ScriptedModel(script, says("ok")), Mode.ALL)
    agent.registry = bench.registry(limits=Limits(calls_per_turn=5, writes_per_turn=2))
    run(agent)
    message = agent.history[2]
    assert isinstance(message, ToolMessage)
    assert [result.ok for result in message.results] == [True, True, False, True, True, False]
    assert {message.results[2].error_kind, message.results[5].error_kind} == {"limit"}


STEPS = st.lists(
    st.sampled_from(["text", "empty", "blocked", "read", "write", "both", "unknown", "error", "cut"]),
    min_size=1,
    max_size=6,
)


@given(st.lists(STEPS, min_size=1, max_size=3), st.sampled_from(list(Mode)))
def test_any_sequence_of_model_events_leaves_a_valid_history(turns: list[list[str]], mode: Mode) -> None:
    scripts: dict[str, Any] = {
        "text": says("hi"),
        "empty": says(finish=Finish(FinishKind.EMPTY, "STOP")),
        "blocked": says(finish=Finish(FinishKind.BLOCKED, "SAFETY")),
        "cut": says("par", finish=Finish(FinishKind.CUT, "MAX_TOKENS")),
        "read": calls(("read", {"path": "a"})),
        "write": calls(("write", {"path": "a"})),
        "both": calls(("read", {"path": "a"}), ("write", {"path": 1}), ("read", {"path": "b"}), text="look"),
        "unknown": calls(("nothing", {})),
        "error": [ModelError("It failed.")],
    }
    bench = Bench()
    agent = make_agent(bench, ScriptedModel(), mode)
    for steps in turns:
        agent.model = ScriptedModel(*[scripts[step] for step in steps], *[says("end")])
        outcome, _ = run(agent)
        assert outcome.status in Status
        assert_valid(agent.history)


class BrokenAudit:
    """An audit log that fails in a way of its own, before or after the call."""

    def __init__(self, error: Exception, *, late: bool) -> None:
        self._error = error
        self._late = late

    def intents(self, calls: Iterable[tuple[ToolCall, Effect]]) -> Sequence[object]:
        if not self._late:
            raise self._error
        return [1 for _ in calls]

    def outcome(self, entry: object, call: ToolCall, decision: str, result: ToolResult) -> None:
        raise self._error


BROKEN = [OSError(28, "No space left on device"), ValueError("4301 digits"), RecursionError(), MemoryError()]


@pytest.mark.parametrize("error", BROKEN, ids=lambda error: type(error).__name__)
def test_a_write_that_can_not_be_noted_is_refused_however_that_failed(error: Exception) -> None:
    bench = Bench()
    wanted = calls(("read", {"path": "a"}), ("write", {"path": "b"}), ("nothing", {}))
    agent = make_agent(bench, ScriptedModel(wanted, says("done")), Mode.ALL, audit=BrokenAudit(error, late=False))
    outcome, _ = run(agent)
    assert (outcome.status, bench.ran) == (Status.WRITE_REFUSED, ["read a"])
    assert outcome.error is not None and "the audit log can't be written" in outcome.error.message
    assert [(call.ok, call.kind) for call in outcome.calls] == [(True, ""), (False, "audit"), (False, "unknown_tool")]
    assert_valid(agent.history)


@pytest.mark.parametrize("error", BROKEN, ids=lambda error: type(error).__name__)
def test_a_write_that_was_noted_stands_although_its_outcome_could_not_be(error: Exception) -> None:
    bench = Bench()
    wanted = calls(("write", {"path": "b"}))
    agent = make_agent(bench, ScriptedModel(wanted, says("done")), Mode.ALL, audit=BrokenAudit(error, late=True))
    outcome, _ = run(agent)
    assert (outcome.status, [change.path for change in outcome.files_changed]) == (Status.OK, ["b"])
    assert_valid(agent.history)


def looking_ahead(look: Callable[[PathArguments], Preview | None], limits: Limits = Limits()) -> Agent:
    tool = Tool("read", "Reads.", PathArguments, Effect.READ, lambda *_: Output("never"), lambda a: a.path, look)
    persona = Persona("gemini-test", lambda _: "system")
    model = ScriptedModel(calls(("read", {"path": "a"})), says("done"))
    return Agent(model, ToolRegistry([tool], limits=limits), persona, decline_unasked)


def test_a_fault_in_looking_ahead_is_a_result_for_the_model() -> None:
    def stumble(_: PathArguments) -> Preview | None:
        raise RecursionError("too deep")

    agent = looking_ahead(stumble)
    outcome, _ = run(agent)
    assert (outcome.status, [call.kind for call in outcome.calls]) == (Status.OK, ["internal"])
    assert_valid(agent.history)


def test_looking_ahead_for_too_long_is_answered_and_the_turn_goes_on() -> None:
    agent = looking_ahead(lambda _: time.sleep(0.3), Limits(call_seconds=0.05))
    outcome, _ = run(agent)
    assert (outcome.status, [call.kind for call in outcome.calls]) == (Status.OK, ["timeout"])
    assert_valid(agent.history)
