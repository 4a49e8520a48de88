"""SECURITY.md: ten numbered promises, each with its limits and with tests that are there."""

import re
from pathlib import Path

from gemcode.audit import ROTATE_BYTES
from gemcode.config import Settings
from gemcode.workspace.retention import Limits

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def promises() -> dict[str, str]:
    section = PAGE.split("## The promises")[1].split("\n## ")[0]
    return {part.split(".")[0]: part for part in re.split(r"\n\*\*(?=N\d+\.)", section)[1:]}


def test_there_are_ten_promises_each_with_limits_and_tests() -> None:
    assert list(promises()) == [f"N{number}" for number in range(1, 11)]
    for text in promises().values():
        assert "*Limits:*" in text and "*Tests:*" in text


def test_every_test_that_it_names_exists_and_tests_something() -> None:
    named = {path for text in promises().values() for path in re.findall(r"`(tests/[\w/]+\.py)`", text)}
    named |= set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))
    assert len(named) > 25
    for path in named:
        assert re.search(r"^def test_", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), path


def test_every_promise_names_tests() -> None:
    for number, text in promises().items():
        assert re.search(r"`tests/[\w/]+\.py`", text.split("*Tests:*")[1]), number


def test_the_times_and_sizes_that_it_names_are_those_of_the_code() -> None:
    limits = Limits()
    assert (limits.days, limits.versions, limits.project_bytes >> 30, limits.total_bytes >> 30) == (30, 200, 1, 5)
    assert "30 days, 200 versions a file, 1 GiB a project, 5 GiB in all" in PAGE
    assert ROTATE_BYTES == 32 << 20 and "every 32 MiB" in PAGE
    assert Settings.__dataclass_fields__["session_days"].default == 90 and "90 days without use" in PAGE
