import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemcode.workspace.diff import align, count_changes, select_hunks, unified

contents = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"d\r", b"\n", b"e", b"\xe9\n", b"\xc3\xa9\n", b"\0"])
).map(b"".join)
texts = st.text(alphabet="ab\r\n€").map(lambda t: ("\ufeff" + t).encode("utf-16-le"))
anything = contents | texts | st.binary()


@given(anything, anything)
def test_all_hunks_give_the_new_bytes_and_none_the_old(before: bytes, after: bytes) -> None:
    hunks = unified(before, after).hunks
    assert select_hunks(before, after, {hunk.number for hunk in hunks}) == after
    assert select_hunks(before, after, set()) == before
    assert bool(hunks) == (before != after)


@given(contents, contents, st.data())
def test_a_choice_of_hunks_then_the_others_gives_the_new_bytes(
    before: bytes, after: bytes, data: st.DataObject
) -> None:
    numbers = [hunk.number for hunk in unified(before, after).hunks]
    chosen = data.draw(st.sets(st.sampled_from(numbers)) if numbers else st.just(set()))
    middle = select_hunks(before, after, chosen)
    rest = unified(middle, after).hunks
    assert select_hunks(middle, after, {hunk.number for hunk in rest}) == after


@given(contents, contents)
def test_the_lines_of_the_hunks_and_their_numbers_agree_with_the_files(before: bytes, after: bytes) -> None:
    diff = unified(before, after)
    for hunk in diff.hunks:
        olds = [line.old for line in hunk.lines if line.kind != "+"]
        news = [line.new for line in hunk.lines if line.kind != "-"]
        assert len(olds) == hunk.old_count
        assert len(news) == hunk.new_count
        assert olds == list(range(hunk.old_start, hunk.old_start + hunk.old_count))
        assert news == list(range(hunk.new_start, hunk.new_start + hunk.new_count))
    assert diff.added == sum(line.kind == "+" for hunk in diff.hunks for line in hunk.lines)
    assert diff.removed == sum(line.kind == "-" for hunk in diff.hunks for line in hunk.lines)


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=30))
def test_the_alignment_is_exact_outside_of_its_blocks(old: list[int], new: list[int]) -> None:
    i = j = 0
    for block in align(old, new):
        assert old[i : block.i1] == new[j : block.j1]
        assert block.i1 < block.i2 or block.j1 < block.j2
        i, j = block.i2, block.j2
    assert old[i:] == new[j:]


def test_the_text_form_is_the_usual_one() -> None:
    before = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"
    after = before.replace(b"\n2\n", b"\ntwo\n").replace(b"12\n", b"12")
    diff = unified(before, after)
    assert diff.as_text() == (
        "@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n"
        "@@ -9,4 +9,4 @@\n 9\n 10\n 11\n-12\n+12\n\\ No newline at end of file\n"
    )
    assert (diff.added, diff.removed) == (2, 2)
    assert diff.notes == ("final newline: removed",)
    assert unified(before, before).as_text() == ""


def test_a_line_that_differs_in_its_end_alone_is_marked() -> None:
    diff = unified(b"a\nb\n", b"a\nb\r\n")
    assert "-b [lf]\n+b [crlf]\n" in diff.as_text()
    assert diff.notes == ("line ends: lf become mixed",)


def test_a_new_file_and_an_emptied_one_are_shown_whole() -> None:
    assert unified(b"", b"a\nb\n").as_text() == "@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert unified(b"a\nb\n", b"").as_text() == "@@ -1,2 +0,0 @@\n-a\n-b\n"


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (b"a\n", b"\xef\xbb\xbfa\n", "byte order mark: added"),
        (b"\xef\xbb\xbfa\n", b"a\n", "byte order mark: removed"),
        (b"\xe9\n", b"\xc3\xa9\n", "encoding: latin-1 becomes utf-8"),
        (b"a\n", b"a\0", "binary content: text becomes binary data"),
        (b"a\r\n", b"a\n", "line ends: crlf become lf"),
    ],
)
def test_what_the_lines_can_not_show_is_noted(before: bytes, after: bytes, note: str) -> None:
    assert note in unified(before, after).notes


def test_utf_16_is_compared_line_by_line() -> None:
    before, after = ("\ufeffone\ntwo\nthree\n".encode("utf-16-be"), "\ufeffone\nzwei\nthree\n".encode("utf-16-be"))
    assert unified(before, after).as_text() == "@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"


def test_a_megabyte_with_fifty_changes_keeps_them_apart() -> None:
    random.seed(7)
    lines = [f"line {n} {'x' * 40}\n".encode() if n % 3 else b"}\n" for n in range(20_000)]
    changed = list(lines)
    for n in range(200, 20_000, 400):
        changed[n] = b"changed\n"
    diff = unified(b"".join(lines), b"".join(changed))
    assert (len(diff.hunks), diff.added, diff.removed) == (50, 50, 50)


@pytest.mark.parametrize("shape", ["random", "nested", "repetitive"])
def test_hostile_input_is_bounded_in_time(shape: str) -> None:
    generator = random.Random(3)
    if shape == "random":
        old = [generator.choice("ab") for _ in range(20_000)]
        new = [generator.choice("ab") for _ in range(20_000)]
    elif shape == "repetitive":
        old, new = ["a"] * 20_000, ["b", "a"] * 10_000
    else:
        old = [str(min(n, 20_000 - n)) for n in range(20_000)]
        new = [str(min(n, 20_000 - n) + n % 2) for n in range(20_000)]
    started = time.monotonic()
    blocks = align(old, new)
    assert blocks
    assert time.monotonic() - started < 20  # a hang guard: the naive method takes many minutes


@settings(max_examples=30)
@given(st.lists(st.integers(0, 200), min_size=50, max_size=400), st.randoms(use_true_random=False))
def test_few_changes_give_few_lines(old: list[int], generator: random.Random) -> None:
    new = list(old)
    for _ in range(3):
        new[generator.randrange(len(new))] = -1
    blocks = align(old, new)
    assert sum(block.i2 - block.i1 for block in blocks) <= 12


@given(anything, anything)
def test_changes_are_counted_as_they_are_shown(before: bytes, after: bytes) -> None:
    shown = unified(before, after)
    assert count_changes(before, after) == (shown.added, shown.removed)


def test_a_few_changes_in_place_are_found_where_they_are() -> None:
    old = [b"%d\n" % number for number in range(1000)]
    new = list(old)
    new[10:12], new[500], new[999] = [b"x\n", b"y\n"], b"z\n", b"end"
    assert align(old, new) == [(10, 12, 10, 12), (500, 501, 500, 501), (999, 1000, 999, 1000)]
    new[20], new[21] = old[21], b"w\n"  # a line removed and one added close by
    assert (20, 21, 20, 20) in align(old, new)
    assert (22, 22, 21, 22) in align(old, new)


def test_small_changes_apart_in_a_long_file_are_found_one_by_one() -> None:
    old = [b"%d\n" % number for number in range(5000)]
    new = [*old[:1024], b"added\n", *old[1024:3000], *old[3003:4000], b"in place of 4000\n", *old[4001:]]
    assert align(old, new) == [(1024, 1024, 1024, 1025), (3000, 3003, 3001, 3001), (4000, 4001, 3998, 3999)]
    assert align(old, old) == []
    assert align(old, old[:-1]) == [(4999, 5000, 4999, 4999)]
