"""A fresh place for each test."""

from pathlib import Path

import pytest

from tests.e2e.program import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.project.mkdir()
    return place
