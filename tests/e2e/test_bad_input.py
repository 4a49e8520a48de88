"""What a user gets wrong: one sentence, one hint, exit 2, nothing on stdout (one object in json), no request."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.e2e.program import CLOSED, KEY, Place, says


@dataclass(frozen=True)
class Mistake:
    """What was typed, and what must be said of it: words of the sentence and of the hint."""

    arguments: tuple[str, ...]
    sentence: str
    hint: str
    env: Mapping[str, str | None] = field(default_factory=dict)
    stdin: int | bytes = subprocess.DEVNULL


URL = "GOOGLE_GEMINI_BASE_URL"
MISTAKES = {
    "no key": Mistake(("hi",), "No API key", "GEMINI_API_KEY", {"GEMINI_API_KEY": None}),
    "an empty key": Mistake(("hi",), "No API key", "GEMINI_API_KEY", {"GEMINI_API_KEY": " "}),
    "not a directory": Mistake(("hi", "-C", "file.txt"), "not a directory", "-C"),
    "missing directory": Mistake(("hi", "-C", "nowhere"), "does not exist", "-C"),
    "no prompt": Mistake((), "prompt is empty", "gemcode ask"),
    "an empty prompt": Mistake(("",), "prompt is empty", "gemcode ask"),
    "a blank prompt": Mistake((" \t",), "prompt is empty", "gemcode ask"),
    "a dash and nothing piped": Mistake(("-",), "prompt is empty", "gemcode ask", stdin=b" \n"),
    "no prompt and no stdin": Mistake((), "prompt is empty", "gemcode ask", stdin=CLOSED),
    "a dash and no stdin": Mistake(("-",), "prompt is empty", "gemcode ask", stdin=CLOSED),
    "a model with a space": Mistake(("hi", "--model", "gemini 3.8"), "'gemini 3.8'", "gemcode models"),
    "a model of the environment": Mistake(("hi",), "'a b'", "gemcode models", {"GEMCODE_MODEL": "a b"}),
    "http elsewhere": Mistake(("hi",), "http://192.0.2.1", "https", {URL: "http://192.0.2.1"}),
    "loopback in a name": Mistake(("hi",), "127.0.0.1.invalid", "https", {URL: "http://127.0.0.1.invalid"}),
    "no URL": Mistake(("hi",), "'localhost'", "https", {URL: "localhost"}),
    "a file URL": Mistake(("hi",), "file:///etc", "https", {URL: "file:///etc/passwd"}),
    "a URL with a password": Mistake(("hi",), "password", "URL", {URL: "https://me:pass1234@host.invalid"}),
    "an impossible port": Mistake(("hi",), "not a URL", "https", {URL: "http://127.0.0.1:99999"}),
    "a missing mention": Mistake(("see @fiel.txt",), "@fiel.txt does not exist", "@file.txt"),
    "a mention outside": Mistake(("see @../secret",), "@../secret", "\\@"),
    "an unknown tool": Mistake(("hi", "--tool-choice", "rm"), "'rm'", "read_file"),
    "an unknown session": Mistake(("hi", "--resume", "nope"), "'nope'", "gemcode sessions"),
    "no session to go on with": Mistake(("hi", "-c"), "no session", "gemcode chat"),
    "a limit without a price": Mistake(("hi", "-m", "mystery", "--max-cost", "1"), "mystery", "gemcode models"),
}


@pytest.fixture(autouse=True)
def project(place: Place) -> Place:
    place.write("file.txt", "text\n")
    return place


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_one_sentence_with_one_hint(place: Place, name: str) -> None:
    mistake = MISTAKES[name]
    result = place.ask(*mistake.arguments, env=mistake.env, stdin=mistake.stdin)
    assert (result.code, result.stdout, result.requests) == (2, "", ())
    sentence, hint = result.stderr.splitlines()
    assert sentence.startswith("✗ ")
    assert mistake.sentence in sentence
    assert hint.startswith("  ")
    assert mistake.hint in hint
    assert "pass1234" not in result.stderr


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_object_in_json(place: Place, name: str) -> None:
    mistake = MISTAKES[name]
    result = place.ask("-o", "json", *mistake.arguments, env=mistake.env, stdin=mistake.stdin)
    assert (result.code, result.json["status"], result.stderr) == (2, "usage_error", "")
    assert mistake.sentence in result.json["error"]["message"]
    assert mistake.hint in result.json["error"]["hint"]


def test_a_mistake_is_init_and_result_in_stream_json(place: Place) -> None:
    result = place.ask("hi", "-o", "stream-json", env={"GEMINI_API_KEY": None})
    assert result.code == 2
    assert [event["type"] for event in result.events] == ["init", "result"]


FLAGS = {
    "an unknown command": (("aks", "hi"), "ask"),
    "an unknown flag": (("ask", "--max-stepps", "3", "hi"), "--max-stepps"),
    "a number that is none": (("ask", "--max-steps", "many", "hi"), "--max-steps"),
    "no steps": (("ask", "--max-steps", "0", "hi"), "--max-steps"),
    "a negative time": (("ask", "--timeout", "-1", "hi"), "--timeout"),
    "a negative cost": (("ask", "--max-cost", "-1", "hi"), "--max-cost"),
    "a cost that is no number": (("ask", "--max-cost", "nan", "hi"), "--max-cost"),
    "an unknown format": (("ask", "-o", "yaml", "hi"), "stream-json"),
    "an unknown mode": (("ask", "--approve", "maybe", "hi"), "edits"),
    "two modes at once": (("ask", "-y", "--read-only", "hi"), "exclude"),
    "a flag without its value": (("ask", "hi", "--model"), "--model"),
    "an unknown action": (("audit", "shwo"), "show"),
    "an unknown action of sessions": (("sessions", "lsit"), "list"),
    "a missing id": (("restore",), "ID"),
    "an unknown id": (("restore", "zzzz", "--yes"), "history"),
    "a port that is none": (("simulator", "--port", "70000"), "--port"),
    "a missing scenario": (("simulator", "--scenario", "nope.json"), "nope.json"),
    "an argument too many": (("tools", "extra"), "extra"),
    "an id that nobody asked for": (("sessions", "list", "zzzz"), "zzzz"),
    "no command, but a flag before one": (("-C", ".", "ask", "hi"), "gemcode ask -C"),
    "a word that is no command": (("hello",), "hello"),
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_wrong_command_line_ends_with_2_and_says_what_would_be_right(place: Place, name: str) -> None:
    arguments, said = FLAGS[name]
    result = place.run(*arguments)
    assert (result.code, result.stdout, result.requests) == (2, "", ())
    assert said in result.stderr
    sentence, hint = result.stderr.splitlines()
    assert sentence.startswith("✗ ") and hint.startswith("  ")


SCENARIOS = {
    "not JSON": ("{", "not JSON"),
    "not an object": ("[]", "object"),
    "no replies": ('{"schema": 1}', "replies"),
    "an unknown field": ('{"schema": 1, "replies": [{"txt": "a"}]}', "replies[0].txt"),
    "an unknown error": ('{"schema": 1, "replies": [{"http_error": {"name": "x"}}]}', "quota_per_day"),
    "another schema": ('{"schema": 2, "replies": []}', "schema"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_bad_scenario_is_told_with_its_place(place: Place, name: str) -> None:
    text, said = SCENARIOS[name]
    place.write("scenario.json", text)
    result = place.run("simulator", "--scenario", "scenario.json")
    assert (result.code, result.stdout) == (2, "")
    assert "scenario.json" in result.stderr
    assert said in result.stderr


SETTINGS = {
    "not TOML": ("model = \n", "line 1"),
    "an unknown setting": ('# mine\n\nmodell = "x"', "line 3: unknown setting 'modell'"),
    "a wrong type": ("max_steps = 3\nmodel = 3", "line 2: 'model'"),
    "an unknown limit": ("[limits]\nread = 3", "line 2: unknown limit 'read'"),
    "a limit too high": ("[limits]\n'read_bytes' = 99999999999", "line 2: read_bytes"),
    "a limit of zero": ("[limits]\nread_bytes = 0", "read_bytes"),
    "an unknown mode": ('approve = "always"', "always"),
    "an endpoint elsewhere": ('base_url = "http://192.0.2.1"', "192.0.2.1"),
    "steps that are none": ("max_steps = 0", "max_steps"),
    "a time that is none": ("timeout = -1", "timeout"),
    "a cost that is none": ("max_cost = -0.5", "max_cost"),
    "a cost that is no number": ("max_cost = nan", "max_cost"),
    "sessions that are gone at once": ("session_days = 0", "session_days"),
    "a silence that is none": ("read_timeout = 0", "read_timeout"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_is_named_with_its_file(place: Place, name: str) -> None:
    text, said = SETTINGS[name]
    path = place.settings(text)
    result = place.ask("hi", env={URL: None} if "base_url" in text else {})
    assert (result.code, result.stdout) == (2, "")
    assert str(path) in result.stderr
    assert said in result.stderr


def test_a_file_that_others_can_read_may_not_hold_the_key(place: Place) -> None:
    path = place.settings(f'api_key = "{KEY}"\n')
    path.chmod(0o644)
    result = place.ask("hi", env={"GEMINI_API_KEY": None})
    assert (result.code, result.stdout) == (2, "")
    assert "chmod 600" in result.stderr
    path.chmod(0o600)
    result = place.ask("hi", env={"GEMINI_API_KEY": None}, replies=[says("Hello.")])
    assert (result.code, result.stdout) == (0, "Hello.\n")


def test_chat_without_a_key_says_so_before_it_starts(place: Place) -> None:
    result = place.run("chat", env={"GEMINI_API_KEY": None})
    assert (result.code, result.stdout) == (2, "")
    assert "GEMINI_API_KEY" in result.stderr
    assert "gemcode demo" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("--help",), ("ask", "--help"), ("undo", "-h"), ("--version",), ("undo", "--version")]
)
def test_help_and_version_go_to_stdout(place: Place, arguments: tuple[str, ...]) -> None:
    result = place.run(*arguments, env={"GEMINI_API_KEY": None})
    assert (result.code, result.stderr) == (0, "")
    assert "gemcode" in result.stdout
