"""Token estimates and the implicit cache."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gemcode.simulator.usage import ImplicitCache, count_prompt, count_text, prompt_text


def request(*texts: str, system: str = "be brief") -> dict[str, Any]:
    contents = [{"role": "user", "parts": [{"text": text}]} for text in texts]
    return {"system_instruction": {"parts": [{"text": system}]}, "contents": contents}


def test_four_bytes_are_a_token() -> None:
    assert [count_text(text) for text in ("", "a", "abcd", "abcde", "ööö")] == [0, 1, 1, 2, 2]


def test_media_cost_the_same_whatever_their_size() -> None:
    def blob(size: int) -> dict[str, Any]:
        return {"contents": [{"parts": [{"inline_data": {"mime_type": "image/png", "data": b"x" * size}}]}]}

    assert count_prompt(blob(1)) == count_prompt(blob(1_000_000))


@given(st.lists(st.text(), min_size=1), st.lists(st.text(), min_size=1))
def test_a_longer_history_starts_with_the_bytes_of_the_shorter_one(first: list[str], more: list[str]) -> None:
    assert prompt_text(request(*first, *more)).startswith(prompt_text(request(*first)))


def test_a_repeated_prefix_is_cached_from_the_minimum_on() -> None:
    cache = ImplicitCache()
    long = prompt_text(request("word " * 2000))
    assert cache.hit("m", long, 1000) == 0
    again = cache.hit("m", long + " and more", 1000)
    assert again == len(long) // 4
    assert cache.hit("m", long, len(long)) == 0
    assert cache.hit("another model", long, 1000) == 0


def test_another_system_text_misses() -> None:
    cache = ImplicitCache()
    cache.hit("m", prompt_text(request("word " * 2000, system="a")), 100)
    assert cache.hit("m", prompt_text(request("word " * 2000, system="b")), 100) == 0


@given(st.text(), st.text())
def test_the_cached_part_never_exceeds_the_prompt(first: str, second: str) -> None:
    cache = ImplicitCache()
    cache.hit("m", first, 0)
    hit = cache.hit("m", second, 0)
    assert 0 <= hit <= count_text(second)
