import os
from pathlib import Path

from gemcode.agent.bounds import Bounds
from tests.tools.bench import ToolBench, open_bench


def test_files_are_sorted_and_ignored_ones_left_out(tools: ToolBench) -> None:
    for path in ("b.py", "a/c.py", "a/d.log", "build/x", ".git/config"):
        tools.put(path, "x")
    tools.put(".gitignore", "*.log\nbuild/\n")
    assert tools.output("list_files")["files"] == [".gitignore", "a/c.py", "b.py"]


def test_a_pattern_and_a_directory_narrow_it(tools: ToolBench) -> None:
    for path in ("a.py", "src/b.py", "src/c.txt", "src/deep/d.py"):
        tools.put(path, "x")
    assert tools.output("list_files", pattern="*.py")["files"] == ["a.py", "src/b.py", "src/deep/d.py"]
    assert tools.output("list_files", path="src", pattern="*.txt")["files"] == ["src/c.txt"]


def test_pages_add_up_to_the_whole(tmp_path: Path) -> None:
    with open_bench(tmp_path, Bounds(list_entries=7)) as tools:
        wanted = sorted(f"d{n % 3}/file{n:02}" for n in range(20))
        for path in wanted:
            tools.put(path, "x")
        found: list[str] = []
        after = None
        while True:
            output = tools.output("list_files", after=after)
            found += output["files"]
            after = output.get("next")
            if after is None:
                break
            assert output["more"] is True
        assert found == wanted


def test_a_page_is_also_bounded_in_bytes(tmp_path: Path) -> None:
    with open_bench(tmp_path, Bounds(shown_bytes=200)) as tools:
        wanted = [f"{'x' * 60}{n}" for n in range(9)]
        for path in wanted:
            tools.put(path, "x")
        first = tools.output("list_files")
        assert (first["files"], first["more"]) == (wanted[:3], True)
        assert tools.output("list_files", after=first["next"])["files"] == wanted[3:6]


def test_links_are_listed_as_links_and_not_followed(tools: ToolBench) -> None:
    tools.put("a.txt", "x")
    os.symlink("/etc", tools.project / "out")
    output = tools.output("list_files")
    assert (output["files"], output["links"]) == (["a.txt", "out"], ["out"])


def test_a_missing_directory_is_said(tools: ToolBench) -> None:
    assert tools.error("list_files", path="nowhere")["type"] == "not_found"
    assert tools.error("list_files", path="..")["type"] == "outside_project"
