"""The lexical gate, folding and the name classes, beyond the rows of the corpus."""

import os
import random
import string
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gemcode.agent.errors import ToolError
from gemcode.workspace import names
from gemcode.workspace.names import NameClass, check_lexical, classify, fold, from_handle, is_never, reason, to_handle

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
NAME = st.text(st.characters(exclude_characters="/\0", exclude_categories=()), min_size=1, max_size=40)
IGNORED = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"]


@given(ANY_TEXT)
@example("℡.ＰＴＨ")
@example("x：y")
@example("…")
@example("ẞ")
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(ANY_TEXT)
@example("")
@example("/")
@example(".")
def test_any_text_has_a_class_and_a_reason(text: str) -> None:
    assert classify(text) in NameClass
    assert bool(reason(text)) or classify(text) is NameClass.ORDINARY


@given(ANY_TEXT, st.booleans())
def test_any_text_passes_the_gate_or_is_refused_with_a_sentence(text: str, directory: bool) -> None:
    try:
        tidy = check_lexical(text, directory=directory)
    except ToolError as error:
        assert error.kind in ("invalid_path", "outside_project")
        assert error.message.endswith(".")
        assert error.message.isprintable()
    else:
        assert not tidy.startswith("/")
        assert not {"", ".."} & set(tidy.split("/"))
        assert check_lexical(to_handle(tidy), directory=directory) == tidy


@given(NAME)
@example("sitecustomize.py")
@example("SITECUSTOMIZE.PY ")
@example("x.pth:y")
@example("GIT~1")
def test_the_quick_answer_for_listings_is_the_full_one(name: str) -> None:
    if name not in (".", ".."):
        assert is_never(name) == (classify(name.replace("\\", "")) is NameClass.NEVER) or "\\" in name


@given(st.data())
def test_every_alias_of_git_is_protected(data: st.DataObject) -> None:
    """What HFS+, NTFS and case-insensitive mounts take for .git: ignorable characters, other cases, tails, streams."""
    letters = [data.draw(st.sampled_from([letter, letter.upper(), chr(ord(letter) + 0xFEE0)])) for letter in "git"]
    dot = data.draw(st.sampled_from([".", "．"]))
    pieces = [dot, *letters]
    for position in data.draw(st.lists(st.integers(0, 4), max_size=4)):
        pieces.insert(position, data.draw(st.sampled_from(IGNORED)))
    tail = data.draw(st.text(" .", max_size=4)) + data.draw(st.sampled_from(["", "::$INDEX_ALLOCATION", ":x"]))
    alias = "".join(pieces) + tail
    for path in (alias, f"{alias}/config", f"sub/{alias}/hooks/x", f"sub\\{alias}\\x"):
        assert classify(path) is NameClass.NEVER
    assert is_never(alias)


