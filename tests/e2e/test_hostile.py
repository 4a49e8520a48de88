"""A project that tries to take over: its settings, modules, links and pipes decide nothing; the key stays secret."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import COMMAND, KEY, Place, Result, call, calls, says

SECRET = "the text outside of the project"
TRAPS = ("json", "typing", "signal", "ssl", "dataclasses", "pydantic", "httpx2", "google", "typer")
SETTINGS = {
    "base_url": 'base_url = "https://evil.invalid"',
    "api_key": 'api_key = "AIza-of-somebody-else"',
    "proxy": 'proxy = "http://127.0.0.1:9"',
    "approve": 'approve = "all"',
    "allow": 'allow = ["write_file"]',
    "command": 'command = "rm -rf ."',
    "state_home": 'state_home = "."',
    "model": 'model = "gemini-4-argon"',
    "max_cost": "max_cost = 1000000",
    "unheard_of": "unheard_of = true",
}


@pytest.fixture
def outside(place: Place) -> Path:
    """A directory beside the project, with a file that must stay as it is and unseen."""
    directory = place.base / "outside"
    directory.mkdir()
    (directory / "secret.txt").write_text(f"{SECRET}\n")
    return directory


def outputs(result: Result, number: int = 2) -> list[dict[str, Any]]:
    return [each["response"] for each in result.results(number)]


def sent(result: Result) -> str:
    """All that went to the service."""
    return "".join(str(request.body) for request in result.requests)


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_the_project_are_ignored_with_a_warning(place: Place, name: str) -> None:
    place.write(".gemcode.toml", SETTINGS[name] + "\n")
    before = place.files()
    replies = [calls(call("write_file", path="new.txt", content="x\n")), says("Not written.")]
    result = place.ask("write", "-o", "stream-json", replies=replies)
    assert result.code == 5
    assert [request.model for request in result.requests] == ["gemini-3.8-flash"] * 2
    warnings = [event["text"] for event in result.events if event["type"] == "notice"]
    assert any(".gemcode.toml" in text and name in text for text in warnings)
    assert place.files() == before
    assert (place.home / "state").is_dir()


def test_a_project_may_lower_a_limit_but_not_raise_it(place: Place) -> None:
    place.write(
        ".gemcode.toml", "[limits]\nread_bytes = 10\nwrite_bytes = 8388608\ncalls_per_turn = -1\nnonsense = 1\n"
    )
    place.write("long.txt", "longer than ten bytes\n")
    result = place.ask("read", replies=[calls(call("read_file", path="long.txt")), says("Too long.")])
    assert outputs(result)[0]["error"]["type"] == "too_large"
    for name in ("write_bytes", "calls_per_turn", "nonsense"):
        assert name in result.stderr
    assert "read_bytes" not in result.stderr


@pytest.mark.parametrize(
    "content", [b"not = = toml", b"\xff\xfe\x00", b"x" * 100_000], ids=["broken", "binary", "huge"]
)
def test_settings_that_are_none_are_told_and_ignored(place: Place, content: bytes) -> None:
    place.write(".gemcode.toml", content)
    result = place.ask("hi", replies=[says("Hello.")])
    assert (result.code, result.stdout) == (0, "Hello.\n")
    assert ".gemcode.toml" in result.stderr


def test_settings_behind_a_link_are_not_read(place: Place, outside: Path) -> None:
    (outside / "settings.toml").write_text("[limits]\nread_bytes = 1\n")
    (place.project / ".gemcode.toml").symlink_to(outside / "settings.toml")
    place.write("a.txt", "text\n")
    result = place.ask("read", replies=[calls(call("read_file", path="a.txt")), says("Read.")])
    assert "output" in outputs(result)[0]


@pytest.mark.parametrize("how", ["console script", "module"])
def test_modules_of_the_project_are_not_imported(place: Place, how: str) -> None:
    """All but what the interpreter and the installer's script load before gemcode has a say (such as enum and re)."""
    for name in TRAPS:
        place.write(f"{name}.py", f"open({str(place.base / 'trapped')!r}, 'a').write({name!r} + ' ')\n")
    script = Path(sys.executable).parent / "gemcode"
    if how == "console script" and not script.exists():
        pytest.skip("gemcode is not installed as a script here")
    command = (str(script),) if how == "console script" else COMMAND
    for path in (".", str(place.project), "", f":{place.project}"):
        result = place.ask("hi", replies=[says("Hello.")], env={"PYTHONPATH": path}, command=command)
        assert (result.code, result.stdout) == (0, "Hello.\n")
    assert not (place.base / "trapped").exists()


