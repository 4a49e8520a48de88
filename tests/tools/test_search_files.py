import json
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.bounds import Bounds
from gemcode.tools.search_files import SearchFilesArguments, search_files
from gemcode.workspace import osfs
from tests.tools.bench import ToolBench, open_bench


def test_matches_have_paths_lines_and_text(tools: ToolBench) -> None:
    tools.put("a.py", "def f():\n    return round(1)\n")
    tools.put("b.py", "round(2)\n")
    assert tools.output("search_files", pattern=r"round\(\d\)") == {
        "matches": [
            {"path": "a.py", "line": 2, "text": "    return round(1)"},
            {"path": "b.py", "line": 1, "text": "round(2)"},
        ],
        "files_searched": 2,
    }


def test_a_literal_is_taken_as_it_is(tools: ToolBench) -> None:
    tools.put("a.txt", "a.b\naxb\n(\n")
    assert [match["line"] for match in tools.output("search_files", pattern="a.b", literal=True)["matches"]] == [1]
    assert [match["line"] for match in tools.output("search_files", pattern="(", literal=True)["matches"]] == [3]


def test_case_context_glob_and_path(tools: ToolBench) -> None:
    tools.put("src/a.txt", "one\nTwo\nthree\n")
    tools.put("src/b.md", "two\n")
    found = tools.output("search_files", pattern="two", ignore_case=True, context=1, glob="*.txt", path="src")[
        "matches"
    ]
    assert found == [{"path": "src/a.txt", "line": 2, "text": "Two", "before": ["one"], "after": ["three"]}]
    assert tools.output("search_files", pattern="two", path="src/b.md")["files_searched"] == 1


@pytest.mark.parametrize("pattern", ["^two$", r"\Atwo\z", "two$", "^t", r"\bwo?|two"])
def test_anchors_mean_the_line(tools: ToolBench, pattern: str) -> None:
    tools.put("a.txt", "one\ntwo\nthree two\n")
    lines = [match["line"] for match in tools.output("search_files", pattern=pattern)["matches"]]
    assert 2 in lines


def test_crlf_and_latin_1_lines_are_found(tools: ToolBench) -> None:
    tools.put("a.txt", "gr\u00fcn\r\nblau\r\n".encode("latin-1"))
    assert tools.output("search_files", pattern="^gr\u00fcn$")["matches"][0]["line"] == 1


def test_ignored_binary_and_secret_files_are_left_out(tools: ToolBench) -> None:
    tools.put(".gitignore", "*.log\n")
    tools.put("a.log", "needle\n")
    tools.put("b.bin", b"needle\0\0")
    tools.put(".env", "needle\n")
    output = tools.output("search_files", pattern="needle")
    assert output["matches"] == []
    assert any("secrets" in note for note in output["notes"])


def test_a_bad_pattern_is_explained(tools: ToolBench) -> None:
    error = tools.error("search_files", pattern="(")
    assert error["type"] == "invalid_pattern" and "literal=true" in error["message"]


def test_no_pattern_is_catastrophic(tools: ToolBench) -> None:
    tools.put("a.txt", "a" * 100_000 + "\n")
    started = time.monotonic()
    assert tools.output("search_files", pattern=r"(a+)+$|(a|aa)+b")["files_searched"] == 1
    assert time.monotonic() - started < 20


@pytest.mark.timeout(60)  # 20 s a MiB otherwise
def test_a_pattern_that_costs_its_length_at_each_letter_is_stopped_or_refused(tmp_path: Path) -> None:
    source = random.Random(1)
    text = "\n".join("".join(source.choices("ab", k=1_000)) for _ in range(4_000))
    parts = ["".join(source.choices("ab", k=8)) + "[ab]{20}c" + str(number) for number in range(2_000)]
    with open_bench(tmp_path, Bounds(read_bytes=8 << 20, search_seconds=0.1)) as tools:
        tools.put("a.txt", text)
        assert tools.error("search_files", pattern="|".join(parts))["type"] == "invalid_pattern"
        notes = tools.output("search_files", pattern="|".join(parts[:50]))["notes"]
        assert "Stopped after 0.1 s" in notes[0]


@given(st.lists(st.sampled_from(["x", "needle", "", "a" * 70_000]), max_size=12), st.booleans())
def test_matches_are_the_same_wherever_a_block_of_lines_ends(lines: list[str], ended: bool) -> None:
    with TemporaryDirectory() as place, open_bench(Path(place), Bounds(search_seconds=25)) as tools:
        tools.put("a.txt", "\n".join(lines) + "\n" * ended)
        found = tools.output("search_files", pattern="^needle$|^x$")["matches"]
        assert [match["line"] for match in found] == [n for n, line in enumerate(lines, 1) if line in ("needle", "x")]


def test_a_file_that_becomes_a_link_to_a_secret_is_not_searched(tools: ToolBench) -> None:
    tools.put("a.txt", "harmless\n")
    tools.put(".env", "KEY=needle\n")

    seen: set[str] = set()

    def swap(operation: str) -> None:
        seen.add(operation)
        if operation in ("open", "openat2") and "scandir" in seen:  # the walk has seen a file, and now it is opened
            (tools.project / "a.txt").unlink(missing_ok=True)
            (tools.project / "a.txt").symlink_to(".env")

    arguments = SearchFilesArguments(pattern="needle")
    with osfs.inject(swap):
        output = search_files(tools.bench).run(arguments, None).value
    assert "needle" not in json.dumps(output)


def test_results_are_bounded_and_say_so(tmp_path: Path) -> None:
    with open_bench(tmp_path, Bounds(search_matches=5)) as tools:
        tools.put("a.txt", "x\n" * 50)
        output = tools.output("search_files", pattern="x")
        assert (len(output["matches"]), output["more"]) == (5, True)
        assert "Narrow" in output["notes"][0]


@pytest.mark.parametrize("bounds", [Bounds(search_files=2), Bounds(search_bytes=10), Bounds(search_seconds=0.000001)])
def test_the_search_stops_at_its_limits(tmp_path: Path, bounds: Bounds) -> None:
    with open_bench(tmp_path, bounds) as tools:
        for number in range(5):
            tools.put(f"f{number}", "nothing here\n")
        output = tools.output("search_files", pattern="needle")
        assert output["files_searched"] < 5
        assert "Stopped after" in output["notes"][0]


def test_large_files_are_skipped_with_a_note(tmp_path: Path) -> None:
    with open_bench(tmp_path, Bounds(read_bytes=100)) as tools:
        tools.put("big", "needle\n" * 50)
        output = tools.output("search_files", pattern="needle")
        assert (output["matches"], output["files_searched"]) == ([], 0)
        assert "over 100 bytes" in output["notes"][0]


def test_a_missing_place_is_an_error(tools: ToolBench) -> None:
    assert tools.error("search_files", pattern="x", path="nowhere")["type"] == "not_found"
