"""Finished markdown blocks → rows for the screen, with rich and pygments. Rows are never padded on the right.

Loaded only when the first text is to be drawn. Text comes in escaped, and what markdown decodes is escaped again.
"""

import copy
import functools
from collections.abc import Iterable
from io import StringIO
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Literal, Name, Operator
from pygments.token import Token as CodeToken
from pygments.util import ClassNotFound
from rich import box
from rich import markdown as rich_markdown
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from gemcode.terminal.look import Colour, Look
from gemcode.terminal.safe import escape
from gemcode.terminal.stream import Block, Kind

WINDOW = 500  # lines of a code block that are read again for colours
LEAST_CELL = 6  # columns on the screen for one of a table, with its gap

_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.h5": "bold",
        "markdown.h6": "bold",
        "markdown.block_quote": "none",
        "markdown.item.bullet": "none",
        "markdown.item.number": "none",
        "markdown.link": "none",
        "markdown.link_url": "underline",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    },
    inherit=True,
)
_CODE_STYLES = (
    (Comment, "2"),
    (Keyword, "35"),
    (Literal.String, "32"),
    (Literal.Number, "36"),
    (Name.Function, "34"),
    (Name.Class, "34"),
    (Name.Builtin, "36"),
    (Name.Decorator, "33"),
    (Operator.Word, "35"),
    (CodeToken.Generic.Deleted, "31"),
    (CodeToken.Generic.Inserted, "32"),
    (CodeToken.Generic.Heading, "1"),
    (CodeToken.Generic.Subheading, "36"),
)
_TO_ASCII = str.maketrans("•▌─━│┃┼╇╋┏┓┗┛└┘├┤┬┴╸╺╶╴…", "*|--||+++++++++++++----.")


class _Heading(rich_markdown.Heading):
    LEVEL_ALIGN: ClassVar = {}


class _CodeBlock(rich_markdown.CodeBlock):
    """Code inside a list or quote: as it is, without frame or padding."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(str(self.text).rstrip("\n"), no_wrap=False, overflow="fold")


class _Table(rich_markdown.TableElement):
    """Cells fold, so that nothing is cut off. One with more columns than the screen can carry is shown row by row."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = self.header.row.cells if self.header and self.header.row else []
        body = [row.cells for row in self.body.rows] if self.body else []
        if len(head) * LEAST_CELL > options.max_width:
            yield from (Text(" | ").join(cell.content for cell in row) for row in (head, *body))
            return
        table = Table(box=box.SIMPLE, pad_edge=False, style="markdown.table.border", collapse_padding=True)
        for cell in head:
            heading = cell.content.copy()
            heading.stylize("markdown.table.header")
            table.add_column(heading, overflow="fold")
        for row in body:
            table.add_row(*(cell.content for cell in row))
        yield table


class _ListItem(rich_markdown.ListItem):
    def on_child_close(self, context: rich_markdown.MarkdownContext, child: rich_markdown.MarkdownElement) -> bool:
        if len(self.elements._renderables) and isinstance(child, rich_markdown.Paragraph):
            self.elements.append(Text(""))
        return super().on_child_close(context, child)

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        """With the dot that rich leaves out."""
        mark = f" {number}. "
        lines = console.render_lines(
            self.elements, options.update(width=options.max_width - len(mark)), style=self.style
        )
        for index, segments in enumerate(lines):
            yield Segment(" " * len(mark) if index else mark)
            yield from segments
            yield Segment("\n")


class _Markdown(rich_markdown.Markdown):
    """rich's markdown without links of its own, boxes, emoji, or HTML that disappears."""

    elements: ClassVar = rich_markdown.Markdown.elements | {
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "list_item_open": _ListItem,
        "table_open": _Table,
    }

    def __init__(self) -> None:
        super().__init__("", hyperlinks=False)
        self._reader = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")

    def of(self, text: str) -> "_Markdown":
        """This with a text in it. Parsers take long to make, so there is one for all texts."""
        page = copy.copy(self)
        page.parsed = list(_escaped(self._reader.parse(text)))
        return page


