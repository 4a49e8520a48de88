"""Markdown that streams in: drawn once, the same whatever the chunks were, and never harmful."""

import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemcode.agent.events import Notice, StepFinished, StepStarted, ToolFinished, ToolStarted
from gemcode.agent.messages import ToolCall, ToolResult, Usage
from gemcode.agent.model import Finish, FinishKind, Retrying, TextDelta, ThoughtDelta
from gemcode.terminal.live import LiveView, Region
from gemcode.terminal.look import Colour, Look, Size
from gemcode.terminal.markdown import MarkdownPainter
from gemcode.terminal.paint import plain, width
from gemcode.terminal.safe import escape
from gemcode.terminal.stream import Block, BlockSplitter, Kind
from tests.terminal.program import MARKDOWN

DONE = StepFinished(1, "", True, Finish(FinishKind.COMPLETE, "STOP"), Usage())
SGR = re.compile("\x1b\\[[0-9;]*m")


class Paper:
    """Interprets what a Region writes: lines, carriage return, erase line, cursor up. Anything else fails."""

    def __init__(self, rows: int = 24) -> None:
        self.lines = [""]
        self.row = 0
        self.written = 0
        self.rows = rows
        self.highest_rewrite = 0

    def write(self, text: str) -> None:
        self.written += len(text.encode())
        start = lowest = self.row
        for piece in re.findall("\x1b\\[2K|\x1b\\[1A|\r|\n|[^\x1b\r\n]+|.", SGR.sub("", text), re.DOTALL):
            if piece == "\x1b[2K":
                self.lines[self.row] = ""
            elif piece == "\x1b[1A":
                self.row -= 1
                assert self.row >= 0
                lowest = min(lowest, self.row)
            elif piece == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
            elif piece != "\r":
                assert "\x1b" not in piece, repr(text)
                self.lines[self.row] += piece
        self.highest_rewrite = max(self.highest_rewrite, start - lowest)

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip("\n")


def stream(chunks: list[str], look: Look = Look(Colour.FULL, live=True), size: Size = Size(80, 24)) -> Paper:
    paper = Paper(size.rows)
    view = LiveView(Region(paper.write, lambda: size), None, look, lambda: size)
    view(StepStarted(1, "m"))
    for chunk in chunks:
        view(TextDelta(chunk))
        view.tick()
    view(DONE)
    view.close()
    return paper


def cut(text: str, seed: int) -> list[str]:
    dice = random.Random(seed)
    chunks = []
    while text:
        size = dice.choice((1, 2, 3, 7, 40, 200))
        chunks.append(text[:size])
        text = text[size:]
    return chunks


def test_12_the_result_is_the_same_for_every_chunking() -> None:
    whole = stream([MARKDOWN]).text
    for seed in range(20):
        assert stream(cut(MARKDOWN, seed)).text == whole


markdown_pieces = st.lists(
    st.sampled_from(
        [
            *(
                "# head\n",
                "text ",
                "**bold** ",
                "`code`",
                "\n",
                "\n\n",
                "- item\n",
                "  - deeper\n",
                "1. one\n",
                "2. two\n",
            ),
            *("```python\n", "x = 1\n", "```\n", "~~~\n", "| a | b |\n", "|---|---|\n", "| 1 | 2 |\n", "> quote\n"),
            *(
                "---\n",
                "===\n",
                "* * *\n",
                "    indented\n",
                "<b>html</b> ",
                "[link](http://x)",
                "![i](u)",
                "\t",
                "日本語",
            ),
            *(
                "&#x202e;",
                "&lt;",
                "\x1b[2J",
                "\r\n",
                "\u202e",
                "👩\u200d💻",
                "e\u0301",
                "   ```\n",
                "- [x] t\n",
                "10. ten\n",
            ),
        ]
    ),
    max_size=25,
).map("".join)


@settings(deadline=None, max_examples=150)
@given(markdown_pieces, st.integers(0, 1000))
def test_12_any_markdown_gives_the_same_result_for_any_chunking_and_never_a_control_sequence(
    text: str, seed: int
) -> None:
    whole = stream([text]).text
    assert stream(cut(text, seed)).text == whole
    assert all(letter.isprintable() or letter in "\n\t\u200d" for letter in whole)


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet=st.characters(), max_size=200))
def test_20_any_text_is_drawn_without_harm(text: str) -> None:
    shown = stream([text], size=Size(30, 10)).text
    assert all(letter.isprintable() or letter in "\n\t\u200d" for letter in shown)


