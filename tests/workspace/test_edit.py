import random
import re
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.errors import ToolError
from gemcode.workspace.edit import Edit, apply_edits, keep_ends, new_content
from gemcode.workspace.text import TextFile, decode, line_end, normalise

words = st.sampled_from(["alpha", "beta", "gamma", "", " ", "x", "é", "}"])
ends = st.sampled_from(["\n", "\r\n", "\r"])
mixed = st.lists(st.tuples(words, ends).map("".join), max_size=12).flatmap(
    lambda lines: words.map(lambda tail: "".join(lines) + tail)
)
codecs = st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"])


def to_bytes(text: str, codec: str) -> bytes:
    return (("\ufeff" + text) if codec.startswith("utf-16") else text).encode(codec)


def refused(kind: str, data: bytes, *edits: Edit) -> ToolError:
    with pytest.raises(ToolError) as caught:
        apply_edits(data, edits)
    assert caught.value.kind == kind
    return caught.value


@given(mixed, codecs, st.data())
def test_an_edit_changes_its_region_and_no_other_byte_or_is_refused(text: str, codec: str, data: st.DataObject) -> None:
    before = to_bytes(text, codec)
    view = normalise(text)
    start = data.draw(st.integers(0, len(view)))
    stop = data.draw(st.integers(start, len(view)))
    new = normalise(data.draw(mixed))
    try:
        after = apply_edits(before, [Edit(view[start:stop], new)])
    except ToolError:
        return
    file = decode(after)
    assert isinstance(file, TextFile)
    assert normalise(file.text) == view[:start] + new + view[stop:]
    raw = [0, *accumulate(len(line_end(c) or c) for c in re.findall(r"\r\n|.", text, re.DOTALL))]
    assert file.text.startswith(text[: raw[start]])
    assert file.text.endswith(text[raw[stop] :])


@given(mixed, codecs, mixed)
def test_new_content_reads_back_as_the_model_wrote_it_and_unchanged_lines_keep_their_ends(
    text: str, codec: str, content: str
) -> None:
    content = normalise(content)
    try:
        after = new_content(to_bytes(text, codec), content)
    except ToolError as error:
        assert error.kind in ("no_change", "encoding")
        return
    file = decode(after)
    assert isinstance(file, TextFile)
    assert file.view == content
    found = decode(to_bytes(text, codec))
    assert isinstance(found, TextFile)
    if found.newline in ("lf", "crlf", "cr"):
        assert file.newline in (found.newline, "none")


@given(mixed, mixed)
def test_appending_keeps_every_byte_that_was_there(text: str, content: str) -> None:
    before = text.encode()
    try:
        after = new_content(before, content, "append")
    except ToolError as error:
        assert error.kind in ("no_change", "encoding")
        return
    assert after.startswith(before)


def test_a_uniform_crlf_file_stays_crlf() -> None:
    assert new_content(b"a\r\nb\r\n", "a\nx\ny\n") == b"a\r\nx\r\ny\r\n"
    assert new_content(b"a\r\n", "b\n", "append") == b"a\r\nb\r\n"
    assert apply_edits(b"a\r\nb\r\nc\r\n", [Edit("a\nb", "a\nnew\nb")]) == b"a\r\nnew\r\nb\r\nc\r\n"


def test_unchanged_lines_of_a_mixed_file_keep_their_own_ends() -> None:
    before = b"one\ntwo\r\nthree\nfour\r\nfive"
    assert new_content(before, "one\ntwo\nTHREE\nfour\nfive\n") == b"one\ntwo\r\nTHREE\nfour\r\nfive\r\n"
    assert apply_edits(before, [Edit("two\nthree\nfour", "2\nthree\nfour")]) == b"one\n2\r\nthree\nfour\r\nfive"


def test_a_carriage_return_that_the_model_writes_means_itself() -> None:
    assert apply_edits(b"a\nb\n", [Edit("a\n", "a\r\n")]) == b"a\r\nb\n"
    assert apply_edits(b"a\r\nb\n", [Edit("a\r\n", "a\n")]) == b"a\nb\n"
    assert new_content(None, "a\r\nb") == b"a\r\nb"


def test_a_byte_order_mark_is_kept_once() -> None:
    assert new_content(b"\xef\xbb\xbfa\n", "b\n") == b"\xef\xbb\xbfb\n"
    assert new_content(b"\xef\xbb\xbfa\n", "\ufeffb\n") == b"\xef\xbb\xbfb\n"
    assert new_content(None, "\ufeffb\n") == b"\xef\xbb\xbfb\n"
    assert apply_edits(b"\xef\xbb\xbfa\n", [Edit("a", "é")]) == b"\xef\xbb\xbf\xc3\xa9\n"


def test_latin_1_stays_latin_1_or_the_change_is_refused() -> None:
    before = b"caf\xe9\nna\xefve\n"
    assert apply_edits(before, [Edit("café", "café crème")]) == b"caf\xe9 cr\xe8me\nna\xefve\n"
    assert refused("encoding", before, Edit("café", "5 €")).details["character"] == "U+20AC"
    # The new bytes alone would be taken for UTF-8 from then on: another text than the model asked for.
    refused("encoding", b"\xe9", Edit("é", "Ã©"))
    assert apply_edits(b"\xe9 x", [Edit("é ", "")]) == b"x"


