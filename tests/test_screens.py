"""The screens in docs/screens are what the program shows: each is made again and compared.

Numbers may differ (a version, a count of tokens); words, colours and their order may not.
"""

import re
from pathlib import Path

import pytest

from docs.make_screens import ALL, SCREENS

ROOT = Path(__file__).resolve().parent.parent


def spans(picture: str) -> list[tuple[str, str]]:
    """Style and text of everything that is written on the screen."""
    found = re.findall(r'<tspan [^>]*class="([^"]*)">(.*?)</tspan>', picture)
    return [(style, re.sub(r"\d+(?:\.\d+)*k?", "N", text)) for style, text in found]


@pytest.mark.parametrize("name", ALL)
def test_a_screen_is_what_the_program_shows(name: str) -> None:
    kept = (SCREENS / f"{name}.svg").read_text(encoding="utf-8")
    assert spans(ALL[name]()) == spans(kept), "make them again with: python -m docs.make_screens"


def test_every_screen_is_made_by_the_script_and_shown_on_a_page() -> None:
    assert {path.stem for path in SCREENS.glob("*")} == set(ALL)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in ALL if f"screens/{name}.svg" not in text] == []