@settings(deadline=None, max_examples=100)
@given(st.text(alphabet="ab \n*_`日本語e\u0301한-1.", max_size=200), st.integers(20, 60))
def test_rows_that_are_not_code_fit_the_width(text: str, columns: int) -> None:
    splitter = BlockSplitter()
    blocks = [block for row in text.split("\n") for block in splitter.feed(row)] + splitter.finish()
    painter = MarkdownPainter(Look())
    for block in blocks:
        if block.kind is not Kind.CODE:
            for row in painter.rows(block, columns):
                assert width(row) <= columns, (block, row)
                assert not row.endswith(" ")


@pytest.mark.parametrize("word", ["alpha", "beta", "gamma", "delta", "eps", "zeta"])
def test_no_word_of_an_answer_is_lost(word: str) -> None:
    text = "alpha <b>beta</b>\n<div>gamma</div>\n\n![delta](x)\n\n| eps | q |\n|--|--|\n| zeta | r |\n"
    assert word in stream([text]).text


def test_14_no_frame_shows_half_a_table_row_or_a_fence_of_a_finished_block() -> None:
    paper = Paper()
    size = Size(80, 24)
    view = LiveView(Region(paper.write, lambda: size), None, Look(live=True), lambda: size)
    view(StepStarted(1, "m"))
    for letter in MARKDOWN:
        view(TextDelta(letter))
        view.tick()
        assert "```" not in paper.text
        assert not re.search(r"^\s*\|", paper.text, re.MULTILINE)


def test_15_two_thousand_chunks_are_cheap() -> None:
    body = (MARKDOWN + "\n" + "Some more words in a paragraph of its own. " * 6 + "\n\n") * 200
    chunks = [body[index : index + 40] for index in range(0, 80_000, 40)]
    started = time.process_time()
    paper = Paper()
    size = Size(80, 24)
    view = LiveView(Region(paper.write, lambda: size), None, Look(Colour.FULL, live=True), lambda: size)
    view(StepStarted(1, "m"))
    for index, chunk in enumerate(chunks):
        view(TextDelta(chunk))
        if index % 20 == 0:  # 2,000 chunks in about ten seconds, ten frames a second
            view.tick()
    view(DONE)
    view.close()
    assert paper.written <= 300_000
    assert paper.highest_rewrite <= size.rows - 4
    assert time.process_time() - started < 20  # a hang guard, no measurement


def test_a_long_open_paragraph_keeps_the_tail_small() -> None:
    paper = stream(["word " * 20 for _ in range(100)])
    assert paper.highest_rewrite <= 20
    assert paper.text.count("word") == 2000


def test_16_code_has_no_blanks_at_the_end_and_keeps_its_bytes() -> None:
    code = "x = 1\n\n\tif a:   \n        b = '''\n  c\n'''\nlong = " + "y" * 200
    shown = stream([f"```python\n{code}\n```\n"]).text
    assert shown == code


def test_blank_lines_are_where_they_should_be() -> None:
    text = "para\n- a\n- b\n\nafter\n# h\nmore\n```\ncode\n```\nend\n1. x\n\n2. y\n"
    assert stream([text]).text.split("\n") == [
        *("para", " • a", " • b", "", "after", "", "h", "", "more", "", "code", "", "end", " 1. x", "", " 2. y"),
    ]


def test_ascii_terminals_get_ascii_marks() -> None:
    shown = stream([MARKDOWN], Look(Colour.NONE, unicode=False, live=True)).text
    assert shown.isascii()
    assert " * one" in shown


def test_without_colour_there_is_no_escape_in_what_is_printed() -> None:
    painter = MarkdownPainter(Look(Colour.NONE))
    assert not any("\x1b" in row for row in painter.draw([Block(Kind.PARAGRAPH, "**b** `c`", False)], 80))
    painter = MarkdownPainter(Look(Colour.MONO))
    rows = painter.draw([Block(Kind.PARAGRAPH, "**b** `c`", False)], 80)
    assert rows == ["\x1b[1mb\x1b[0m c"]


