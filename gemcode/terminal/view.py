"""Event → lines for a person. Pure: no I/O, no clock. Everything that others wrote is escaped here."""

import time
from typing import Any

from gemcode.agent.errors import GemcodeError
from gemcode.agent.events import Notice, Outcome, ToolFinished
from gemcode.agent.ledger import ledger
from gemcode.agent.model import Retrying
from gemcode.agent.tool import Conflict
from gemcode.frozen import frozen
from gemcode.terminal.paint import Line, Style, cut, line, pad, width
from gemcode.terminal.safe import escape

NARROW = 60  # columns below which columns are given up
MOST_BRANCH = 40  # columns of a branch's name at the start


@frozen
class Marks:
    ok: str
    failed: str
    note: str
    more: str
    cut: str


UNICODE = Marks("✓", "✗", "·", "…", "›")
ASCII = Marks("ok", "x", "-", "...", ">")


@frozen
class About:
    """The facts of the start screen and of machine output. All of it is escaped before it is shown."""

    version: str
    model: str
    project: str = ""  # "~/src/shop"
    key: str = ""  # "GEMINI_API_KEY …x4f2"
    session_id: str = ""
    warnings: tuple[str, ...] = ()  # only what is not the default: an endpoint, a missing wall
    branch: str = ""  # of git; "" where there is none


def marks_for(*, unicode: bool) -> Marks:
    return UNICODE if unicode else ASCII


def start_lines(about: About, mode: str, marks: Marks) -> list[Line]:
    """Two lines of facts, then only what is not the default."""
    place = _name(about.project)
    if about.branch:
        place += f" (git: {cut(_name(about.branch), MOST_BRANCH, marks.more)})"
    facts = [f"approve: {_name(mode)}", *([f"key: {_name(about.key)}"] if about.key else []), "/help for help"]
    first = line((Style.BOLD, "gemcode"), f" {_name(about.version)}  {_name(about.model)}  {place}".rstrip())
    return [first, line((Style.DIM, "   ".join(facts)))] + [
        line((Style.WARN, "! "), escape(warning)) for warning in about.warnings
    ]


def tool_line(event: ToolFinished, marks: Marks, columns: int) -> Line:
    """One call: mark, name, subject, outcome, milliseconds."""
    result = event.result
    mark = (Style.GOOD, marks.ok) if result.ok else (Style.BAD, marks.failed)
    name, subject, outcome = _name(event.call.name), _name(event.subject), _said(event)
    if columns < NARROW:
        return line(mark, cut(f" {name}  {subject}  {outcome}", columns - width(mark[1]), marks.more))
    took = f"{event.duration_ms:.0f} ms" if result.ok else ""
    lead = f"{' ' * (max(len(marks.ok), 1) + 1 - len(mark[1]))}{pad(cut(name, 24, marks.more), 12)}  "
    room = columns - width(mark[1]) - width(lead) - 2 - (len(took) + 2 if took else 0)
    subject = pad(cut(subject, max(room - width(outcome), 20), marks.more), 20)
    outcome = cut(outcome, max(room - width(subject), 0), marks.more)
    if took:
        outcome = pad(outcome, room - width(subject)) + "  "
    return line(mark, lead, subject, "  ", outcome, (Style.DIM, took))


def tool_lines(event: ToolFinished, marks: Marks, columns: int) -> list[Line]:
    """The line of a call, and what the person must know of a write that came too late, unless they were asked."""
    error = _conflict(event)
    lines = [tool_line(event, marks, columns)]
    if not error or event.result.display:
        return lines
    what = f"{_name(str(error.get('what', 'changed on disk')))} in the meantime"
    kept = _name(str(error["kept"]))
    lines += _late(_name(event.subject), what, error.get("time"), error.get("lines", 0), kept)
    if kept:
        lines.append(line(f"  See both: /restore {kept} in the chat, or gemcode restore {kept}."))
    return lines


def conflict_lines(conflict: Conflict) -> list[Line]:
    """What the person must know before they are asked about a write that came too late."""
    what = f"{_name(conflict.what)} while you were reading"
    return _late(_name(conflict.path), what, conflict.saved, conflict.lines, _name(conflict.kept))


def _late(path: str, what: str, saved: float | None, lines: int, kept: str) -> list[Line]:
    facts = [] if saved is None else [_clock(saved)]
    if lines:
        facts.append(f"{lines:+} line{'' if abs(lines) == 1 else 's'}")
    when = f" ({', '.join(facts)})" if facts else ""
    proposal = f" The proposal is kept as {kept}." if kept else ""
    return [
        line((Style.WARN, "! "), f"{path} {what}{when}."),
        line(f"  Not written. Yours is untouched.{proposal}"),
    ]


def _clock(seconds: float) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # a file may bear any time at all
        return "at an unknown time"


def _conflict(event: ToolFinished) -> dict[str, Any]:
    """The error of a write that met a newer file, and left it in place."""
    error = event.result.response.get("error")
    return error if isinstance(error, dict) and "kept" in error and not error.get("written") else {}