@pytest.mark.parametrize(
    "name",
    [
        ".github",
        ".gitignore",
        ".gitkeep",
        "x.git",
        "..git",
        ".gıt",
        ".gİt",
        "git",
        "git~x",
        ".gitx",
        "_git",
        "pth",
        "a.pthx",
    ],
)
def test_a_near_name_is_not_protected(name: str) -> None:
    assert classify(name) is not NameClass.NEVER
    assert not is_never(name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".hg/hgrc", NameClass.NEVER),
        (".SVN/entries", NameClass.NEVER),
        (".jj", NameClass.NEVER),
        ("a/.gemcode/x", NameClass.NEVER),
        ("lib/USERCUSTOMIZE.py", NameClass.NEVER),
        ("venv/lib/x.PTH", NameClass.NEVER),
        (".aws/config", NameClass.SECRET),
        ("deploy/server.KEY", NameClass.SECRET),
        ("my-credentials-2.json", NameClass.SECRET),
        ("terraform.tfstate", NameClass.SECRET),
        ("id_rsa", NameClass.SECRET),
        ("id_rsa.pub", NameClass.ORDINARY),
        ("id_types/model.py", NameClass.ORDINARY),
        (".npmrc", NameClass.SECRET),
        ("sub/Dockerfile", NameClass.RUNS_LATER),
        ("dockerfile.prod", NameClass.RUNS_LATER),
        ("rules.mk", NameClass.RUNS_LATER),
        (".github/actions/x/action.yml", NameClass.RUNS_LATER),
        ("docs/.github/workflows/x", NameClass.RUNS_LATER),
        ("github/workflows/x", NameClass.ORDINARY),
        ("AGENTS.md", NameClass.RUNS_LATER),
        ("src/main.py", NameClass.ORDINARY),
        (".env/id_rsa", NameClass.SECRET),
        (".vscode/.env", NameClass.SECRET),
        (".git/.env", NameClass.NEVER),
        ("sitecustomize/__init__.py", NameClass.NEVER),
        ("lib/usercustomize.cpython-312-darwin.so", NameClass.NEVER),
        ("_darcs/prefs/prefs", NameClass.NEVER),
        (".g\ufe0fit/config", NameClass.NEVER),
        (".\u3164git/config", NameClass.NEVER),
        (".env~", NameClass.SECRET),
        (".env-prod", NameClass.SECRET),
        ("deploy/prod.env", NameClass.SECRET),
        ("..env.swp", NameClass.SECRET),
        (".id_rsa.swp", NameClass.SECRET),
        ("id_rsa.old", NameClass.SECRET),
        ("server.key.bak.old", NameClass.SECRET),
        ("client_secret_12.apps.json", NameClass.SECRET),
        ("terraform.tfstate.backup", NameClass.SECRET),
        ("prod.tfvars", NameClass.SECRET),
        (".streamlit/secrets.toml", NameClass.SECRET),
        (".cargo/credentials", NameClass.SECRET),
        (".docker/config.json", NameClass.SECRET),
        (".bash_history", NameClass.SECRET),
        (".env.example", NameClass.ORDINARY),
        (".env.production.example", NameClass.ORDINARY),
        (".env.sample", NameClass.ORDINARY),
        ("credentials/provider.py", NameClass.ORDINARY),
        ("src/secrets.py", NameClass.ORDINARY),
        ("src/keyboard.ts", NameClass.ORDINARY),
        ("environment.py", NameClass.ORDINARY),
        ("~", NameClass.ORDINARY),
        (".bak", NameClass.ORDINARY),
        ("settings.gradle.kts", NameClass.RUNS_LATER),
        ("vite.config.ts", NameClass.RUNS_LATER),
        ("my.config.json", NameClass.ORDINARY),
        (".githooks/pre-push", NameClass.RUNS_LATER),
        (".venv/bin/activate", NameClass.RUNS_LATER),
        ("web/node_modules/x/index.js", NameClass.RUNS_LATER),
        ("binding.gyp", NameClass.RUNS_LATER),
        (".cargo/config.toml", NameClass.RUNS_LATER),
        ("app.code-workspace", NameClass.RUNS_LATER),
        (".yarnrc.yml", NameClass.RUNS_LATER),
        (".Rprofile", NameClass.RUNS_LATER),
        (".github/instructions/x.md", NameClass.RUNS_LATER),
        ("hooks/useThing.ts", NameClass.ORDINARY),
        ("requirements.txt", NameClass.ORDINARY),
    ],
)
def test_the_strictest_name_on_the_path_decides(path: str, expected: NameClass) -> None:
    assert classify(path) is expected


def test_the_reason_says_what_the_file_does() -> None:
    assert reason("Makefile") == "runs when you build, test or install"
    assert reason(".env") == "may hold secrets"
    assert reason("a/COM1/x") == "not a usable name on Windows"
    assert reason("a/b") == ""


@given(st.binary(min_size=1, max_size=200).filter(lambda raw: b"\0" not in raw and not raw.startswith(b"/")))
def test_any_name_on_disk_can_be_shown_and_taken_back(raw: bytes) -> None:
    name = os.fsdecode(raw)
    shown = to_handle(name)
    shown.encode()  # never a surrogate
    assert not any(unicodedata.category(character) == "Cc" for character in shown)
    if shown != name:
        assert from_handle(shown) == name


@pytest.mark.parametrize(
    "handle",
    [
        "handle:",
        "handle:plain.txt",  # stands for a name that needs no handle
        "handle:a%2fb%0A",  # a slash is never escaped
        "handle:%2fetc%0A",
        "handle:/etc%0A",
        "handle:a%00%0A",
        "handle:é%0A",
        "handle:\ud800",
        "handle:..%2f%0A",
        "handle:" + "%0A" * 4097,
        "handle:" + "x" * 20_000,
    ],
)
def test_a_handle_that_no_listing_gave_is_refused(handle: str) -> None:
    with pytest.raises(ToolError):
        check_lexical(handle)


def test_a_handle_can_not_climb_out_or_reach_a_protected_name() -> None:
    with pytest.raises(ToolError):
        check_lexical("handle:../x%0A")
    assert classify(check_lexical("handle:.git%3Ax")) is NameClass.NEVER
    assert classify(check_lexical("handle:.git%5Chooks")) is NameClass.NEVER


def test_a_directory_may_end_with_a_slash_and_be_the_project_itself() -> None:
    assert check_lexical("a/b//", directory=True) == "a/b"
    assert check_lexical("./", directory=True) == "."
    assert check_lexical(".", directory=True) == "."
    with pytest.raises(ToolError) as caught:
        check_lexical("", directory=True)
    assert caught.value.details["use"] == "."


def test_random_long_paths_stay_within_the_limits() -> None:
    source = random.Random(7)
    for _ in range(300):
        path = "/".join(
            "".join(source.choices(string.ascii_letters + "é", k=source.randint(1, 300))) for _ in range(70)
        )
        path = path[: source.randint(1, 9000)]
        try:
            tidy = check_lexical(path)
        except ToolError:
            continue
        assert len(tidy.encode()) <= names.MAX_PATH_BYTES
        assert all(len(part.encode()) <= names.MAX_COMPONENT_BYTES for part in tidy.split("/"))
        assert tidy.count("/") < names.MAX_COMPONENTS
