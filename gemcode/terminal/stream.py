"""Cuts streamed markdown into finished blocks, so that each is drawn once. Pure; the text comes in escaped, by lines.

A heading is finished at its newline, a top-level list item when the next begins, a paragraph or table at a blank line,
code line by line. What the chunks were makes no difference.
"""

import re
from enum import Enum

from gemcode.frozen import frozen

_fence = re.compile(r"^( *)(`{3,}|~{3,})([^\n]*)$")
_heading = re.compile(r"^ {0,3}#{1,6}(?:[ \t]|$)")
_item = re.compile(r"^( *)([-*+]|(\d{1,9})[.)])(?:([ \t]+)(.*))?$")
_rule = re.compile(r"^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_underline = re.compile(r"^ {0,3}(?:=+|-+)[ \t]*$")
_quote = re.compile(r"^ {0,3}>")
_table_rule = re.compile(r"^ *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$")


class Kind(Enum):
    PARAGRAPH = "paragraph"  # also tables: the renderer tells them apart
    HEADING = "heading"
    ITEM = "item"
    QUOTE = "quote"
    RULE = "rule"
    CODE = "code"


@frozen
class Block:
    """A finished block, or one line of code. `gap`: a blank line goes before it."""

    kind: Kind
    text: str
    gap: bool
    language: str = ""
    first: bool = True  # of a code block


@frozen
class _Fence:
    mark: str
    indent: int
    language: str

    def closes(self, text: str) -> bool:
        found = _fence.match(text)
        return bool(
            found and found[2].startswith(self.mark) and len(found[1]) <= self.indent + 3 and not found[3].strip()
        )


class BlockSplitter:
    """Takes whole lines, gives finished blocks. `finish` gives the rest."""

    def __init__(self) -> None:
        self._kind: Kind | None = None  # of the open block
        self._lines: list[str] = []
        self._gap = False  # a blank line came before the open block
        self._blank = False  # the last line was blank
        self._content = 0  # where the text of the open item starts
        self._inner: _Fence | None = None  # a fence inside the open item
        self._fence: _Fence | None = None
        self._code_lines = 0
        self._previous: Kind | None = None

    def feed(self, text: str) -> list[Block]:
        """One line without its newline."""
        if self._fence is not None:
            return self._code_line(self._fence, text)
        if not text.strip():
            return self._blank_line()
        if self._kind is Kind.ITEM:
            text = self._deepened(text)
            if self._stays_in_item(text):
                self._lines.append(text)
                self._blank = False
                return []
        return self._top_line(text)

    def finish(self) -> list[Block]:
        self._fence = None
        return self._close()

    def preview(self, partial: str) -> Block | None:
        """What is open, together with the line that has not ended; None when there is nothing to show yet."""
        if self._fence is not None:
            closing = partial.strip() and not partial.strip().strip(self._fence.mark[0])
            text = _unindented(partial, self._fence.indent)
            return self._code(self._fence, text) if text and not closing else None
        if len(self._lines) == 1 and self._kind is Kind.PARAGRAPH and self._lines[0].lstrip().startswith("|"):
            return None  # the head of a table, most likely
        kind = self._kind or Kind.PARAGRAPH
        hidden = (
            self._is_table()  # finished rows only
            or partial.lstrip().startswith(("`" * 3, "~~~", "|"))
            or (self._kind is not None and self._starts_block(partial))  # a block of its own at its newline
        )
        lines = [*self._lines, *([] if hidden or not partial.strip() else [partial])]
        gap = self._gap if self._kind else self._blank
        return Block(kind, "\n".join(lines), self._is_apart(kind, gap)) if lines else None

    def _top_line(self, text: str) -> list[Block]:
        fence = _fence.match(text)
        if fence and len(fence[1]) < 4 and not (fence[2][0] == "`" and "`" in fence[3]):
            done = self._close()
            language = fence[3].strip().split(" ")[0].strip("{}.").lower()
            self._fence = _Fence(fence[2], len(fence[1]), language)
            self._code_lines, self._gap, self._blank = 0, self._blank, False
            return done
        if _heading.match(text):
            return self._alone(Kind.HEADING, text)
        if self._kind is Kind.PARAGRAPH and _underline.match(text) and not self._is_table():
            self._lines.append(text)
            self._kind = Kind.HEADING
            return self._close()
        if _rule.match(text):
            return self._alone(Kind.RULE, text)
        item = _item.match(text)
        if item and self._begins_item(item):
            done = self._close()
            self._open(Kind.ITEM, text)
            self._content = len(item[1]) + len(item[2]) + min(len(item[4] or " "), 4)
            return done
        if _quote.match(text) and self._kind is not Kind.QUOTE:
            return self._begin(Kind.QUOTE, text)
        if self._kind is None or (self._kind is Kind.ITEM and self._blank):
            return self._begin(Kind.PARAGRAPH, text)
        self._lines.append(text)
        return []

    def _deepened(self, text: str) -> str:
        """A nested item that is indented by two where its number needs three: what models write, and mean as nested."""
        indent = len(text) - len(text.lstrip(" "))
        nested = 2 <= indent < self._content and _item.match(text) and self._inner is None
        return " " * (self._content - indent) + text if nested else text

    def _stays_in_item(self, text: str) -> bool:
        """Whether the line belongs to the open item; keeps track of fences inside it."""
        if self._inner is not None:
            if self._inner.closes(text):
                self._inner = None
            return True
        if len(text) - len(text.lstrip(" ")) < self._content:
            return False
        if fence := _fence.match(text):
            self._inner = _Fence(fence[2], len(fence[1]), "")
        return True

    def _begins_item(self, item: re.Match[str]) -> bool:
        if len(item[1]) > 3:
            return False
        if self._kind is Kind.PARAGRAPH:  # as in CommonMark: not every number in a text is a list
            return bool((item[5] or "").strip()) and item[3] in (None, "1")
        return True

    def _starts_block(self, text: str) -> bool:
        item = _item.match(text)
        begins = item is not None and len(item[1]) < max(self._content, 1)
        return begins or any(pattern.match(text) for pattern in (_heading, _quote, _rule))

    def _is_table(self) -> bool:
        head = self._lines[:2] if self._kind is Kind.PARAGRAPH else []
        return len(head) == 2 and "|" in head[0] and bool(_table_rule.match(head[1]))

    def _blank_line(self) -> list[Block]:
        done: list[Block] = []
        if self._kind is Kind.ITEM:
            self._lines.append("")
        else:
            done = self._close()
        self._blank = True
        return done

    def _code_line(self, fence: _Fence, text: str) -> list[Block]:
        if fence.closes(text):
            self._fence = None
            self._previous = Kind.CODE
            return []
        block = self._code(fence, _unindented(text, fence.indent))
        self._code_lines += 1
        self._previous = Kind.CODE
        return [block]

    def _code(self, fence: _Fence, text: str) -> Block:
        first = self._code_lines == 0
        return Block(Kind.CODE, text, first and self._is_apart(Kind.CODE, self._gap), fence.language, first)

    def _open(self, kind: Kind, text: str) -> None:
        self._kind, self._lines = kind, [text]
        self._gap, self._blank = self._blank, False

    def _begin(self, kind: Kind, text: str) -> list[Block]:
        done = self._close()
        self._open(kind, text)
        return done

    def _alone(self, kind: Kind, text: str) -> list[Block]:
        return self._begin(kind, text) + self._close()

    def _close(self) -> list[Block]:
        """End the open block."""
        if self._kind is None:
            return []
        self._blank = self._lines[-1] == ""
        while self._lines[-1] == "":
            self._lines.pop()
        block = Block(self._kind, "\n".join(self._lines), self._is_apart(self._kind, self._gap))
        self._previous = Kind.RULE if self._is_table() else self._kind  # a table, too, is followed by a blank line
        self._kind, self._lines, self._inner, self._content = None, [], None, 0
        return [block]

    def _is_apart(self, kind: Kind, gap: bool) -> bool:
        """Blank lines as the writer set them, and always around what stands for itself."""
        if self._previous is None:
            return False
        return gap or kind in _APART or self._previous in _APART or self._is_table()


_APART = {Kind.CODE, Kind.HEADING, Kind.RULE, Kind.QUOTE}


def _unindented(text: str, columns: int) -> str:
    return text[min(columns, len(text) - len(text.lstrip(" "))) :]
