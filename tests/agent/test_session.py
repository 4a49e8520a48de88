import asyncio
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemcode.agent.errors import ModelError, UsageError
from gemcode.agent.events import Event, FileChanged, Notice, Status
from gemcode.agent.loop import Agent
from gemcode.agent.messages import Message, ModelMessage, Text, ToolCall, ToolMessage, Usage, UserMessage
from gemcode.agent.model import Finish, FinishKind
from gemcode.agent.policy import Mode
from gemcode.agent.session import Session, SessionStore
from gemcode.agent.transcript import Committed, Entry, Opened, StepTaken, Titled, TurnEnded, Withdrawn, encode_entry
from tests.agent.generated import ENTRIES, MESSAGES
from tests.agent.test_loop import Bench, assert_valid, make_agent
from tests.scripted import ScriptedModel, calls, says

SIGNED = {"functionCall": {"name": "read", "id": "x1", "args": {"path": "é\ud800"}}, "thoughtSignature": "c2lnbg=="}


def store(directory: Path) -> SessionStore:
    return SessionStore(directory / "sessions", "/home/me/shop", "1.0")


def file_of(directory: Path, session: Session) -> Path:
    return directory / "sessions" / f"{session.id}.jsonl"


def say(session: Session, *texts: str) -> None:
    for text in texts:
        for message in (UserMessage.of(text), ModelMessage((Text(f"re: {text}"),))):
            session.state.add(Committed(message))
            session.record(Committed(message))


def busy_agent(session: Session) -> Agent:
    """A turn with parallel reads, a write, a failing call and an answer; then a prompt that fails."""
    bench = Bench()
    model = ScriptedModel(
        calls(("read", {"path": "a"}), ("read", {"path": "b"}), text="I look."),
        calls(("write", {"path": "a"}), ("nothing", {})),
        says("Done."),
        says(finish=Finish(FinishKind.BLOCKED, "SAFETY")),
        calls(("read", {"path": "c"})),
        says("Again."),
    )
    agent = make_agent(bench, model, Mode.ALL)
    agent.begin(session.state, session.record)
    return agent


def run(agent: Agent, prompt: str = "go") -> list[Event]:
    events: list[Event] = []
    asyncio.run(agent.run(UserMessage.of(prompt), events.append))
    return events


