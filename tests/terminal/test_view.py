"""Lines for a person: they fit, they say what happened, and nothing of others gets through raw."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.errors import ModelError, ToolError
from gemcode.agent.events import FileChanged, Notice, Outcome, Status, ToolFinished
from gemcode.agent.messages import ToolCall, ToolResult, Usage
from gemcode.agent.model import Retrying
from gemcode.agent.results import failure
from gemcode.terminal import view
from gemcode.terminal.look import Colour, Look
from gemcode.terminal.paint import Line, Style, cut, fit, line, paint, plain, width, wrap
from gemcode.terminal.view import ASCII, UNICODE, About

anything = st.text(alphabet=st.characters(), max_size=40)
columns = st.integers(20, 200)


def finished(name: str, subject: str, outcome: str, *, ok: bool = True, ms: float = 12) -> ToolFinished:
    response = {"output": 1} if ok else {"error": {"type": "t", "message": outcome}}
    shown = outcome if ok else None
    return ToolFinished(ToolCall("c", name, {}), subject, ToolResult("c", name, response, display=shown), ms)


def is_harmless(lines: list[Line]) -> bool:
    return all(letter.isprintable() or letter in "\n\t\u200d" for one in lines for letter in plain(one))


def test_21_a_tool_line_has_columns() -> None:
    lines = [
        plain(view.tool_line(finished("list_files", "src/**/*.py", "48 files"), UNICODE, 80)),
        plain(view.tool_line(finished("search_files", '"round" in src', "7 matches in 3 files", ms=9), UNICODE, 80)),
        plain(view.tool_line(finished("read_file", "../secrets.txt", "Outside the project.", ok=False), UNICODE, 80)),
        plain(view.tool_line(finished("read_file", "../secrets.txt", "Outside the project.", ok=False), ASCII, 80)),
    ]
    assert lines == [
        "✓ list_files    src/**/*.py           48 files                             12 ms",
        '✓ search_files  "round" in src        7 matches in 3 files                  9 ms',
        "✗ read_file     ../secrets.txt        Outside the project",
        "x  read_file     ../secrets.txt        Outside the project",
    ]


def test_32_after_a_refusal_the_word_is_declined() -> None:
    refusal = ToolError("denied", "The user declined this.")
    refusal.said = "declined: keep it"
    call = ToolCall("c", "edit_file", {})
    shown = view.tool_line(ToolFinished(call, "a.py", failure(call, refusal), 1), UNICODE, 80)
    assert plain(shown).split() == ["✗", "edit_file", "a.py", "declined:", "keep", "it"]


def conflict(**details: object) -> ToolFinished:
    error = {"type": "stale", "message": "for the model", **details}
    return ToolFinished(
        ToolCall("c", "edit_file", {}), "src/cart.py", ToolResult("c", "edit_file", {"error": error}), 1
    )


def test_29_a_write_that_came_too_late_says_what_is_kept() -> None:
    event = conflict(what="changed on disk", time=0, lines=2, kept="k3f9")
    clock = time.strftime("%H:%M:%S", time.localtime(0))
    assert [plain(one) for one in view.tool_lines(event, UNICODE, 80)] == [
        "✗ edit_file     src/cart.py           not written",
        f"! src/cart.py changed on disk in the meantime ({clock}, +2 lines).",
        "  Not written. Yours is untouched. The proposal is kept as k3f9.",
        "  See both: /restore k3f9 in the chat, or gemcode restore k3f9.",
    ]


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"what": "was removed", "kept": "k3f9"}, "! src/cart.py was removed in the meantime."),
        ({"kept": ""}, "  Not written. Yours is untouched."),
        ({"kept": "k3f9", "time": 1e30, "lines": -1}, "unknown time, -1 line)"),
    ],
)
def test_29_other_forms_of_it(details: dict[str, object], said: str) -> None:
    assert said in "\n".join(plain(one) for one in view.tool_lines(conflict(**details), UNICODE, 80))


def test_29_where_ours_had_to_stay_nothing_is_claimed_about_theirs() -> None:
    (only,) = view.tool_lines(conflict(kept="k3f9", written=True), UNICODE, 80)
    assert "for the model" in plain(only)


def test_29_who_was_asked_about_a_conflict_is_not_told_of_it_again() -> None:
    event = conflict(kept="k3f9")
    answered = replace(event, result=replace(event.result, display="changed on disk, to be read again"))
    (only,) = view.tool_lines(answered, UNICODE, 80)
    assert plain(only).endswith("src/cart.py           changed on disk, to be read again")


@pytest.mark.parametrize("room", [20, 39, 60, 79])
def test_33_the_number_of_a_wait_is_never_cut_off(room: int) -> None:
    event = Retrying("The limit per minute is reached (GenerateContentPaidTierInputTokensPerModelPerMinute).", 9, 1, 5)
    shown = plain(view.retry_line(event, 8.6, room, "…"))
    assert len(shown) <= room and " 9 s" in shown and shown.startswith("! The limit")


def test_33_the_reason_of_a_wait_matters_more_than_the_hint() -> None:
    event = Retrying("The limit per minute is reached (1,000,000 input tokens).", 9, 1, 5)
    assert plain(view.retry_line(event, 5, 79, "…")) == f"! {event.reason} Try 2 of 5 in 5 s"
    assert plain(view.retry_line(event, 5, 99, "…")) == f"! {event.reason} Try 2 of 5 in 5 s  (Ctrl-C cancels)"


@given(anything, anything, anything, st.booleans(), columns)
def test_20_any_tool_line_fits_and_is_harmless(name: str, subject: str, outcome: str, ok: bool, room: int) -> None:
    shown = view.tool_line(finished(name, subject, outcome, ok=ok), UNICODE, room)
    assert is_harmless([shown])
    assert "\n" not in plain(shown)
    assert width(plain(shown)) <= room


@given(anything, anything, st.floats(0, 1e9))
def test_20_notices_retries_and_errors_are_harmless(text: str, hint: str, delay: float) -> None:
    assert (
        is_harmless(
            [
                view.notice_line(Notice(text), UNICODE),
                view.retry_line(Retrying(text, delay, 1, 5), delay),
                *view.error_lines(ModelError(text, hint, detail=text), UNICODE, verbose=True),
                *view.start_lines(About(text, text, text, text, text, (text,), text), text, UNICODE),
                *view.changed_lines(
                    Outcome(Status.OK, files_changed=(FileChanged(text, text, text),)), UNICODE, "/undo"
                ),
                view.cancelled_line(
                    1, Outcome(Status.INTERRUPTED, files_changed=(FileChanged(text, "x", ""),)), UNICODE
                ),
            ]
        )
        or "\n" in text
    )


@pytest.mark.parametrize("room", [40, 80, 120])
def test_36_the_status_line_fits_and_loses_fields_from_the_right(room: int) -> None:
    outcome = Outcome(
        Status.OK,
        usage=Usage(prompt=12_400, cached=10_100, output=600, thought=40),
        cost_usd=0.0031,
        files_changed=(FileChanged("a", "modified", "1"), FileChanged("b", "modified", "2")),
        duration_ms=9000,
    )
    full = "gemini-3.8-flash  in 12.4k (81% cached)  out 640  $0.0031  session $0.02  2 files  9s"
    shown = plain(view.status_line(outcome, "gemini-3.8-flash", 0.02, room))
    assert full.startswith(shown) and len(shown) <= room
    assert shown == full if room == 120 else shown.startswith("gemini-3.8-flash  in 12.4k")


def test_what_a_cancel_says_about_files_is_true() -> None:
    nothing = plain(view.cancelled_line(4.2, Outcome(Status.INTERRUPTED), UNICODE))
    assert nothing == "· cancelled after 4s. Nothing was written. Your prompt is kept: press Up."
    one = Outcome(Status.INTERRUPTED, files_changed=(FileChanged("a.py", "modified", "w1"),) * 2)
    assert "Written before: a.py." in plain(view.cancelled_line(1, one, UNICODE))
    assert "written" not in plain(view.cancelled_line(1, None, UNICODE))


def test_numbers_are_short() -> None:
    assert [view.count(n) for n in (0, 999, 1_000, 12_400, 999_949, 999_950)] == [
        "0",
        "999",
        "1.0k",
        "12.4k",
        "999.9k",
        "1.0M",
    ]
    assert [view.money(n) for n in (0, 0.0031, 0.02, 1.5)] == ["$0.00", "$0.0031", "$0.02", "$1.50"]
    assert [view.plural(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_the_start_screen_is_two_lines_and_what_is_unusual() -> None:
    about = About(
        "1.0", "gemini-3.8-flash", "~/src/shop", "GEMINI_API_KEY …x4f2", "7f3k", ("endpoint: http://127.0.0.1:1",)
    )
    assert [plain(one) for one in view.start_lines(about, "ask", UNICODE)] == [
        "gemcode 1.0  gemini-3.8-flash  ~/src/shop",
        "approve: ask   key: GEMINI_API_KEY …x4f2   /help for help",
        "! endpoint: http://127.0.0.1:1",
    ]


@pytest.mark.parametrize(
    ("branch", "shown"),
    [
        ("main", "~/src/shop (git: main)"),
        ("a\x1b[2J\u202e", "~/src/shop (git: a\\x1b[2J\\u{202e})"),
        ("b" * 100, f"~/src/shop (git: {'b' * 39}…)"),
    ],
)
def test_the_start_names_the_branch_escaped_and_cut(branch: str, shown: str) -> None:
    about = About("1.0", "gemini-3.8-flash", "~/src/shop", branch=branch)
    assert plain(view.start_lines(about, "ask", UNICODE)[0]) == f"gemcode 1.0  gemini-3.8-flash  {shown}"


@given(st.text(alphabet="ab日本語e\u0301한👩 ", max_size=30), st.integers(1, 20))
def test_cut_text_is_never_too_wide(text: str, room: int) -> None:
    assert width(cut(text, room, "…")) <= room
    assert width(plain(fit(line(text, (Style.BOLD, text)), room, "…"))) <= room


def test_wide_letters_count_twice_and_combining_ones_not_at_all() -> None:
    assert [width(text) for text in ("abc", "日本", "e\u0301", "한")] == [3, 4, 1, 2]


def test_a_long_line_breaks_at_blanks_and_keeps_its_styles() -> None:
    rows = wrap(line((Style.WARN, "! "), "src/cart.py changed; kept as ", (Style.BOLD, "k3f9"), ". Look at it"), 30)
    assert [plain(row) for row in rows] == ["! src/cart.py changed; kept as", "  k3f9. Look at it"]
    assert (Style.BOLD, "k3f9") in rows[1]
    assert wrap(line("a" * 50), 30) == [line("a" * 50)]
    assert len(wrap(line("one\ttwo " * 20), 30)) == 1


@given(st.lists(st.text(alphabet="ab\u4f60 ", max_size=12), max_size=12), columns)
def test_wrapping_loses_nothing_and_tears_nothing(pieces: list[str], room: int) -> None:
    whole = line("x", *pieces)
    rows = wrap(whole, room)
    assert "".join(map(plain, rows)).replace(" ", "") == plain(whole).replace(" ", "")
    words = plain(whole).split()
    assert all(word in words for row in rows for word in plain(row).split())
    assert all(width(plain(row)) <= max(room, 2 + max(map(width, words))) for row in rows)


def test_paint_follows_the_look() -> None:
    one = line((Style.GOOD, "ok"), " ", (Style.BOLD, "name"))
    assert paint(one, Look(Colour.NONE)) == "ok name"
    assert paint(one, Look(Colour.MONO)) == "ok \x1b[1mname\x1b[0m"
    assert paint(one, Look(Colour.FULL)) == "\x1b[32mok\x1b[0m \x1b[1mname\x1b[0m"


def test_a_reason_that_is_a_question_keeps_its_mark_alone() -> None:
    shown = plain(view.retry_line(Retrying("Cannot reach the API. Are you offline?", 4, 1, 5), 4))
    assert "Are you offline? Try 2 of 5 in 4 s" in shown
