import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gemcode.agent.errors import ToolError
from gemcode.workspace.text import Binary, TextFile, decode, encode, line_span, normalise, split_lines


def text_of(data: bytes) -> TextFile:
    file = decode(data)
    assert isinstance(file, TextFile)
    return file


SAMPLES = [
    (b"", "utf-8", False, "none", False),
    (b"one\ntwo", "utf-8", False, "lf", False),
    (b"one\r\ntwo\r\n", "utf-8", False, "crlf", True),
    (b"one\rtwo\r", "utf-8", False, "cr", True),
    (b"one\ntwo\r\nthree\r", "utf-8", False, "mixed", True),
    (b"\xef\xbb\xbfcaf\xc3\xa9\n", "utf-8-sig", True, "lf", True),
    ("﻿héllo\r\n".encode("utf-16-le"), "utf-16-le", True, "crlf", True),
    ("﻿héllo\n".encode("utf-16-be"), "utf-16-be", True, "lf", True),
    (b"caf\xe9 au lait\n", "latin-1", False, "lf", True),
    (b"\xef\xbb\xbfcaf\xe9 with a mark that is not one\n", "latin-1", False, "lf", True),
]


@pytest.mark.parametrize(("data", "encoding", "bom", "newline", "final"), SAMPLES)
def test_a_text_file_is_described_and_written_back_byte_for_byte(
    data: bytes, encoding: str, bom: bool, newline: str, final: bool
) -> None:
    file = text_of(data)
    assert (file.encoding, file.bom, file.newline, file.final_newline) == (encoding, bom, newline, final)
    assert encode(file.text, file) == data
    assert "\r" not in file.view


@given(st.binary() | st.text(alphabet="ab\r\n\x85\u2028\ufeffé\0").map(lambda t: t.encode("utf-8")))
@example(b"\xff\xfe\x00\xd8")
@example(b"\xff\xfeA")
@example(b"\xef\xbb\xbf")
def test_decoding_and_encoding_is_the_identity_for_every_byte_string(data: bytes) -> None:
    file = decode(data)
    if isinstance(file, Binary):
        assert file.size == len(data)
        return
    assert encode(file.text, file) == data
    assert "".join(split_lines(file.text)) == file.text


@given(st.text(), st.sampled_from(["utf-16-le", "utf-16-be", "utf-8"]))
def test_any_text_with_a_byte_order_mark_comes_back_in_its_encoding(text: str, encoding: str) -> None:
    data = ("\ufeff" + text).encode(encoding)
    file = decode(data)
    if isinstance(file, Binary):
        assert "\0" in text
    else:
        assert file.text == text
        assert encode(file.text, file) == data


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG image"),
        (b"%PDF-1.7\n%\xe2\xe3", "PDF document"),
        (b"\x7fELF\x02\x01", "ELF program"),
        (b"MZ\x90\0", "Windows program"),
        (b"a\0b", "binary data"),
        (b"\xff\xfea", "damaged UTF-16 text"),
        (b"\xff\xfea\0\0\0", "damaged UTF-16 text"),
        (bytes(range(1, 256)), "binary data"),
        (b"\x00\x00\xfe\xff\x00\x00\x00a", "UTF-32 text"),
    ],
)
def test_what_is_not_text_is_named(data: bytes, kind: str) -> None:
    assert decode(data) == Binary(kind, len(data))


def test_text_that_looks_a_little_like_a_signature_stays_text() -> None:
    assert text_of(b"BMW\n").text == "BMW\n"
    assert text_of(b"MZ\x1b[0m").text == "MZ\x1b[0m"


def test_a_character_without_a_place_in_the_encoding_is_refused() -> None:
    with pytest.raises(ToolError) as caught:
        encode("caf\xe9\n\u20ac", text_of(b"caf\xe9"))
    assert caught.value.kind == "encoding"
    assert caught.value.details == {"encoding": "latin-1", "character": "U+20AC", "line": 2}
    with pytest.raises(ToolError):
        encode("\ud800", text_of(b"x"))


@given(st.text(alphabet="a\r\n\v\f\x1c\x85\u2028é"))
def test_lines_are_split_only_where_an_editor_would(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert [normalise(line) for line in lines] == [part + "\n" for part in normalise(text).split("\n")[:-1]] + [
        part for part in normalise(text).split("\n")[-1:] if part
    ]


def test_a_span_is_the_lines_asked_for_with_line_feeds() -> None:
    span = line_span("a\r\nb\rc\nd", 2, 3)
    assert (span.text, span.first, span.last, span.total, span.cut) == ("b\nc\n", 2, 3, 4, None)
    assert line_span("a\r\nb\rc\nd").text == "a\nb\nc\nd"
    assert line_span("a\nb", 2, 99).text == "b"


def test_an_empty_file_has_an_empty_span() -> None:
    span = line_span("")
    assert (span.text, span.first, span.last, span.total, span.cut) == ("", 1, 0, 0, None)


@pytest.mark.parametrize(("start", "end"), [(0, None), (3, 2), (4, None), (-1, 2)])
def test_a_span_outside_of_the_file_is_refused_with_the_number_of_lines(start: int, end: int | None) -> None:
    with pytest.raises(ToolError) as caught:
        line_span("a\nb\nc\n", start, end)
    assert caught.value.kind == "invalid_range"
    assert caught.value.details == {"total": 3}


def test_a_span_that_is_too_large_says_where_to_go_on() -> None:
    text = "".join(f"line {n}\n" for n in range(1, 101))
    pages, start = [], 1
    while True:
        span = line_span(text, start, max_bytes=100)
        pages.append(span.text)
        assert len(span.text) <= 100
        if span.cut is None:
            break
        assert span.cut.next_line == span.last + 1
        assert f"start_line={span.last + 1}" in span.cut.message
        start = span.last + 1
    assert "".join(pages) == text


def test_a_long_line_is_cut_with_a_report() -> None:
    span = line_span("short\n" + "x" * 50 + "\nend", max_line=10)
    assert span.text == "short\n" + "x" * 10 + "\nend"
    assert span.cut is not None
    assert span.cut.shortened == (2,)
    assert span.cut.next_line is None
    assert "line 2" in span.cut.message


def test_a_line_larger_than_the_whole_budget_still_moves_the_reader_on() -> None:
    span = line_span("é" * 50 + "\nend\n", max_bytes=11)
    assert span.text == "ééééé\n"
    assert span.cut is not None
    assert (span.cut.shortened, span.cut.next_line) == ((1,), 2)


def test_many_long_lines_are_reported_shortly() -> None:
    span = line_span(("x" * 50 + "\n") * 30, max_line=10)
    assert span.cut is not None
    assert span.cut.message.count(",") < 20
    assert "and others" in span.cut.message
