import pytest

from gemcode.agent.errors import UsageError
from gemcode.agent.messages import Blob, Text
from gemcode.tools.mentions import expand
from tests.tools.bench import ToolBench


def test_a_file_goes_along_and_counts_as_read(tools: ToolBench) -> None:
    tools.put("src/a.py", "x = 1\n")
    message = expand("explain @src/a.py, please", tools.bench)
    assert message.parts[0] == Text("explain @src/a.py, please")
    assert "x = 1\n" in message.text
    assert tools.output("write_file", path="src/a.py", content="x = 2\n")


def test_a_directory_gives_its_listing(tools: ToolBench) -> None:
    tools.put("src/a.py", "x")
    assert "src/a.py" in expand("what is in @src?", tools.bench).text


def test_a_quoted_name_may_have_blanks(tools: ToolBench) -> None:
    tools.put("my file.txt", "hello\n")
    assert "hello" in expand('see @"my file.txt"', tools.bench).text


def test_an_image_goes_along_as_an_image(tools: ToolBench) -> None:
    tools.put("a.png", b"\x89PNG\r\n\x1a\n\0")
    assert expand("see @a.png", tools.bench).parts[1] == Blob("image/png", b"\x89PNG\r\n\x1a\n\0")


def test_a_missing_one_names_the_nearest(tools: ToolBench) -> None:
    tools.put("docs/apis.md", "x")
    with pytest.raises(UsageError) as caught:
        expand("see @docs/api.md", tools.bench)
    assert caught.value.message == "@docs/api.md does not exist."
    assert caught.value.hint == "Did you mean @docs/apis.md?"


@pytest.mark.parametrize("prompt", ["mail me@example.com", r"what is \@property?", "a @ b", "no mention"])
def test_other_at_signs_are_left_alone(tools: ToolBench, prompt: str) -> None:
    assert expand(prompt, tools.bench).parts == (Text(prompt.replace("\\@", "@")),)


def test_what_can_not_be_read_is_said(tools: ToolBench) -> None:
    tools.put("a.bin", b"\0\0")
    for path in ("a.bin", "../out", ".git/config"):
        with pytest.raises(UsageError):
            expand(f"see @{path}", tools.bench)


def test_each_attachment_is_told_with_its_size(tools: ToolBench) -> None:
    tools.put("src/a.py", "x = 1\n")
    tools.put("a.png", b"\x89PNG\r\n\x1a\n\0")
    told: list[str] = []
    expand("compare @src/a.py with @src and @a.png", tools.bench, told.append)
    assert told == ["@src/a.py: lines 1-1 of 1, 6 bytes", "@src: a listing of 1 file", "@a.png: PNG image, 9 bytes"]


def test_a_secret_goes_along_only_under_its_own_name(tools: ToolBench) -> None:
    tools.put(".env", "KEY=1\n")
    (tools.project / "notes.txt").symlink_to(".env")
    assert "KEY=1" in str(expand("see @.env", tools.bench).parts)
    assert "KEY=1" in str(expand("see @./.env", tools.bench).parts)
    with pytest.raises(UsageError, match=r"link to \.env, which may hold secrets"):
        expand("see @notes.txt", tools.bench)
