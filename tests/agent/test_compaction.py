import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.compaction import (
    FRESH_RESULTS,
    LARGE_RESULT,
    choose_cut,
    size,
    summary_message,
    summary_request,
    with_stubs,
)
from gemcode.agent.errors import GemcodeError, ModelError
from gemcode.agent.events import Event, Notice, Outcome, Status
from gemcode.agent.loop import Agent
from gemcode.agent.messages import (
    ChoiceMode,
    Message,
    ModelMessage,
    ModelRequest,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gemcode.agent.model import Finish, FinishKind, Metered
from gemcode.agent.persona import Persona, TurnLimits
from gemcode.agent.policy import Mode
from gemcode.agent.tool import Output
from tests.agent.test_loop import Bench, assert_valid, make_agent
from tests.scripted import Script, ScriptedModel, calls, says

LIMIT = 1000


def too_long() -> ModelError:
    error = ModelError("The conversation is too long.", "Shorten it.")
    error.too_long = True
    return error


def agent_with(*scripts: Script, share: float | None = 0.8) -> tuple[Agent, ScriptedModel, Bench]:
    bench, model = Bench(), ScriptedModel(*scripts)
    agent = make_agent(bench, model, Mode.ALL, limits=TurnLimits(compact_at=share))
    agent.persona = Persona("gemini-test", lambda mode: f"system {mode}", price=lambda _: 0.01, input_limit=LIMIT)
    return agent, model, bench


def run(agent: Agent, prompt: str) -> tuple[Outcome, list[Event]]:
    events: list[Event] = []
    return asyncio.run(agent.run(UserMessage.of(prompt), events.append)), events


def uses(tokens: int) -> Usage:
    return Usage(prompt=tokens, total=tokens)


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def test_a_full_window_is_compacted_before_the_next_request() -> None:
    agent, model, _ = agent_with(
        calls(("write", {"path": "a"}), usage=uses(500)),
        says("first answer", usage=uses(900)),
        says("the summary", usage=uses(950)),
        says("second answer", usage=uses(300)),
    )
    run(agent, "do the first thing")
    old = list(agent.history)
    outcome, events = run(agent, "and the second")
    assert outcome.status is Status.OK
    head = agent.history[0]
    assert isinstance(head, UserMessage)
    assert "the summary" in head.text
    assert "1. do the first thing" in head.text
    assert "- a modified (+0 -0)" in head.text
    assert [message.text for message in agent.history[1:] if not isinstance(message, ToolMessage)] == [
        "and the second", "second answer",
    ]  # fmt: skip
    told = [text for text in notices(events) if text.startswith("Compacted 1 turn")]
    assert len(told) == 1 and "900 tokens before" in told[0]
    assert outcome.cost_usd == pytest.approx(0.02)
    assert agent.state.cost_usd == pytest.approx(0.04)
    assert agent.undo_compaction()
    assert agent.history[: len(old)] == old
    assert [message.text for message in agent.history[len(old) :] if isinstance(message, ModelMessage)] == [
        "second answer"
    ]
    assert_valid(agent.history)
    assert not agent.undo_compaction()
    assert len(model.requests) == 4


def test_the_request_for_a_summary_has_the_same_prefix_and_no_calls() -> None:
    agent, model, _ = agent_with(
        calls(("read", {"path": "a"})), says("one", usage=uses(900)), says("summary"), says("two")
    )
    run(agent, "first")
    run(agent, "second")
    last, summary = model.requests[1], model.requests[2]
    assert (summary.system, summary.tools) == (last.system, last.tools)
    assert list(summary.messages[: len(last.messages)]) == list(last.messages)
    assert summary.tool_choice.mode is ChoiceMode.NONE


def test_it_is_never_compacted_twice_in_a_row() -> None:
    agent, model, _ = agent_with(
        says("1", usage=uses(900)),
        says("summary"), says("2", usage=uses(900)),  # still full: a second compaction would not help
        says("3", usage=uses(400)),  # room again
        says("4", usage=uses(900)),
        says("summary"), says("5", usage=uses(100)),
    )  # fmt: skip
    compacted = [any(text.startswith("Compacted") for text in notices(run(agent, str(n))[1])) for n in range(5)]
    assert compacted == [False, True, False, False, True]
    assert len(model.requests) == 7


def test_the_words_of_all_compacted_turns_stay_through_several_compactions() -> None:
    agent, _, _ = agent_with(
        says("1", usage=uses(900)),
        says("summary A"), says("2", usage=uses(100)),
        says("3", usage=uses(900)),
        says("summary B"), says("4", usage=uses(100)),
    )  # fmt: skip
    for word in ("alpha", "beta", "gamma", "delta"):
        run(agent, word)
    head = agent.history[0]
    assert isinstance(head, UserMessage)
    assert "summary B" in head.text and "summary A" not in head.text
    assert "1. alpha\n2. beta" in head.text
    said = head.text + "".join(message.text for message in agent.history[1:] if isinstance(message, UserMessage))
    assert all(said.count(word) == 1 for word in ("alpha", "beta", "gamma", "delta"))


def test_input_that_the_service_finds_too_long_is_compacted_not_failed() -> None:
    agent, _, _ = agent_with(says("1"), [too_long()], says("summary"), says("2"))
    run(agent, "one")
    outcome, events = run(agent, "two")
    assert (outcome.status, outcome.answer) == (Status.OK, "2")
    assert any(text.startswith("Compacted 1 turn") for text in notices(events))


def test_input_that_stays_too_long_fails_with_the_service_s_own_reason() -> None:
    agent, model, _ = agent_with(says("1"), [too_long()], says("summary"), [too_long()])
    run(agent, "one")
    outcome, _ = run(agent, "two")
    assert outcome.status is Status.API_ERROR
    assert outcome.error is not None and outcome.error.message == "The conversation is too long."
    assert len(model.requests) == 4
    assert_valid(agent.history)


def test_a_first_prompt_that_is_too_long_can_not_be_compacted() -> None:
    agent, model, _ = agent_with([too_long()])
    outcome, _ = run(agent, "x" * 100)
    assert (outcome.status, agent.history, len(model.requests)) == (Status.API_ERROR, [], 1)


@pytest.mark.parametrize(
    "bad", [says(finish=Finish(FinishKind.BLOCKED, "SAFETY")), [ModelError("It failed.")], says("  "), []]
)
def test_a_summary_that_fails_changes_nothing_and_the_turn_goes_on(bad: Script) -> None:
    agent, _, _ = agent_with(says("1", usage=uses(900)), bad, says("2", usage=uses(950)))
    run(agent, "one")
    outcome, events = run(agent, "two")
    assert (outcome.status, len(agent.history)) == (Status.OK, 4)
    assert any(text.startswith("Not compacted") for text in notices(events))


def test_one_long_turn_gives_up_its_old_large_results_without_a_request() -> None:
    steps = [calls(("read", {"path": f"f{n}"}), usage=uses(100)) for n in range(5)]
    full = calls(("read", {"path": "last"}), usage=uses(900))
    agent, model, bench = agent_with(*steps, full, says("done", usage=uses(200)))
    bench.read = lambda arguments: Output({"content": arguments.path * 2000})
    outcome, events = run(agent, "go")
    assert outcome.status is Status.OK
    assert len(model.requests) == 7
    assert any(text.startswith("Compacted old tool results") for text in notices(events))
    results = [message.results[0] for message in agent.history if isinstance(message, ToolMessage)]
    stubs = [str(result.response["output"]).startswith("Left out to save room") for result in results]
    assert stubs == [True] * 4 + [False] * FRESH_RESULTS
    assert 'Call read with {"path": "f0"}' in results[0].response["output"]
    assert agent.state.summaries == 0
    assert_valid(agent.history)


def test_compacting_by_hand_and_its_undo() -> None:
    agent, _, _ = agent_with(says("1", usage=uses(100)), says("2", usage=uses(200)), says("summary", usage=uses(210)))
    run(agent, "one")
    run(agent, "two")
    before = list(agent.history)
    done = asyncio.run(agent.compact())
    assert (done.turns, done.before) == (2, 200)
    assert len(agent.history) == 1
    assert agent.undo_compaction() and agent.history == before
    with pytest.raises(GemcodeError, match="nothing to compact"):
        asyncio.run(agent_with()[0].compact())


def test_nothing_but_a_summary_is_not_compacted_again() -> None:
    agent, _, _ = agent_with(says("1"), says("summary"))
    run(agent, "one")
    asyncio.run(agent.compact())
    with pytest.raises(GemcodeError, match="nothing to compact"):
        asyncio.run(agent.compact())


def test_it_can_be_switched_off() -> None:
    agent, model, _ = agent_with(says("1", usage=uses(999)), says("2", usage=uses(999)), share=None)
    run(agent, "one")
    run(agent, "two")
    assert len(model.requests) == 2


TURNS = st.lists(
    st.tuples(st.integers(0, 3000), st.lists(st.integers(0, 5000), max_size=3)).map(
        lambda turn: make_turn(turn[0], turn[1])
    ),
    max_size=6,
)


def make_turn(length: int, results: list[int]) -> list[Message]:
    messages: list[Message] = [UserMessage.of("p" * length)]
    for number, result in enumerate(results):
        messages.append(ModelMessage((ToolCall(f"c{number}", "read", {"path": "a"}),)))
        messages.append(ToolMessage((ToolResult(f"c{number}", "read", {"output": "r" * result}),)))
    return [*messages, ModelMessage((Text("done"),))]


@given(TURNS, st.booleans(), st.booleans(), st.integers(0, 10_000))
def test_a_cut_is_only_made_before_a_prompt_or_at_the_end(
    turns: list[list[Message]], summarised: bool, open_turn: bool, keep: int
) -> None:
    history = [message for turn in turns for message in turn]
    if open_turn:
        history.append(UserMessage.of("now"))
    cut = choose_cut(history, keep, summarised=summarised, open_turn=open_turn)
    assert cut == 0 or cut == len(history) or isinstance(history[cut], UserMessage)
    assert not (open_turn and cut == len(history) and history)
    assert_valid(history[cut:])
    stubbed = with_stubs(history)
    assert_valid(stubbed)
    assert len(stubbed) == len(history)
    assert sum(map(size, stubbed)) <= sum(map(size, history))


def test_small_results_errors_and_fresh_ones_stay_whole() -> None:
    large = {"output": "x" * LARGE_RESULT}
    failed = {"error": {"type": "io", "message": "x" * LARGE_RESULT}}
    responses = [{"output": "small"}, failed, large, large, large]
    history = [
        message
        for number, response in enumerate(responses)
        for message in (
            ModelMessage((ToolCall(f"c{number}", "read", {}),)),
            ToolMessage((ToolResult(f"c{number}", "read", response),)),
        )
    ]
    changed = [old is not new and old != new for old, new in zip(history, with_stubs(history), strict=True)]
    assert [index for index, different in enumerate(changed) if different] == [5]


def test_a_summary_request_is_shortened_until_it_fits() -> None:
    history = [message for _ in range(10) for message in make_turn(100, [5000, 5000, 5000])]
    base = ModelRequest("m", history, "system", (ToolDeclaration("read", "Reads.", {}),))
    whole = summary_request(base, history, 10**9)
    assert list(whole.messages[:-1]) == history
    short = summary_request(base, history, 20_000)
    assert sum(map(size, short.messages)) < 22_000
    assert_valid(list(short.messages))
    assert isinstance(short.messages[0], UserMessage)


def test_a_very_long_prompt_is_kept_up_to_a_limit_that_is_said() -> None:
    text = summary_message("s", ["x" * 20_000], []).text
    assert "[3616 more characters left out]" in text


def test_the_report_adds_up_to_what_the_service_counted() -> None:
    agent, _, bench = agent_with(calls(("read", {"path": "a"})), says("answer " * 50, usage=uses(700)))
    bench.read = lambda _: Output({"content": "x" * 4000})
    run(agent, "hello there")
    report = agent.context()
    rows = dict(report.rows)
    assert (report.tokens, report.limit) == (700, LIMIT)
    assert abs(sum(rows.values()) - 700) <= len(rows)
    assert rows["files and tool results"] > rows["answers"] > rows["you"] > 0
    assert rows["system"] > 0 and rows["tools"] > 0
    assert "summary" not in rows


def test_requests_grow_only_at_their_end() -> None:
    agent, model, _ = agent_with(*[calls(("read", {"path": f"f{n}"})) for n in range(8)], says("1"), says("2"))
    run(agent, "one")
    run(agent, "two")
    shares = []
    for earlier, later in zip(model.requests, model.requests[1:], strict=False):
        sent = json.dumps([repr(message) for message in earlier.messages])[:-1]
        shares.append(json.dumps([repr(message) for message in later.messages]).startswith(sent))
        assert (earlier.system, earlier.tools) == (later.system, later.tools)
    assert all(shares)


@pytest.mark.parametrize(
    "script",
    [
        [Metered(uses(70)), ModelError("cut")],
        says("", finish=Finish(FinishKind.BLOCKED, "SAFETY"), usage=uses(70)),
    ],
    ids=["it failed", "it was blocked"],
)
def test_a_compaction_that_fails_is_paid_for(script: Script) -> None:
    agent, _, _ = agent_with(says("1", usage=uses(30)), script)
    run(agent, "one")
    before = list(agent.history)
    with pytest.raises(GemcodeError):
        asyncio.run(agent.compact())
    assert (agent.history, agent.spent) == (before, pytest.approx(0.02))
    assert (agent.state.usage.prompt, agent.state.cost_usd) == (100, pytest.approx(0.02))
