import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.events import Event, Notice, Outcome, Status
from gemcode.agent.loop import Agent
from gemcode.agent.loops import LONGEST_CYCLE, REPEATS, Loop, LoopWatch
from gemcode.agent.messages import Message, ToolCall, ToolMessage, ToolResult, UserMessage
from gemcode.agent.persona import TurnLimits
from gemcode.agent.tool import Output
from tests.agent.test_loop import Bench, assert_valid, make_agent
from tests.scripted import ScriptedModel, calls, says


def see(watch: LoopWatch, name: str, result: object = "same", call_id: str = "c") -> Loop | None:
    return watch.see([ToolCall(call_id, name, {"path": "a"})], [ToolResult(call_id, name, {"output": result})])


def test_the_third_same_call_with_the_same_result_is_a_loop() -> None:
    watch = LoopWatch()
    found = [see(watch, "read", call_id=str(number)) for number in range(REPEATS)]
    assert found[:2] == [None, None]
    assert found[2] is not None and (found[2].period, found[2].told) == (1, False)
    again = see(watch, "read")
    assert again is not None and again.told


def test_another_result_is_progress_however_often_the_call_is_made() -> None:
    watch = LoopWatch()
    assert [see(watch, "read", number) for number in range(50)] == [None] * 50
    assert [see(watch, "read", number // 2) for number in range(50)] == [None] * 50


def test_what_runs_together_in_one_step_counts_once() -> None:
    watch = LoopWatch()
    wanted = [ToolCall(str(number), "read", {"path": "a"}) for number in range(10)]
    results = [ToolResult(call.id, "read", {"output": 1}) for call in wanted]
    assert watch.see(wanted, results) is None


def test_a_model_that_stops_repeating_is_left_alone_and_watched_anew() -> None:
    watch = LoopWatch()
    for _ in range(REPEATS):
        found = see(watch, "read")
    assert found is not None
    assert see(watch, "list") is None
    assert [see(watch, "read") is not None for _ in range(REPEATS)] == [False, False, True]


def test_after_a_yes_the_count_begins_anew() -> None:
    watch = LoopWatch()
    for _ in range(REPEATS + 1):
        see(watch, "read")
    watch.forgive()
    found = [see(watch, "read") for _ in range(REPEATS)]
    assert found[:2] == [None, None] and found[2] is not None and not found[2].told


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), min_size=1, max_size=LONGEST_CYCLE))
def test_any_repeated_cycle_is_found_after_three_rounds_at_most(before: list[int], cycle: list[int]) -> None:
    watch = LoopWatch()
    for item in before:
        see(watch, f"tool{item}")
    found = [see(watch, f"tool{item}") for item in cycle * REPEATS]
    assert any(loop is not None for loop in found)
    told = [loop for item in cycle for loop in [see(watch, f"tool{item}")] if loop]
    assert any(loop.told for loop in told) or any(loop is not None and loop.told for loop in found)


@given(st.lists(st.integers(0, 9), max_size=40))
def test_no_loop_is_claimed_where_nothing_repeats_three_times(items: list[int]) -> None:
    watch = LoopWatch()
    for index, item in enumerate(items, 1):
        loop = see(watch, str(item))
        seen = items[:index]
        repeats = any(
            seen[-REPEATS * period :] == seen[-period:] * REPEATS for period in range(1, len(seen) // REPEATS + 1)
        )
        assert loop is None or repeats


READ = ("read", {"path": "a"})


def run(agent: Agent) -> tuple[Outcome, list[Event]]:
    events: list[Event] = []
    return asyncio.run(agent.run(UserMessage.of("go"), events.append)), events


def notes(history: Sequence[Message]) -> list[Any]:
    results = [message.results[-1] for message in history if isinstance(message, ToolMessage)]
    return [result.response.get("notes") for result in results]


def test_a_loop_is_first_told_to_the_model() -> None:
    agent = make_agent(Bench(), ScriptedModel(*[calls(READ)] * REPEATS, says("I see.")))
    outcome, events = run(agent)
    assert outcome.status is Status.OK
    told = notes(agent.history)
    assert told[:2] == [None, None] and "same result 3 times" in told[2][0]
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "Same call, same result, 3 times: read a. The model was told."
    ]
    assert_valid(agent.history)


def test_without_a_person_a_loop_that_goes_on_ends_the_turn() -> None:
    model = ScriptedModel(*[calls(READ)] * 20)
    agent = make_agent(Bench(), model)
    outcome, _ = run(agent)
    assert (outcome.status, len(model.requests)) == (Status.INCOMPLETE, REPEATS + 1)
    assert outcome.error is not None and outcome.error.message == "Same call, same result, 4 times: read a."
    assert_valid(agent.history)


@pytest.mark.parametrize("answers", [[False], [True, False]])
def test_a_person_decides_whether_a_loop_goes_on(answers: list[bool]) -> None:
    model = ScriptedModel(*[calls(READ)] * 20)
    agent = make_agent(Bench(), model)
    asked: list[str] = []

    async def go_on(sentence: str) -> bool:
        asked.append(sentence)
        return answers[len(asked) - 1]

    agent.go_on = go_on
    outcome, _ = run(agent)
    assert outcome.status is Status.INCOMPLETE
    assert len(asked) == len(answers)
    assert len(model.requests) == (REPEATS + 1) * len(answers)


def test_rereading_a_file_that_changes_is_no_loop() -> None:
    bench = Bench()
    bench.read = lambda _: Output({"content": len(bench.ran)})
    outcome, events = run(make_agent(bench, ScriptedModel(*[calls(READ)] * 10, says("done"))))
    assert outcome.status is Status.OK
    assert not [event for event in events if isinstance(event, Notice)]


def test_the_person_may_allow_more_steps() -> None:
    bench = Bench()
    bench.read = lambda _: Output({"content": len(bench.ran)})
    agent = make_agent(bench, ScriptedModel(*[calls(READ)] * 5, says("done")), limits=TurnLimits(steps=2))
    asked: list[str] = []

    async def go_on(sentence: str) -> bool:
        asked.append(sentence)
        return True

    agent.go_on = go_on
    outcome, _ = run(agent)
    assert (outcome.status, asked) == (Status.OK, ["Stopped after 2 steps.", "Stopped after 4 steps."])


def test_the_cost_limit_holds_for_all_turns_together() -> None:
    model = ScriptedModel(says("one"), says("two"), says("three"))
    agent = make_agent(Bench(), model, limits=TurnLimits(cost_usd=0.02))
    assert [run(agent)[0].status for _ in range(3)] == [Status.OK, Status.OK, Status.INCOMPLETE]
    assert len(model.requests) == 2
    assert len(agent.history) == 4


def test_a_cost_limit_that_can_not_hold_is_said() -> None:
    agent = make_agent(Bench(), ScriptedModel(says("one")), price=lambda _: None, limits=TurnLimits(cost_usd=0.02))
    outcome, events = run(agent)
    assert outcome.status is Status.OK
    assert [event for event in events if isinstance(event, Notice) and "price" in event.text]


def test_an_answer_without_an_end_is_broken_off() -> None:
    model = ScriptedModel(says(*["x" * 1000] * 50), says("ok"))
    agent = make_agent(Bench(), model, limits=TurnLimits(text_bytes=10_000))
    outcome, _ = run(agent)
    assert (outcome.status, model.closed, agent.history) == (Status.INCOMPLETE, 1, [])
    assert run(agent)[0].status is Status.OK