def test_nothing_is_written_before_something_is_said(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    session.record(Titled("x"))
    session.close()
    assert list(tmp_path.iterdir()) == []


def test_a_session_file_is_private_and_begins_with_what_it_is(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    say(session, "hi")
    path = file_of(tmp_path, session)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert 4 <= len(session.id) <= 6 and session.id.isalnum()
    first = json.loads(path.read_text().splitlines()[0])
    assert (first["type"], first["id"], first["project"], first["version"]) == (
        "session", session.id, "/home/me/shop", "1.0",
    )  # fmt: skip


def test_each_message_is_in_the_file_as_soon_as_it_is_committed(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    agent = busy_agent(session)
    seen: list[int] = []

    def watch(_: Event) -> None:
        kept = [line.entry.message for line in store(tmp_path).read(session.id) if isinstance(line.entry, Committed)]
        assert kept == agent.history
        seen.append(len(kept))

    asyncio.run(agent.run(UserMessage.of("go"), watch))
    assert seen[0] == 1 and seen[-1] == len(agent.history) == 6


def test_a_resumed_session_is_what_it_was(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    agent = busy_agent(session)
    for prompt in ("one", "two", "three"):
        run(agent, prompt)
    session.close()
    resumed = store(tmp_path).resume(session.id)
    assert resumed.state == agent.state
    assert resumed.state.turns == 2
    assert resumed.state.words == ["one", "three"]
    assert [change.path for change in resumed.state.changed] == ["a"]
    assert resumed.forked_from == ""


def test_what_the_service_sent_comes_back_to_the_letter(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    call = ToolCall("x1", "read", {"path": "é\ud800"}, "c2lnbg==", SIGNED)
    session.record(Committed(UserMessage.of("hi")))
    session.record(Committed(ModelMessage((Text("", "c2ln", {"text": "", "thoughtSignature": "c2ln"}), call))))
    session.close()
    message = store(tmp_path).resume(session.id).state.history[1]
    assert isinstance(message, ModelMessage)
    assert json.dumps(message.parts[1].raw) == json.dumps(SIGNED)
    assert json.dumps(message.parts[0].raw) == '{"text": "", "thoughtSignature": "c2ln"}'


def test_a_call_without_a_result_is_answered_once_and_for_all(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    session.record(Committed(UserMessage.of("hi")))
    session.record(Committed(ModelMessage((ToolCall("a", "read", {}),))))
    session.close()
    for _ in range(3):
        resumed = store(tmp_path).resume(session.id)
        assert [type(message) for message in resumed.state.history] == [UserMessage, ModelMessage, ToolMessage]
        resumed.close()
    entries = [line.entry for line in store(tmp_path).read(session.id)]
    assert sum(isinstance(entry, Committed) for entry in entries) == 3


def test_a_torn_tail_is_sealed_and_what_follows_is_kept(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    say(session, "one")
    session.close()
    path = file_of(tmp_path, session)
    before = path.read_bytes()
    path.write_bytes(before + b'{"type":"message","role":"us')
    resumed = store(tmp_path).resume(session.id)
    say(resumed, "two")
    resumed.close()
    assert path.read_bytes().startswith(before)
    assert store(tmp_path).resume(session.id).state.words == ["one", "two"]


def write_file(directory: Path, entries: list[Entry]) -> bytes:
    lines = [json.dumps({**encode_entry(entry), "time": 1.5}, separators=(",", ":")) for entry in entries]
    data = ("\n".join(lines) + "\n").encode()
    (directory / "sessions").mkdir(exist_ok=True)
    (directory / "sessions" / "abcd.jsonl").write_bytes(data)
    return data


@given(st.lists(MESSAGES, min_size=1, max_size=6), st.data())
@settings(max_examples=60)
def test_killed_at_any_byte_it_loads_with_everything_that_was_complete(
    messages: list[Message], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        entries: list[Entry] = [Opened("abcd", "1", ""), *map(Committed, messages)]
        whole = write_file(directory, entries)
        cut = data.draw(st.integers(0, len(whole)))
        path = directory / "sessions" / "abcd.jsonl"
        path.write_bytes(whole[:cut])
        kept = [line.entry for line in store(directory).read("abcd")]
        complete = whole[:cut].count(b"\n")
        assert kept[:complete] == entries[:complete] and len(kept) <= complete + 1
        session = store(directory).resume("abcd")
        assert_valid(session.state.history)
        say(session, "on")
        session.close()
        again = store(directory).resume("abcd")
        assert again.state.history == session.state.history
        again.close()


@given(st.lists(ENTRIES, max_size=8), st.binary(max_size=30), st.data())
@settings(max_examples=60)
def test_damage_anywhere_never_keeps_a_session_from_opening(
    entries: list[Entry], damage: bytes, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        whole = write_file(Path(name), [Opened("abcd", "1", ""), *entries])
        place = data.draw(st.integers(0, len(whole)))
        (Path(name) / "sessions" / "abcd.jsonl").write_bytes(whole[:place] + damage + whole[place + len(damage) :])
        session = store(Path(name)).resume("abcd")
        assert_valid(session.state.history)
        store(Path(name)).infos()
        session.close()


def test_every_prefix_of_a_busy_session_resumes_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    agent = busy_agent(session)
    for prompt in ("one", "two", "three"):
        run(agent, prompt)
    session.close()
    whole = file_of(tmp_path, session).read_bytes()
    (tmp_path / "cut" / "sessions").mkdir(parents=True)
    path = tmp_path / "cut" / "sessions" / "abcd.jsonl"
    for cut in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:cut])
        resumed = store(tmp_path / "cut").resume("abcd")
        assert_valid(resumed.state.history)
        committed = whole[:cut].count(b'"role":"model"')
        kept = sum(isinstance(message, ModelMessage) for message in resumed.state.history)
        assert kept >= committed - (not whole[:cut].endswith(b"\n"))
        model = ScriptedModel(says("fine"))
        follower = make_agent(Bench(), model)
        follower.begin(resumed.state, resumed.record)
        run(follower, "go on")
        assert_valid(follower.history)
        resumed.close()


def test_a_second_process_gets_a_copy_and_the_two_never_mix(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    say(session, "one")
    other = store(tmp_path).resume(session.id)
    assert other.id != session.id and other.forked_from == session.id
    assert other.state.words == ["one"]
    say(other, "left")
    say(session, "right")
    session.close(), other.close()
    assert store(tmp_path).resume(session.id).state.words == ["one", "right"]
    assert store(tmp_path).resume(other.id).state.words == ["one", "left"]


HOLD = """
import sys, time
from pathlib import Path
from gemcode.agent.session import SessionStore
session = SessionStore(Path(sys.argv[1])).resume(sys.argv[2])
print(session.id, flush=True)
sys.stdin.read()
"""


def test_the_lock_holds_between_processes_and_goes_with_the_process(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    say(session, "one")
    session.close()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "sessions"), session.id],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdin is not None and holder.stdout is not None
    assert holder.stdout.readline().strip() == session.id
    copy = store(tmp_path).resume(session.id)
    assert copy.forked_from == session.id
    with pytest.raises(UsageError, match="open in another"):
        store(tmp_path).delete(session.id)
    holder.kill()
    holder.wait()
    holder.stdin.close(), holder.stdout.close()
    assert store(tmp_path).resume(session.id).forked_from == ""


def test_the_list_tells_title_turns_model_files_and_cost(tmp_path: Path) -> None:
    first = store(tmp_path).create()
    agent = busy_agent(first)
    for prompt in ("add CSV export\nplease", "two", "three"):
        run(agent, prompt)
    second = store(tmp_path).create()
    say(second, "later")
    os.utime(file_of(tmp_path, first), (1000, 1000))
    infos = store(tmp_path).infos()
    assert [info.id for info in infos] == [second.id, first.id]
    info = infos[1]
    assert (info.title, info.turns, info.model, info.files) == ("add CSV export", 2, "gemini-test", 1)
    assert info.cost_usd == pytest.approx(0.06)
    assert info.updated == 1000 and info.bytes > 0
    assert store(tmp_path).latest() == second.id


def test_the_list_takes_the_title_of_the_first_prompt_that_stayed(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    session.record(Committed(UserMessage.of("mistake")))
    session.record(Withdrawn())
    say(session, "better", "more")
    assert [(info.title, info.turns) for info in store(tmp_path).infos()] == [("better", 2)]
    session.record(Titled("named"))
    assert store(tmp_path).infos()[0].title == "named"


def test_an_unknown_price_makes_the_cost_unknown(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    say(session, "hi")
    session.record(StepTaken("m", Usage(1), 0.5, "STOP", 1.0))
    session.record(StepTaken("m", Usage(1), None, "STOP", 1.0))
    session.record(StepTaken("m", Usage(1), 0.5, "STOP", 1.0))
    assert store(tmp_path).infos()[0].cost_usd is None


def test_a_session_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    for name in ("abcd", "abxy", "ab"):
        session = Session(store(tmp_path), name)
        say(session, name)
    assert store(tmp_path).find("abc") == "abcd"
    assert store(tmp_path).find("ab") == "ab"
    for wanted in ("a", "zz", "", "../x"):
        with pytest.raises(UsageError):
            store(tmp_path).find(wanted)


def test_an_id_taken_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    first, second = Session(store(tmp_path), "abcd"), Session(store(tmp_path), "abcd")
    say(first, "one")
    say(second, "two")
    assert first.id == "abcd" and second.id != "abcd"
    assert store(tmp_path).read("abcd")[1].entry == Committed(UserMessage.of("one"))


def test_deleting_leaves_nothing(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    say(session, "my secret")
    session.close()
    path = file_of(tmp_path, session)
    link = tmp_path / "link"
    os.link(path, link)
    assert store(tmp_path).delete(session.id[:3]) == session.id
    assert not path.exists() and link.read_bytes() == b""
    with pytest.raises(UsageError):
        store(tmp_path).delete(session.id)


def test_what_was_not_used_for_long_is_pruned_unless_it_is_open(tmp_path: Path) -> None:
    sessions = [store(tmp_path).create() for _ in range(3)]
    for session in sessions:
        say(session, "hi")
    old = time.time() - 40 * 86_400
    for session in sessions[:2]:
        os.utime(file_of(tmp_path, session), (old, old))
    sessions[0].close()
    assert store(tmp_path).prune(30) == [sessions[0].id]
    assert {info.id for info in store(tmp_path).infos()} == {sessions[1].id, sessions[2].id}


def test_a_clock_that_is_wrong_or_a_long_pause_takes_no_conversation(tmp_path: Path) -> None:
    sessions = [store(tmp_path).create() for _ in range(3)]
    for session, days in zip(sessions, (400, 390, 300), strict=True):
        say(session, "hi")
        session.close()
        when = time.time() - days * 86_400
        os.utime(file_of(tmp_path, session), (when, when))
    assert store(tmp_path).prune(101) == []
    assert store(tmp_path).prune(95) == [sessions[0].id]
    ahead = time.time() + 20 * 365 * 86_400
    os.utime(file_of(tmp_path, sessions[2]), (ahead, ahead))
    assert store(tmp_path).prune(395) == []


def test_a_session_without_any_answer_leaves_no_file(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    agent = make_agent(Bench(), ScriptedModel([ModelError("It failed.")]))
    agent.begin(session.state, session.record)
    run(agent)
    assert file_of(tmp_path, session).exists()
    session.close()
    assert not file_of(tmp_path, session).exists()


def test_a_link_in_place_of_a_session_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "target").write_text("mine")
    (tmp_path / "sessions" / "abcd.jsonl").symlink_to(tmp_path / "target")
    with pytest.raises(UsageError):
        store(tmp_path).resume("abcd")
    with pytest.raises(UsageError):
        store(tmp_path).delete("abcd")
    assert store(tmp_path).infos() == []
    assert (tmp_path / "target").read_text() == "mine"


def test_a_full_disk_is_said_once_and_the_conversation_goes_on(tmp_path: Path) -> None:
    agent = make_agent(Bench(), ScriptedModel(calls(("read", {"path": "a"})), says("ok")))

    def full(_: Entry) -> None:
        raise OSError(28, "No space left on device")

    agent.begin(agent.state, full)
    events = run(agent)
    notices = [event for event in events if isinstance(event, Notice)]
    assert len(notices) == 1 and "No space left" in notices[0].text and notices[0].warning
    assert len(agent.history) == 4


def test_the_ledger_and_the_end_of_a_turn_are_recorded(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    run(busy_agent(session), "one")
    entries = [line.entry for line in store(tmp_path).read(session.id)]
    assert [entry.path for entry in entries if isinstance(entry, FileChanged)] == ["a"]
    ended = entries[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.status, ended.steps) == (Status.OK, 3)
    assert all(line.time > 1_600_000_000 for line in store(tmp_path).read(session.id))