def test_a_code_block_of_thousands_of_lines_stays_fast_and_whole() -> None:
    code = "\n".join(f"value_{n} = 'text {n}'  # note" for n in range(3_000))
    shown = stream([*cut(f"```python\n{code}\n```\n", 1)[:100], f"```python\n{code}\n```\n"]).text
    assert escape(code).split("\n")[-1] in shown


def test_an_unknown_language_is_plain() -> None:
    painter = MarkdownPainter(Look(Colour.FULL))
    assert painter.draw([Block(Kind.CODE, "x = 1", False, "nonsense")], 80) == ["x = 1"]


def test_a_resize_in_the_middle_redraws_the_tail_once() -> None:
    paper = Paper()
    size = [Size(80, 24)]
    view = LiveView(Region(paper.write, lambda: size[0]), None, Look(live=True), lambda: size[0])
    view(StepStarted(1, "m"))
    view(TextDelta("some words that are here " * 3))
    view.tick()
    size[0] = Size(100, 24)  # wider: the rows on the screen stay as they are
    view(TextDelta("and more\n"))
    view.tick()
    view(DONE)
    view.close()
    assert paper.text.split("\n") == [
        "some words that are here some words that are here some words that are here and more"
    ]


def test_what_happens_around_the_text_is_told_in_order() -> None:
    paper = Paper()
    size = Size(80, 24)
    view = LiveView(Region(paper.write, lambda: size), None, Look(live=True), lambda: size)
    call = ToolCall("c", "read_file", {})
    view(StepStarted(1, "mod\x1bel"))
    view.tick()
    assert "waiting for mod\\x1bel  0s   Ctrl-C cancels" in paper.text
    view(ThoughtDelta("hm"))
    view.tick()
    assert "thinking" in paper.text and "waiting" not in paper.text
    view(TextDelta("Half"))
    view(Retrying("Limit reached", 3, 1, 5))
    assert paper.text.endswith("! Limit reached. Try 2 of 5 in 3 s  (Ctrl-C cancels)")
    view(TextDelta("Whole.\n"))
    view(DONE)
    view(ToolStarted(call, "a.py"))
    view.tick()
    assert "read_file a.py  0s" in paper.text
    view(ToolFinished(call, "a.py", ToolResult("c", "read_file", {"output": ""}, display="3 lines"), 1))
    view(Notice("Note.", warning=True))
    view.pause()
    view.tick()
    view.close()
    assert paper.text.split("\n") == [
        "Half",
        "· The text above was cut off and is void.",
        "· waited 0 s: Limit reached",
        "Whole.",
        "✓ read_file     a.py                  3 lines                               1 ms",
        "! Note.",
    ]


def test_lines_for_another_stream_do_not_mix_with_the_answer() -> None:
    paper = Paper()
    told: list[str] = []
    size = Size(80, 24)
    view = LiveView(
        Region(paper.write, lambda: size), lambda lines: told.extend(map(plain, lines)), Look(live=True), lambda: size
    )
    view(StepStarted(1, "m"))
    view.tick()
    view(TextDelta("Answer"))
    view(Notice("aside"))
    view.close()
    assert (paper.text, told) == ("Answer", ["· aside"])


cells = st.text(alphabet="ab 日本語🎉x", min_size=1, max_size=60).map(str.strip).filter(bool)
tables = st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=1, max_size=4))


@given(tables, st.integers(20, 120))
def test_of_a_table_nothing_is_cut_off_and_no_row_is_too_wide(rows: list[list[str]], columns: int) -> None:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    shown = MarkdownPainter(Look()).rows(Block(Kind.PARAGRAPH, "\n".join(lines), False), columns)
    assert all(width(row) <= columns for row in shown)
    for letter in "ab日本語🎉x":
        assert "".join(shown).count(letter) == "".join(lines).count(letter)


def test_a_table_with_too_many_columns_is_shown_row_by_row() -> None:
    head, body = ([f"{word}{number}" for number in range(25)] for word in ("head", "cell"))
    text = "\n".join([f"|{'|'.join(head)}|", "|---" * 25 + "|", f"|{'|'.join(body)}|"])
    shown = " ".join(MarkdownPainter(Look()).rows(Block(Kind.PARAGRAPH, text, False), 80))
    assert " ".join(shown.split()) == f"{' | '.join(head)} {' | '.join(body)}"
