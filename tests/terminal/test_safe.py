"""What others wrote can't control the terminal, and the streams fail quietly."""

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gemcode.terminal.safe import escape, escape_exactly, mixes_scripts

any_text = st.text(alphabet=st.characters(), max_size=60)
nasty = st.text(
    alphabet=st.sampled_from(
        "a \n\t\r\x1b\x07\x9b\x00\x7f\u202e\u2066\u200b\u200d\ufe0f\u3164\u2028\x85\ud800"
        "👩💻❤1\u20e3\u0301\U000e0041\U000e0101\u00a0"
    ),
    max_size=40,
)


def is_harmless(text: str, kept: str) -> bool:
    return all(letter in kept or letter.isprintable() or letter == "\u200d" for letter in text)


@given(any_text | nasty)
@example("\ud800\udfff")
@example("\r\r\n")
def test_escaped_prose_holds_no_control_character_but_newline_and_tab(text: str) -> None:
    out = escape(text)
    assert is_harmless(out, "\n\t")
    out.encode("utf-8")


@given(any_text | nasty)
def test_escaped_names_hold_no_control_character_at_all(text: str) -> None:
    out = escape(text, single_line=True)
    assert out.isprintable()
    assert escape(out, single_line=True) == out


@given(any_text | nasty)
def test_escaping_twice_is_escaping_once(text: str) -> None:
    assert escape(escape(text)) == escape(text)
    assert escape_exactly(escape_exactly(text)) == escape_exactly(text)


@given(st.lists(nasty | any_text, min_size=1, max_size=5))
def test_lines_are_judged_alone_so_a_stream_may_escape_line_by_line(lines: list[str]) -> None:
    lines = [text.replace("\n", "").replace("\r", "") for text in lines]
    assert escape("\n".join(lines)) == "\n".join(escape(text) for text in lines)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u{202e}b"),
        ("a\u200bb", "a\\u{200b}b"),
        ("a\rb", "a\\x0db"),
        ("a\r\nb", "a\nb"),
        ("\U000e0041", "\\u{e0041}"),
        ("\u2028", "\\u{2028}"),
        ("\x85", "\\x85"),
        ("\u3164", "\\u{3164}"),
        ("\u2800", "\\u{2800}"),
        ("\ue000", "\\u{e000}"),
        ("x\ufe0f", "x\\u{fe0f}"),
        ("👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3", "👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3"),
        ("a\u200db", "a\\u{200d}b"),
        ("5\u00a0€", "5 €"),
        ("日本語 é ß", "日本語 é ß"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_names_show_newline_tab_and_joiners() -> None:
    assert escape("a\nb\tc👩\u200d💻", single_line=True) == "a\\x0ab\\x09c👩\\u{200d}💻"


def test_diff_lines_keep_tabs_and_show_every_invisible_character() -> None:
    assert escape_exactly("\tx\u00a0y👩\u200d💻") == "\tx\\xa0y👩\\u{200d}💻"


def test_a_tower_of_combining_marks_is_cut_down() -> None:
    out = escape("e" + "\u0301" * 10_000)
    assert sum(map(bool, map(unicodedata.combining, out))) == 8


def test_a_name_in_two_look_alike_scripts_is_noticed() -> None:
    assert mixes_scripts("pаypal.py")  # the second letter is Cyrillic
    assert not mixes_scripts("paypal.py")
    assert not mixes_scripts("тест_test.py")
    assert not mixes_scripts("naïve.py")


def run_python(code: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, **options)


def test_importing_the_plain_parts_loads_neither_rich_nor_prompt_toolkit() -> None:
    done = run_python(
        "import gemcode.terminal.safe, gemcode.terminal.headless, sys;"
        "print([name for name in sys.modules if name.split('.')[0] in ('rich', 'prompt_toolkit')])"
    )
    assert done.stdout.strip() == b"[]", done.stderr


def test_a_closed_reader_is_told_apart_and_leaves_no_message() -> None:
    code = (
        "import sys\nfrom gemcode.terminal.safe import StdoutClosed, write_stdout\n"
        "try:\n  while True: write_stdout('x' * 4096 + '\\n')\nexcept StdoutClosed: sys.exit(141)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.wait(60) == 141
    assert child.stderr.read() == b""
    child.stderr.close()


def test_a_full_disk_is_said_in_one_sentence() -> None:
    code = (
        "import sys\nfrom gemcode.agent.errors import GemcodeError\nfrom gemcode.terminal.safe import write_stdout\n"
        "try: write_stdout('x')\nexcept GemcodeError as error: sys.stderr.write(error.message)"
    )
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"Writing the answer failed: No space left on device.")


def test_a_closed_stderr_stops_nothing() -> None:
    done = run_python(
        "import sys; sys.stderr.close()\nfrom gemcode.terminal.safe import write_stderr, write_stdout\n"
        "write_stderr('lost'); write_stdout('kept')"
    )
    assert done.stdout == b"kept"


def test_an_ascii_locale_gets_ascii() -> None:
    done = run_python(
        "from gemcode.terminal.safe import write_stdout; write_stdout('é\\ud800')", env={"PYTHONIOENCODING": "ascii"}
    )
    assert done.stdout == b"\\xe9\\ud800"
