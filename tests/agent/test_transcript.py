import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.conversation import folded, repaired
from gemcode.agent.messages import Message, ModelMessage, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from gemcode.agent.transcript import (
    CallEnded,
    Committed,
    Compacted,
    Entry,
    Uncompacted,
    Withdrawn,
    decode_entry,
    encode_entry,
)
from tests.agent.generated import ENTRIES, JSON, MESSAGES
from tests.agent.test_loop import assert_valid


@given(ENTRIES)
def test_any_entry_comes_back_as_it_was(entry: Entry) -> None:
    line = json.dumps(encode_entry(entry))
    assert line.isascii() and "\n" not in line
    assert decode_entry(json.loads(line)) == entry


@given(st.dictionaries(st.sampled_from(["type", "role", "parts", "results", "messages", "usage"]), JSON))
def test_damaged_entries_are_told_apart_and_never_crash(data: dict[str, Any]) -> None:
    for name in ("message", "step", "compacted", "call", "turn", "title", "session", "nonsense", None):
        try:
            decode_entry({**data, "type": name})
        except ValueError:
            continue


def test_an_entry_of_a_later_version_is_passed_over() -> None:
    assert decode_entry({"type": "from_the_future", "x": 1}) is None


@given(st.lists(MESSAGES, max_size=8))
def test_any_sequence_of_messages_is_repaired_to_a_valid_history(messages: list[Message]) -> None:
    history = repaired(messages)
    assert_valid(history)
    assert not history or isinstance(history[0], UserMessage)
    assert repaired(history) == history


@given(st.lists(ENTRIES, max_size=10))
def test_any_sequence_of_entries_folds_to_a_valid_history(entries: list[Entry]) -> None:
    state = folded(entries)
    state.repair()
    assert_valid(state.history)
    assert state.title is not None


def test_a_repair_keeps_every_result_that_is_there() -> None:
    call = ModelMessage((ToolCall("a", "read", {}), ToolCall("b", "read", {})))
    result = ToolResult("b", "read", {"output": 1})
    history = repaired([UserMessage.of("hi"), call, ToolMessage((result,)), ModelMessage((Text("done"),))])
    message = history[2]
    assert isinstance(message, ToolMessage)
    assert message.results[1] is result
    assert message.results[0].error_kind == "cancelled"
    assert len(history) == 4


def test_a_repair_says_what_is_known_of_a_call_without_result() -> None:
    call = ModelMessage((ToolCall("a", "write", {}), ToolCall("b", "write", {}), ToolCall("c", "write", {})))
    done = CallEnded("a", "write", "x", True, "", 1.0, 10, True)
    failed = CallEnded("b", "write", "x", False, "conflict", 1.0, 10, True)
    state = folded([Committed(UserMessage.of("hi")), Committed(call), done, failed])
    message = state.repair()
    assert message is not None
    assert [part.split(",")[0] for part in (result.error_message for result in message.results)] == [
        "This call was done",
        "This call failed (conflict)",
        "gemcode was ended before this call was. Look at what it may have done before you repeat it.",
    ]
    assert folded([]).repair() is None


def test_a_withdrawn_prompt_is_gone() -> None:
    prompt = Committed(UserMessage.of("hi"))
    state = folded([prompt, Withdrawn()])
    assert (state.history, state.turns, state.title) == ([], 0, "")
    assert folded([Withdrawn(), prompt]).turns == 1


def test_a_compaction_can_be_undone_with_what_was_said_since() -> None:
    old = [UserMessage.of("one"), ModelMessage((Text("1"),)), UserMessage.of("two"), ModelMessage((Text("2"),))]
    new = [UserMessage.of("three"), ModelMessage((Text("3"),))]
    summary = UserMessage.of("in short")
    entries: list[Entry] = [Committed(message) for message in old]
    entries += [Compacted((summary, *old[2:]), 1, 100, 50)]
    entries += [Committed(message) for message in new]
    state = folded(entries)
    assert state.history == [summary, *old[2:], *new]
    assert (state.words, state.summaries) == (["one", "two", "three"], 1)
    state.add(Uncompacted())
    assert state.history == old + new
    assert state.summaries == 0
    state.add(Uncompacted())
    assert state.history == old + new


def test_a_prompt_withdrawn_after_a_compaction_does_not_come_back_with_its_undo() -> None:
    old = [UserMessage.of("one"), ModelMessage((Text("1"),))]
    prompt = UserMessage.of("two")
    entries = [*map(Committed, [*old, prompt]), Compacted((UserMessage.of("in short"), prompt), 1, 9, 5), Withdrawn()]
    state = folded([*entries, Uncompacted()])
    assert state.history == old


@pytest.mark.parametrize(
    ("words", "title"), [("\n  hi there \nmore", "hi there"), ("", ""), ("x" * 100, "x" * 79 + "…")]
)
def test_a_title_is_the_first_line_that_says_something(words: str, title: str) -> None:
    assert folded([Committed(UserMessage.of(words))]).title == title
