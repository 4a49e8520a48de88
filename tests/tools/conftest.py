from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.bench import ToolBench, open_bench


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[ToolBench]:
    with open_bench(tmp_path) as bench:
        yield bench