def test_utf_16_is_edited_in_place() -> None:
    before = "\ufeffone\r\ntwo €\r\n".encode("utf-16-le")
    assert apply_edits(before, [Edit("two €", "2\n3")]) == "\ufeffone\r\n2\r\n3\r\n".encode("utf-16-le")


def test_a_surrogate_or_a_null_never_reaches_a_file() -> None:
    with pytest.raises(ToolError, match="can't hold"):
        new_content(None, "a\ud800b")
    with pytest.raises(ToolError, match="no longer be text"):
        new_content(None, "a\0b")
    with pytest.raises(ToolError, match="binary data"):
        new_content(b"a\0b", "x")
    refused("binary", b"\x89PNG\r\n\x1a\n", Edit("PNG", "x"))


def test_an_empty_new_file_is_allowed_and_the_same_content_is_no_change() -> None:
    assert new_content(None, "") == b""
    assert new_content(b"", "x") == b"x"
    with pytest.raises(ToolError) as caught:
        new_content(b"a\r\n", "a\n")
    assert caught.value.kind == "no_change"


def test_edits_are_matched_against_the_file_as_it_is_all_or_none() -> None:
    data = b"one\ntwo\nthree\n"
    assert apply_edits(data, [Edit("three", "3"), Edit("one", "1")]) == b"1\ntwo\n3\n"
    refused("no_match", data, Edit("one", "1"), Edit("four", "4"))
    assert refused("no_match", data, Edit("one", "x"), Edit("x", "y")).details["edit"] == 2


def test_every_match_is_replaced_only_when_asked() -> None:
    assert apply_edits(b"a b a\r\na\r\n", [Edit("a", "c", all=True)]) == b"c b c\r\nc\r\n"
    error = refused("many_matches", b"a b a\r\na\r\n", Edit("a", "c"))
    assert error.details == {"edit": 1, "matches": 3, "lines": [1, 1, 2]}
    assert refused("many_matches", b"aaa", Edit("aa", "b")).details["matches"] == 2
    assert refused("many_matches", b"x\r\ny\r\nx\r\n", Edit("x\r\n", "b")).details["lines"] == [1, 3]


def test_overlapping_edits_are_refused() -> None:
    error = refused("overlapping_edits", b"one two three\n", Edit("one two", "x"), Edit("two three", "y"))
    assert error.details == {"edits": [1, 2], "line": 1}


def test_edits_that_say_nothing_are_refused() -> None:
    refused("empty_old", b"a", Edit("", "b"))
    refused("no_change", b"a", Edit("a", "a"))
    refused("no_change", b"a")
    refused("no_change", b"a\r\n", Edit("a\n", "a\r\n"))


def test_a_match_that_needs_other_line_ends_is_refused_and_explained() -> None:
    error = refused("no_match", b"a\nb\nc\n", Edit("b\r\nc", "x"))
    assert "only the line ends differ" in error.message
    assert (error.details["first_line"], error.details["last_line"]) == (2, 3)


def test_a_miss_names_the_closest_region_and_the_difference() -> None:
    data = b"def f():\n    return 1\n\ndef g():\n    total = count(items)\n    return total\n"
    error = refused("no_match", data, Edit("def g():\n  total = count(items)\n", "x"))
    assert "only the white space differs" in error.message
    assert (error.details["first_line"], error.details["last_line"]) == (4, 5)
    error = refused("no_match", data, Edit("    total = count(item)\n", "x"))
    assert error.details["first_line"] == 5
    assert error.details["text"] == "    total = count(items)\n"
    assert "-    total = count(item)\n+    total = count(items)\n" in str(error.details["difference"])
    assert refused("no_match", data, Edit("zzzzqqqq", "x")).details == {"edit": 1}
    assert refused("no_match", b"", Edit("zzzz", "x")).details == {"edit": 1}
    refused("no_match", data, Edit("\n\n\n", "x"))


def test_a_miss_in_a_large_file_is_bounded() -> None:
    data = b"".join(b"some line with the number %d and more words in it\n" % n for n in range(20_000))
    assert refused("no_match", data, Edit("some lime with the number seven\n" * 50, "x")).details["edit"] == 1


@pytest.mark.timeout(20)  # unbounded, the first takes hours and the second half a minute
def test_text_made_to_be_compared_slowly_is_answered() -> None:
    error = refused("many_matches", b"a" * (1 << 20), Edit("a" * 300_000, "b"))
    assert "at least 100 times" in error.message
    source = random.Random(1)
    lines = ["".join(source.sample("ab" * 100, 200)) for _ in range(5_000)]
    refused("no_match", "\n".join(lines[1:]).encode(), Edit(lines[0] + "c", "x"))


def test_a_lone_carriage_return_and_a_line_feed_are_not_joined_by_an_edit() -> None:
    refused("encoding", b"a\rX\nb", Edit("X", ""))


def test_many_replacements_stay_fast() -> None:
    assert apply_edits(b"a\r\n" * 50_000, [Edit("a", "b\nc", all=True)]) == b"b\r\nc\r\n" * 50_000


def test_ends_come_from_the_lines_replaced_then_from_the_line_before() -> None:
    assert keep_ends(["a\r\n", "b\n"], "x\ny\nz\n", "\r") == "x\r\ny\nz\n"
    assert keep_ends([], "x\ny", "\r") == "x\ry"