def test_programs_of_the_environment_are_not_run_unasked(place: Place) -> None:
    trap = place.write("trap.sh", f"#!/bin/sh\necho ran >> {place.base / 'trapped'}\n")
    trap.chmod(0o755)
    place.write("a.txt", "one\n")
    names = ("PAGER", "GIT_PAGER", "EDITOR", "VISUAL", "BROWSER", "GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "SHELL")
    env = dict.fromkeys(names, str(trap))
    replies = [
        calls(call("read_file", path="a.txt")),
        calls(call("write_file", path="a.txt", content="two\n")),
        says("."),
    ]
    assert place.ask("write", "-y", replies=replies, env=env).code == 0
    for arguments in (("history", "--diff"), ("audit",), ("doctor",), ("undo", "--yes"), ("models",)):
        assert place.run(*arguments, env=env).code == 0
    assert not (place.base / "trapped").exists()


def test_a_dot_env_file_is_not_loaded(place: Place) -> None:
    lines = ("GEMINI_API_KEY=AIza-from-dot-env", "GOOGLE_API_KEY=AIza-from-dot-env", "GEMCODE_MODEL=gemini-4-argon")
    place.write(
        ".env", "\n".join([*lines, "HTTPS_PROXY=http://127.0.0.1:9", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:9"])
    )
    result = place.ask("hi", env={"GEMINI_API_KEY": None})
    assert (result.code, result.stdout) == (2, "")
    assert "No API key" in result.stderr
    result = place.ask("hi", "-o", "json", replies=[says("Hello.")])
    assert (result.code, result.json["model"]) == (0, "gemini-3.8-flash")


@pytest.mark.parametrize("mode", ["none", "ask", "edits"])
def test_a_file_of_secrets_is_not_read_unasked(place: Place, mode: str) -> None:
    place.write(".env", f"TOKEN={SECRET}\n")
    wanted = [call("read_file", path=".env"), call("search_files", pattern="TOKEN")]
    result = place.ask("look", "--approve", mode, replies=[calls(*wanted), says("Nothing.")])
    assert outputs(result)[0]["error"]["type"] == "denied"
    assert SECRET not in sent(result)


def test_another_endpoint_is_shown_at_start(place: Place) -> None:
    result = place.ask("hi", replies=[says("Hello.")])
    assert "endpoint: http://127.0.0.1:" in result.stderr
    assert "GOOGLE_GEMINI_BASE_URL" in result.stderr


def test_long_instructions_are_cut_and_said(place: Place) -> None:
    place.write("AGENTS.md", "Use tabs.\n" + "blah blah blah\n" * 10_000 + "THE END\n")
    result = place.ask("hi", replies=[says("Hello.")])
    assert (result.code, result.stdout) == (0, "Hello.\n")
    instruction = result.requests[0].body["systemInstruction"]["parts"][0]["text"]
    assert "Use tabs." in instruction
    assert "THE END" not in instruction
    assert len(instruction) < 20_000
    assert "AGENTS.md" in result.stderr


def test_instructions_go_along_and_gemini_md_stands_in(place: Place) -> None:
    place.write("GEMINI.md", "Say please.\n")
    assert "Say please." in sent(place.ask("hi", replies=[says("Hello.")]))
    place.write("AGENTS.md", "Say thanks.\n")
    both = sent(place.ask("hi", replies=[says("Hello.")]))
    assert "Say thanks." in both
    assert "Say please." not in both


def test_instructions_behind_a_link_out_are_not_sent(place: Place, outside: Path) -> None:
    (place.project / "AGENTS.md").symlink_to(outside / "secret.txt")
    result = place.ask("hi", replies=[says("Hello.")])
    assert result.code == 0
    assert SECRET not in sent(result)


@pytest.mark.parametrize("name", ["AGENTS.md", ".gemcode.toml", ".gitignore", "pipe.txt"])
def test_a_pipe_in_place_of_a_file_does_not_hold_it_up(place: Place, name: str) -> None:
    os.mkfifo(place.project / name)
    place.write("sub/a.txt", "one\n")
    wanted = [call("list_files"), call("read_file", path=name), call("search_files", pattern="one")]
    result = place.ask("look", replies=[calls(*wanted), says("Done.")])
    assert (result.code, result.stdout) == (0, "Done.\n")
    listed, read, searched = outputs(result)
    assert "sub/a.txt" in listed["output"]["files"]
    assert "error" in read
    assert [match["path"] for match in searched["output"]["matches"]] == ["sub/a.txt"]


def test_links_that_lead_out_are_neither_read_nor_written_nor_followed(place: Place, outside: Path) -> None:
    (place.project / "file").symlink_to(outside / "secret.txt")
    (place.project / "dir").symlink_to(outside)
    (place.project / "up").symlink_to("..")
    (place.project / "root").symlink_to("/proc/self/root")
    wanted = [
        call("read_file", path="file"),
        call("read_file", path="dir/secret.txt"),
        call("read_file", path="up/outside/secret.txt"),
        call("read_file", path=f"root{outside}/secret.txt"),
        call("read_file", path=str(outside / "secret.txt")),
        call("read_file", path="../outside/secret.txt"),
        call("list_files", path="dir"),
        call("search_files", pattern="outside", path="dir"),
        call("write_file", path="file", content="gone"),
        call("write_file", path="dir/new.txt", content="gone"),
        call("write_file", path="up/new.txt", content="gone"),
        call("edit_file", path="file", edits=[{"old": "the", "new": "gone"}]),
    ]
    replies = [calls(*wanted), calls(call("search_files", pattern="text"), call("list_files")), says("Refused.")]
    result = place.ask("escape", "--approve", "all", replies=replies)
    assert result.code == 5
    assert ["error" in response for response in outputs(result)] == [True] * len(wanted)
    assert SECRET not in sent(result)
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == f"{SECRET}\n"
    assert sorted(path.name for path in place.base.iterdir()) == ["home", "outside", "project", "stderr.txt"]


def test_a_mention_of_a_link_that_leads_out_is_a_mistake(place: Place, outside: Path) -> None:
    (place.project / "notes.txt").symlink_to(outside / "secret.txt")
    result = place.ask("see @notes.txt")
    assert (result.code, result.stdout, result.requests) == (2, "", ())


@pytest.mark.parametrize("path", [".git/config", ".git/hooks/pre-commit", ".GIT/config", "sub/.git/x", ".gemcode.toml"])
def test_protected_names_stay_closed_even_with_approve_all(place: Place, path: str) -> None:
    place.write(".git/config", f"[user]\nname = {SECRET}\n")
    before = place.files()
    wanted = [
        call("read_file", path=path),
        call("write_file", path=path, content="x\n"),
        call("list_files", path=".git"),
    ]
    result = place.ask("look", "--approve", "all", replies=[calls(*wanted), says("Closed.")])
    assert result.code == 5
    assert ["error" in response for response in outputs(result)] == [True, True, True]
    assert SECRET not in sent(result)
    assert place.files() == before


def test_escape_sequences_in_names_and_errors_reach_no_terminal(place: Place) -> None:
    name = "a\x1b]0;title\x07\u202etxt.exe"
    place.write(name, "x\n")
    message = "no \x1b[2J\x9b31m\u202e luck"
    replies = [
        calls(call("read_file", path=name), call(f"read\x1b[2J{name}", path="x"), call("list_files", path="\x1b[31m")),
        {"http_error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}},
    ]
    result = place.ask("look", "-v", replies=replies)
    assert result.code == 1
    assert "luck" in result.stderr
    for character in ("\x1b", "\x07", "\x9b", "\u202e"):
        assert character not in result.stderr


def test_the_key_is_not_shown_even_if_the_service_repeats_it(place: Place) -> None:
    """The driver looks for the key on the streams and below the state directory after every run."""
    error = {"code": 403, "status": "PERMISSION_DENIED", "message": f"The key {KEY} may not do that."}
    for flags in ((), ("-v",), ("-o", "json"), ("-o", "stream-json"), ("-v", "-o", "json")):
        result = place.ask("hi", *flags, replies=[{"http_error": error}])
        assert result.code == 2
        assert "may not do that" in result.stdout + result.stderr


def test_the_key_is_not_in_a_recording(place: Place) -> None:
    target = place.base / "recorded.json"
    replies = [calls(call("list_files")), says("Nothing here.")]
    result = place.ask("look", "-v", "--record", str(target), replies=replies)
    assert result.code == 0
    assert "Nothing here." in target.read_text()
    assert KEY not in target.read_text()


def test_the_key_does_not_reach_another_origin(place: Place) -> None:
    with place.started(replies=[says("Never.")]) as other:  # only for its server
        other.child.kill()
        redirect = says(
            "x", fault={"kind": "redirect", "location": f"{other.simulator.url}/v1/models"}, repeat="forever"
        )
        result = place.ask("hi", replies=[redirect])
        assert result.code == 1
        assert other.simulator.requests == []


@pytest.mark.parametrize("arguments", [("doctor",), ("models",), ("tools", "--json"), ("history",), ("audit",)])
def test_the_key_is_masked_everywhere_else(place: Place, arguments: tuple[str, ...]) -> None:
    result = place.run(*arguments)
    assert result.code == 0
    if arguments == ("doctor",):
        assert KEY[-4:] in result.stdout


def test_a_state_directory_that_others_can_write_is_not_trusted(place: Place) -> None:
    state = place.home / "state"
    state.mkdir(parents=True)
    state.chmod(0o777)
    result = place.ask("hi", replies=[says("Hello.")])
    assert result.code == 2 or not state.stat().st_mode & 0o077


def test_a_state_directory_that_is_a_link_is_not_followed(place: Place, outside: Path) -> None:
    place.home.mkdir()
    (place.home / "state").symlink_to(outside)
    result = place.ask("hi", replies=[says("Hello.")])
    assert result.code == 2
    assert "state" in result.stderr
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


@pytest.mark.parametrize("name", ["AGENTS.md", "GEMINI.md"])
def test_instructions_that_are_a_link_to_a_secret_are_not_passed_on(place: Place, name: str) -> None:
    place.write(".env", f"TOKEN={SECRET}\n")
    (place.project / name).symlink_to(".env")
    result = place.ask("hi", replies=[says("Hello.")])
    assert (result.code, result.stdout) == (0, "Hello.\n")
    assert SECRET not in sent(result)


def test_where_the_project_holds_gemcodes_own_directories_no_tool_gets_into_them(place: Place) -> None:
    """As for a home directory, which holds the settings and the backups."""
    config = place.project / "own" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("")
    replies = [
        calls(
            call("write_file", path="own/config/config.toml", content='base_url = "https://evil.invalid"\n'),
            call("write_file", path="own/config/new/x", content="x"),
            call("read_file", path="own/config/config.toml"),
            call("list_files", path="own/state"),
            call("list_files"),
        ),
        says("Nothing."),
    ]
    environment = {"GEMCODE_HOME": str(place.project / "own")}
    result = place.ask("take over", "--approve", "all", replies=replies, env=environment)
    *refused, listed = outputs(result)
    assert all("belongs to gemcode" in each["error"]["message"] for each in refused)
    assert listed["output"]["files"] == []
    assert config.read_text() == ""
