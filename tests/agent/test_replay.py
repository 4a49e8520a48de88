from pathlib import Path

from gemcode.agent.errors import ModelError
from gemcode.agent.events import Event, Notice, Status, StepFinished, StepStarted, ToolFinished, TurnFinished
from gemcode.agent.messages import Usage
from gemcode.agent.model import Metered, Retrying, TextDelta
from gemcode.agent.replay import replay
from gemcode.agent.transcript import Committed, Opened
from tests.agent.test_loop import Bench, make_agent
from tests.agent.test_session import busy_agent, run, store
from tests.scripted import ScriptedModel, says


def comparable(events: list[Event]) -> list[object]:
    """What a listener shows; times differ, and what was said of a plan to be replayed is not kept."""
    shown: list[object] = []
    for event in events:
        match event:
            case ToolFinished():
                shown.append((event.call, event.subject, event.result.response, round(event.duration_ms, 3)))
            case StepFinished():
                shown.append((event.text, event.final, event.finish, event.usage))
            case TextDelta():
                shown.append(event.text)
    return shown


def test_a_replay_tells_the_turn_as_it_was_told(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    agent = busy_agent(session)
    live = [run(agent, prompt) for prompt in ("one", "two", "three")]
    lines = store(tmp_path).read(session.id)
    turns = list(replay(line.entry for line in lines))
    assert [turn.prompt.text for turn in turns] == ["one", "two", "three"]
    assert [turn.outcome.status for turn in turns] == [Status.OK, Status.BLOCKED, Status.OK]
    for past, events in zip(turns, live, strict=True):
        if past.outcome.status is Status.OK:
            assert comparable(list(past.events)) == comparable(events)
        last = events[-1]
        assert isinstance(last, TurnFinished)
        there, here = past.outcome, last.outcome
        assert (there.answer, there.usage, there.steps) == (
            here.answer if here.status is Status.OK else "", here.usage, here.steps,
        )  # fmt: skip
        assert there.files_changed == here.files_changed
        assert [call.ok for call in there.calls] == [call.ok for call in here.calls]
        assert (there.error.message if there.error else "") == (here.error.message if here.error else "")


def test_a_turn_that_a_crash_ended_is_told_as_interrupted(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    run(busy_agent(session), "one")
    entries = [line.entry for line in store(tmp_path).read(session.id)]
    for cut in range(2, len(entries)):
        (turn,) = replay(entries[:cut])
        assert turn.outcome.status is Status.INTERRUPTED
        assert sum(isinstance(event, StepStarted) for event in turn.events) <= 3
    assert list(replay(entries[:1])) == []
    assert isinstance(entries[0], Opened) and isinstance(entries[1], Committed)


def test_a_replay_says_where_it_was_compacted(tmp_path: Path) -> None:
    from tests.agent.test_compaction import agent_with, uses

    session = store(tmp_path).create()
    agent, _, _ = agent_with(says("1", usage=uses(900)), says("summary"), says("2"))
    agent.begin(session.state, session.record)
    run(agent, "one")
    run(agent, "two")
    second = list(replay(line.entry for line in store(tmp_path).read(session.id)))[1]
    assert [event.text[:16] for event in second.events if isinstance(event, Notice)] == ["Compacted 1 turn"]
    assert second.outcome.answer == "2"


def test_a_replay_counts_what_failed_attempts_have_used(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    lost = [Metered(Usage(prompt=7)), Retrying("cut", 0.0, 1, 5)]
    agent = make_agent(Bench(), ScriptedModel([*lost, *says("1")], [*lost, Metered(Usage(prompt=7)), ModelError("x")]))
    agent.begin(session.state, session.record)
    live = [run(agent, "one")[-1], run(agent, "two")[-1]]
    past = [turn.outcome for turn in replay(line.entry for line in store(tmp_path).read(session.id))]
    for event, there in zip(live, past, strict=True):
        assert isinstance(event, TurnFinished)
        here = event.outcome
        assert (there.usage, there.cost_usd, there.steps) == (here.usage, here.cost_usd, here.steps)
    assert [outcome.usage.prompt for outcome in past] == [17, 14]
