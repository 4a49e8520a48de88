import os
from pathlib import Path

from gemcode.agent.bounds import Bounds
from gemcode.agent.tool import ApprovalRequest, Approved, Declined, SecretRead
from tests.tools.bench import ToolBench, open_bench


def test_a_text_comes_with_its_lines_encoding_and_line_ends(tools: ToolBench) -> None:
    tools.put("a.txt", "one\r\ntwo\r\n")
    assert tools.output("read_file", path="a.txt") == {
        "content": "one\ntwo\n",
        "first_line": 1,
        "last_line": 2,
        "total_lines": 2,
        "encoding": "utf-8",
        "line_ends": "crlf",
    }


def test_a_span_of_lines_is_exactly_that(tools: ToolBench) -> None:
    tools.put("a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    output = tools.output("read_file", path="a.txt", start_line=3, end_line=4)
    assert (output["content"], output["first_line"], output["last_line"], output["total_lines"]) == (
        "line 3\nline 4\n",
        3,
        4,
        10,
    )


def test_a_long_file_comes_in_parts_that_say_how_to_go_on(tmp_path: Path) -> None:
    with open_bench(tmp_path, Bounds(shown_bytes=100)) as tools:
        tools.put("a.txt", "".join(f"line number {n}\n" for n in range(1, 51)))
        text, start = "", 1
        while True:
            output = tools.output("read_file", path="a.txt", start_line=start)
            text += output["content"]
            if output["last_line"] == output["total_lines"]:
                break
            assert f"start_line={output['last_line'] + 1}" in output["notes"][0]
            start = output["last_line"] + 1
        assert text.encode() == (tools.project / "a.txt").read_bytes()


def test_a_missing_final_line_end_is_told(tools: ToolBench) -> None:
    tools.put("a.txt", "one")
    assert tools.output("read_file", path="a.txt")["notes"] == ["no line end after the last line"]


def test_an_empty_file_is_an_empty_text(tools: ToolBench) -> None:
    tools.put("a.txt", "")
    output = tools.output("read_file", path="a.txt")
    assert (output["content"], output["total_lines"]) == ("", 0)


def test_a_binary_file_is_named_not_shown(tools: ToolBench) -> None:
    tools.put("a.png", b"\x89PNG\r\n\x1a\n\0\0")
    assert tools.output("read_file", path="a.png") == {"binary": "PNG image", "size": 10}


def test_latin_1_is_read_and_said(tools: ToolBench) -> None:
    tools.put("a.txt", "gr\u00fc\u00df dich\n".encode("latin-1"))
    output = tools.output("read_file", path="a.txt")
    assert (output["content"], output["encoding"]) == ("gr\u00fc\u00df dich\n", "latin-1")


def test_a_file_over_the_limit_is_refused_by_size(tmp_path: Path) -> None:
    with open_bench(tmp_path, Bounds(read_bytes=10)) as tools:
        tools.put("fits", b"x" * 10)
        tools.put("over", b"x" * 11)
        assert tools.output("read_file", path="fits")["content"] == "x" * 10
        assert tools.error("read_file", path="over")["type"] == "too_large"


def test_a_secret_is_asked_for_and_declined_is_declined(tools: ToolBench) -> None:
    tools.put(".env", "KEY=1\n")
    tools.answer = Declined("no")
    assert tools.error("read_file", path=".env")["type"] == "denied"
    assert isinstance(tools.asked[0].preview, SecretRead)
    tools.answer = None
    assert tools.output("read_file", path=".env")["content"] == "KEY=1\n"


def test_a_link_to_a_secret_is_as_secret(tools: ToolBench) -> None:
    tools.put(".env", "KEY=1\n")
    os.symlink(".env", tools.project / "notes.txt")
    tools.answer = Declined()
    assert tools.error("read_file", path="notes.txt")["type"] == "denied"


def test_a_link_that_becomes_a_secret_after_the_question_is_refused(tools: ToolBench) -> None:
    tools.put(".env", "KEY=1\n")
    tools.put("plain.txt", "nothing\n")
    link = tools.project / "notes.txt"
    os.symlink("plain.txt", link)
    tool = tools.registry.load()["read_file"]
    original = tool.preview

    def swap_after(arguments: object) -> object:
        seen = original(arguments)
        link.unlink()
        os.symlink(".env", link)
        return seen

    object.__setattr__(tool, "preview", swap_after)
    assert tools.error("read_file", path="notes.txt")["type"] == "stale"


def test_a_yes_to_one_secret_is_not_a_yes_to_another(tools: ToolBench) -> None:
    tools.put(".env", "KEY=1\n")
    tools.put(".env.test", "nothing\n")
    link = tools.project / "notes.txt"
    link.symlink_to(".env.test")

    def swap(request: ApprovalRequest) -> Approved:
        link.unlink()
        link.symlink_to(".env")
        return Approved(request.preview)

    tools.answer = swap
    assert tools.error("read_file", path="notes.txt")["type"] == "stale"
    assert tools.asked[0].preview == SecretRead(".env.test", "may hold secrets")


def test_a_path_out_of_the_project_is_refused(tools: ToolBench) -> None:
    for path in ("../x", "/etc/passwd", ".git/config"):
        assert tools.error("read_file", path=path)["type"] in ("outside_project", "protected")


def test_a_hard_linked_file_is_read_with_a_note(tools: ToolBench) -> None:
    first = tools.put("a.txt", "x\n")
    os.link(first, tools.project / "b.txt")
    assert "hard link" in tools.output("read_file", path="a.txt")["notes"][0]


def test_wrong_lines_are_answered_with_the_right_ones(tools: ToolBench) -> None:
    tools.put("a.txt", "one\n")
    assert tools.error("read_file", path="a.txt", start_line=5)["total"] == 1
    for wrong in (0, 1.5, "1", True):
        assert tools.error("read_file", path="a.txt", start_line=wrong)["type"] == "invalid_arguments"
    assert tools.output("read_file", path="a.txt", start_line=1.0, end_line=None)["last_line"] == 1
