"""The input line below the screen: pastes, completion, history, and the keys."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from gemcode.terminal.commands import COMMANDS
from gemcode.terminal.look import Look
from gemcode.terminal.prompt import Pastes, ProjectHistory, PromptCompleter, PromptLine, closest
from gemcode.terminal.tty import Interrupted

FILES = (
    "src/app.py",
    "src/cart.py",
    "src/deep/er/cart_test.py",
    "README.md",
    "docs/a b.md",
    "ev\x1bil.py",
    "z\u202e.py",
)


def offered(text: str) -> list[str]:
    completer = PromptCompleter(lambda: FILES)
    return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]


def read(keys: str, switch: Callable[[], None] = lambda: None, history: Path | None = None) -> str:
    async def run() -> str:
        with create_pipe_input() as source:
            prompt = PromptLine(Look(), lambda: FILES, history, switch, (source, DummyOutput()))
            source.send_text(keys)
            return await asyncio.wait_for(prompt.read(), 20)

    return asyncio.run(run())


def test_short_pastes_stay_and_long_ones_get_a_placeholder() -> None:
    pastes = Pastes()
    assert pastes.hold("a\nb\n") == "a\nb\n"
    assert pastes.hold("\n".join("12345678")) == "\n".join("12345678")
    assert pastes.hold("\n".join("123456789")) == "[Pasted text #1, 9 lines]"
    assert pastes.hold("x" * 1001) == "[Pasted text #2, 1 lines]"
    assert pastes.expand("see [Pasted text #1, 9 lines]!") == "see " + "\n".join("123456789") + "!"


@given(st.lists(st.text(min_size=0, max_size=30).map(lambda text: text * 60), max_size=4))
def test_what_is_sent_is_what_was_pasted(texts: list[str]) -> None:
    pastes = Pastes()
    line = "|".join(pastes.hold(text) for text in texts)
    assert pastes.expand(line) == "|".join(texts)


def test_commands_complete_by_their_beginning_and_only_at_the_start() -> None:
    assert offered("/co") == ["/cost", "/context", "/compact", "/copy"]
    assert offered("/undo x") == []
    assert offered("see /co") == []
    assert len(offered("/")) == len(COMMANDS)


def test_files_complete_after_an_at_sign_and_dangerous_names_are_not_offered() -> None:
    assert offered("see @cart") == ["src/cart.py", "src/deep/er/cart_test.py"]
    assert offered("@sr")[:3] == ["src/", "src/app.py", "src/cart.py"]
    assert offered("mail@sr") == []
    assert offered("@ev") == [] and offered("@z") == []
    assert offered("@a b") == []
    assert '"docs/a b.md"' in offered("@docs")


def test_the_best_match_comes_first_and_the_list_is_bounded() -> None:
    paths = ["xcart.py", "cart.py", "a/cart.py", "c/a/r/t.py", "other"]
    assert closest("cart", paths) == ["cart.py", "a/cart.py", "xcart.py", "c/a/r/t.py"]
    assert len(closest("", [f"f{n}" for n in range(1000)])) == 50


def test_history_on_disk_keeps_the_whole_paste_and_survives_an_unwritable_place(tmp_path: Path) -> None:
    pastes = Pastes()
    placeholder = pastes.hold("\n".join("123456789"))
    ProjectHistory(tmp_path / "prompts", pastes).store_string(placeholder)
    assert list(ProjectHistory(tmp_path / "prompts", Pastes()).load_history_strings()) == ["\n".join("123456789")]
    nowhere = ProjectHistory(tmp_path / "missing" / "prompts", pastes)
    nowhere.store_string("x")
    assert list(nowhere.load_history_strings()) == []


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("hello\r", "hello"),
        ("one\ntwo\r", "one\ntwo"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("one\\\rtwo\r", "one\ntwo"),
        ("\x1b[200~a\r\nb\x1b[201~\r", "a\nb"),
        ("gone\x03kept\r", "kept"),
        ("gone\x03\x19 back\r", "gone back"),
        ("?", "/help"),
        ("what?\r", "what?"),
        ("/undo", "/undo"),
        ("abc\x01x\r", "xabc"),
        ("abc\x17new\r", "new"),
    ],
)
def test_keys(keys: str, text: str) -> None:
    assert read(keys if keys.endswith(("\r", "?")) else keys + "\r") == text


@pytest.mark.parametrize(("keys", "error"), [("\x03", Interrupted), ("\x04", EOFError), ("x\x03\x03", Interrupted)])
def test_leaving(keys: str, error: type[BaseException]) -> None:
    with pytest.raises(error):
        read(keys)


def test_shift_tab_switches() -> None:
    pressed: list[int] = []
    assert read("a\x1b[Z\x1b[Zb\r", lambda: pressed.append(1)) == "ab"
    assert pressed == [1, 1]


def test_up_brings_the_last_prompt_of_this_project_back(tmp_path: Path) -> None:
    history = tmp_path / "prompts"
    assert read("first\r", history=history) == "first"
    assert history.read_text().count("first") == 1