def _said(event: ToolFinished) -> str:
    result = event.result
    if isinstance(result.display, str):
        return _name(result.display)
    if result.ok:
        return "done"
    if _conflict(event):
        return "not written"
    return _name(result.error_message.rstrip(".")) or _name(result.error_kind)


def notice_line(notice: Notice, marks: Marks) -> Line:
    mark = (Style.WARN, "! ") if notice.warning else (Style.DIM, f"{marks.note} ")
    return line(mark, escape(notice.text))


def retry_line(event: Retrying, remaining: float, columns: int | None = None, more: str = "") -> Line:
    """Why it waits and how long still. Of a reason too long for the columns the end goes, not the number."""
    reason = escape(event.reason, single_line=True).rstrip(".")
    tries = f"Try {event.attempt + 1} of {event.attempts}" if event.attempts else "Retrying"
    stop = "" if reason.endswith(("?", "!")) else "."
    number = f"{max(remaining, 0):.0f} s"
    rest = f"{stop} {tries} in {number}  (Ctrl-C cancels)"
    if columns is not None:
        if width(reason) + len(rest) + 2 > columns:
            rest = f"{stop} {tries} in {number}"
        rest = rest if len(rest) < columns - 12 else f" {number}"
        reason = cut(reason, columns - 2 - len(rest), more)
    return line((Style.WARN, "! "), reason + rest)


def error_lines(error: GemcodeError, marks: Marks, *, verbose: bool = False) -> list[Line]:
    """One sentence, one hint; the raw detail only on request."""
    lines = [line((Style.BAD, f"{marks.failed} "), escape(error.message))]
    if error.hint:
        lines.append(line("  ", escape(error.hint)))
    detail = getattr(error, "detail", "")
    if verbose and detail:
        lines += [line((Style.DIM, f"  {text}")) for text in escape(str(detail)).split("\n")]
    return lines


def outcome_lines(outcome: Outcome, marks: Marks, *, verbose: bool = False) -> list[Line]:
    """What a turn that did not end well has to say; nothing for one that did."""
    return error_lines(outcome.error, marks, verbose=verbose) if outcome.error else []


def cancelled_line(seconds: float, outcome: Outcome | None, marks: Marks) -> Line:
    """What a cancel left behind. Without an outcome nothing is claimed about files."""
    if outcome is None:
        written = ""
    elif outcome.files_changed:
        written = (
            f" Written before: {', '.join(dict.fromkeys(_name(change.path) for change in outcome.files_changed))}."
        )
    else:
        written = " Nothing was written."
    text = f"cancelled after {seconds:.0f}s.{written} Your prompt is kept: press Up."
    return line((Style.DIM, f"{marks.note} "), text)


def changed_lines(outcome: Outcome, marks: Marks, undo: str, *, told: int = 0) -> list[Line]:
    """The ledger: what is different on disk now, how to take it back, and what was asked for but not written.

    `told`: so many of the latter are named elsewhere already.
    """
    book = ledger(outcome)
    lines = [
        line(
            (Style.DIM, f"{marks.note} "),
            f"{_name(change.path)} {_ACTIONS.get(change.action, 'changed')} (+{change.added} -{change.removed})",
        )
        for change in book.written
    ]
    if lines:
        lines[-1] = (*lines[-1], (Style.DIM, f"  Undo: {undo}"))
    missing = [*((entry, "declined") for entry in book.refused), *((entry, "failed") for entry in book.failed)]
    return lines + [
        line((Style.DIM, f"{marks.note} "), f"{_name(entry.path)} {word}") for entry, word in missing[told:]
    ]


_ACTIONS = {"created": "written, new", "modified": "written", "deleted": "deleted"}


def status_line(outcome: Outcome, model: str, session_cost: float | None, columns: int) -> Line:
    """The turn in one dim line; fields go from the right when it is narrow."""
    usage = outcome.usage
    cached = f" ({100 * usage.cached // usage.prompt}% cached)" if usage.prompt and usage.cached else ""
    fields = [
        _name(model),
        f"in {count(usage.prompt)}{cached}",
        f"out {count(usage.output + usage.thought)}",
        money(outcome.cost_usd) if outcome.cost_usd is not None else "",
        f"session {money(session_cost)}" if session_cost is not None else "",
        plural(len({change.path for change in outcome.files_changed}), "file") if outcome.files_changed else "",
        f"{outcome.duration_ms / 1000:.0f}s",
    ]
    fields = [field for field in fields if field]
    while len(fields) > 1 and width("  ".join(fields)) > columns:
        fields.pop()
    return line((Style.DIM, cut("  ".join(fields), columns)))


def count(tokens: int) -> str:
    """A number of tokens in at most five characters."""
    if tokens < 1_000:
        return str(tokens)
    return f"{tokens / 1_000:.1f}k" if tokens < 999_950 else f"{tokens / 1_000_000:.1f}M"


def money(dollars: float) -> str:
    """Dollars with two digits that say something."""
    return f"${dollars:.2f}" if dollars >= 0.01 or not dollars else f"${dollars:.4f}"


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _name(text: str) -> str:
    return escape(text, single_line=True)
