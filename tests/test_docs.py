"""Every command and output shown in the documentation is run here, against the simulator, and compared.

A block ```console holds commands (`$ …`) and what they print, stdout and stderr together. The blocks of a page share a
scratch project. What varies from run to run (times, ids, dates, ports) is made equal before the comparison.
"""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from bench.table import comparison
from gemcode.agent.bounds import Bounds
from gemcode.commands.demo import scratch_project
from gemcode.config import load

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.exists()]
BLOCK = re.compile(r"^(`{3,})(\w+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [body for _, name, body in BLOCK.findall(page.read_text(encoding="utf-8")) if name == language]


def normalised(text: str) -> str:
    text = re.sub(r"^! endpoint:.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r" +\d+ ms$", " N ms", text, flags=re.MULTILINE)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE", text)
    text = re.sub(r"^[0-9a-z]{4}(?=  DATE)", "ID", text, flags=re.MULTILINE)
    text = re.sub(r"\((undo of|restore of) \w{4}, now \w{4}\)", r"(\1 ID, now ID)", text)
    text = re.sub(r"^[0-9a-z]{4,6} +(?=just now)", "ID ", text, flags=re.MULTILINE)
    text = re.sub(r'"session_id": "\w+"', '"session_id": "ID"', text)
    text = re.sub(r"in [\d.]+k?  out \d+  \$[\d.]+", "in N  out N  $N", text)
    text = re.sub(r"(\d+% cached)|  \d+s$", "", text, flags=re.MULTILINE)
    text = re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:PORT", text)
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def split(block: str) -> list[tuple[str, str]]:
    """The commands of a block with what each is said to print."""
    pairs: list[tuple[str, str]] = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            pairs.append((line[2:].strip(), ""))
        else:
            command, output = pairs[-1]
            pairs[-1] = (command, output + line)
    return pairs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_shows_is_what_happens(page: Path) -> None:
    shown = blocks(page, "console")
    if not shown:
        return
    with scratch_project() as (settings, simulator):
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(settings.project.parent),
            "LANG": "C.UTF-8",
            "GEMCODE_HOME": str(settings.project.parent / "home"),
            "GEMINI_API_KEY": "simulated-key",
            "GOOGLE_GEMINI_BASE_URL": simulator.url,
        }
        for command, expected in (pair for block in shown for pair in split(block)):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=settings.project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert normalised(done.stdout) == normalised(expected), command
        assert simulator.violations == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_that_are_only_named_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(blocks(page, "sh"))
    for target in re.findall(r"^make (\w[\w-]*)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    named = re.findall(r"`gemcode ([^`\n]*)`", page.read_text(encoding="utf-8"))
    for line in [*named, *re.findall(r"\bgemcode (.*)$", text, re.MULTILINE)]:
        first, *_ = words = line.replace("\\|", "|").partition("#")[0].partition("|")[0].split() or [""]
        command = first if re.fullmatch(r"[a-z]+", first) else ""
        taken = help_of(command) + ("" if command else help_of("chat"))
        for flag in (word for word in words if re.match(r"--?[a-zA-Z]", word)):
            assert re.search(rf"(^|\s){flag}\b", taken, re.MULTILINE), f"gemcode {line}"


@cache
def help_of(command: str) -> str:
    arguments = [sys.executable, "-m", "gemcode", *command.split(), "--help"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"gemcode {command}: {done.stderr}"
    return done.stdout


def test_the_comparison_is_made_from_the_results() -> None:
    """After `make bench`, put what `python -m bench.table` prints into the README."""
    results = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    assert comparison(results) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_settings_shown_are_settings(tmp_path: Path) -> None:
    page = ROOT / "docs" / "configuration.md"
    user, project = blocks(page, "toml")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(user, encoding="utf-8")
    settings = load(tmp_path, {"GEMCODE_HOME": str(tmp_path)}, {})
    assert (settings.max_cost, settings.bounds.list_entries) == (1.0, 1000)
    assert settings.bounds == Bounds(), "the limits shown are the defaults"
    assert set(tomllib.loads(user)["limits"]) == {item.name for item in fields(Bounds)}, "all of them"
    assert set(tomllib.loads(project)) == {"limits"}


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