def _escaped(tokens: Iterable[Token]) -> Iterable[Token]:
    """Entities such as &#x202e; are decoded by the parser, so what it gives is escaped once more."""
    for token in tokens:
        token.content = escape(token.content)
        token.attrs = {name: escape(value) if isinstance(value, str) else value for name, value in token.attrs.items()}
        if token.children is not None:
            token.children = list(_escaped(token.children))
        yield token


class MarkdownPainter:
    """Draws blocks. Keeps the lines of the code block at hand, since colours depend on the lines before."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._page = _Markdown()
        self._console = Console(file=StringIO(), theme=_THEME, highlight=False, legacy_windows=False, _environ={})
        self._code: list[str] = []
        self._lexer: Lexer | None = None
        self._language = ""

    def draw(self, blocks: Iterable[Block], columns: int) -> list[str]:
        """Rows, painted, for blocks that are finished. Rows of code are as long as they are."""
        out: list[str] = []
        code: list[Block] = []
        for block in blocks:
            if block.kind is Kind.CODE and not (code and block.first):
                code.append(block)
                continue
            out += self._draw_code(code)
            code = [block] if block.kind is Kind.CODE else []
            if not code:
                out += self.rows(block, columns)
        return out + self._draw_code(code)

    def rows(self, block: Block, columns: int) -> list[str]:
        """One block that is not code, painted."""
        gap = [""] if block.gap else []
        try:
            lines = self._render(block.text, columns)
        except Exception:  # noqa: BLE001 - whatever a renderer stumbles over, the answer must not be lost
            lines = block.text.split("\n")
        while lines and not lines[0].strip():
            lines.pop(0)
        while lines and not lines[-1].strip():
            lines.pop()
        return gap + lines

    def _render(self, text: str, columns: int) -> list[str]:
        self._console.width = max(columns, 8)
        rows = []
        for segments in Segment.split_lines(self._console.render(self._page.of(text))):
            rows.append("".join(self._paint(segment) for segment in _trimmed(segments)))
        return rows

    def _paint(self, segment: Segment) -> str:
        text = escape(segment.text)
        if not self._look.unicode:
            text = text.translate(_TO_ASCII)
        style = segment.style
        if not style or self._look.colour is Colour.NONE:
            return text
        if self._look.colour is Colour.MONO:
            style = style.without_color
        return style.render(text, color_system=ColorSystem.STANDARD)

    def _draw_code(self, blocks: list[Block]) -> list[str]:
        if not blocks:
            return []
        out = []
        if blocks[0].first:
            self._code = []
            self._choose_lexer(blocks[0].language)
            out += [""] if blocks[0].gap else []
        self._code += [block.text for block in blocks]
        self._code = self._code[-max(WINDOW, len(blocks)) :]
        return out + self._coloured()[-len(blocks) :]

    def _choose_lexer(self, language: str) -> None:
        self._lexer = None
        if language and self._look.colour is Colour.FULL:
            try:
                self._lexer = _lexer_for(language)
            except ClassNotFound:
                return

    def _coloured(self) -> list[str]:
        """All lines at hand, with colours where the language is known."""
        if self._lexer is None:
            return self._code
        rows = [""]
        for kind, text in self._lexer.get_tokens("\n".join(self._code)):
            colour = _colour_of(kind)
            for index, piece in enumerate(text.split("\n")):
                if index:
                    rows.append("")
                if piece:
                    rows[-1] += f"\x1b[{colour}m{piece}\x1b[0m" if colour and piece.strip() else piece
        return rows if len(rows) == len(self._code) else self._code


@functools.cache
def _colour_of(kind: Any) -> str:
    return next((colour for known, colour in _CODE_STYLES if kind in known), "")


@functools.cache
def _lexer_for(language: str) -> Lexer:
    """Raises ClassNotFound."""
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


def _trimmed(segments: list[Segment]) -> list[Segment]:
    """Equal neighbours joined, no blanks at the end."""
    out = list(Segment.simplify(segment for segment in segments if not segment.control))
    while out:
        text, style, _ = out[-1]
        stripped = text.rstrip(" ")
        if stripped:
            out[-1] = Segment(stripped, style)
            return out
        out.pop()
    return out
