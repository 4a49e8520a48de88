"""The globs of the tools: what they match, and what they refuse."""

import pytest

from gemcode.agent.errors import ToolError
from gemcode.workspace.wildmatch import compile_glob


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "deep/er/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/b/c/a.py", True),
        ("**/*.py", "a.py", True),
        ("**", "a/b", True),
        ("./a.py", "a.py", True),
        ("./a.py", "b/a.py", False),
        ("/a.py", "a.py", True),
        ("/a.py", "b/a.py", False),
        ("src/", "src/a/b.py", True),
        ("src/", "other/b.py", False),
        (".hidden", ".hidden", True),
        ("*.{ts,tsx}", "a/b.tsx", True),
        ("*.{ts,tsx}", "a/b.js", False),
        ("{a,b{c,d}}.py", "bd.py", True),
        ("{a,b{c,d}}.py", "b.py", False),
        ("{a}.py", "{a}.py", True),
        ("a}.{b", "a}.{b", True),
        ("?.py", "é.py", False),  # bytes, as in git
        ("??.py", "é.py", True),
        ("[a-c].py", "b.py", True),
        ("caf*", "caf\udce9.txt", True),
    ],
)
def test_a_glob_matches(pattern: str, path: str, expected: bool) -> None:
    assert compile_glob(pattern)(path) == expected


@pytest.mark.parametrize("pattern", ["", "x" * 1025, "[a", "a\\", "{a,b}" * 7, "lone\ud800"])
def test_a_glob_that_can_not_work_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError) as caught:
        compile_glob(pattern)
    assert caught.value.kind == "invalid_path"


def test_a_glob_that_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemcode.workspace.wildmatch._MEMORY", 100)
    with pytest.raises(ToolError, match="too complex"):
        compile_glob("*a*b*c*")
