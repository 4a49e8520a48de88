"""`gemcode doctor`: what works here and what does not. Makes no request and changes nothing but its own probe files."""

import os
import platform
import sys
from collections.abc import Iterator

from gemcode import __version__, app, audit
from gemcode.agent.errors import ExitCode, GemcodeError
from gemcode.config import Settings
from gemcode.frozen import frozen
from gemcode.gemini import catalog
from gemcode.terminal.look import choose_look, terminal_size
from gemcode.terminal.safe import escape, write_stdout
from gemcode.terminal.tty import input_descriptor, is_terminal
from gemcode.workspace.probe import can_exchange

PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")


@frozen
class Finding:
    """One line: what was looked at, how it is, and whether that is good (None: a fact, neither good nor bad)."""

    subject: str
    text: str
    good: bool | None = None


def run(options: app.Options) -> int:
    findings = list(examine(app.load_settings(options)))
    write_stdout(report(findings))
    return ExitCode.USAGE if any(finding.good is False for finding in findings) else ExitCode.OK


def report(findings: list[Finding]) -> str:
    marks = {True: "✓", False: "✗", None: "·"}
    return "".join(f"{marks[item.good]} {item.subject:12} {escape(item.text, single_line=True)}\n" for item in findings)


def examine(settings: Settings) -> Iterator[Finding]:
    from importlib.metadata import version  # slow, and the chat, which offers /doctor, is to start fast

    yield Finding(
        "gemcode", f"{__version__}, Python {platform.python_version()}, google-genai {version('google-genai')}"
    )
    yield _key(settings)
    yield _model(settings)
    yield _endpoint(settings)
    yield from _proxies()
    try:
        with app.open_project(settings, app.new_session_id()) as project:
            yield from _project(project)
    except GemcodeError as error:
        yield Finding("project", f"{error.message} {error.hint}", False)
    yield _terminal()
    if os.geteuid() == 0:
        yield Finding("user", "root: better use an account of your own")


def _key(settings: Settings) -> Finding:
    if settings.key is None:
        return Finding("key", "none. Set GEMINI_API_KEY, or try: gemcode demo", False)
    return Finding("key", f"{settings.key} from {settings.key_source}", True)


def _model(settings: Settings) -> Finding:
    if catalog.find(settings.model):
        return Finding("model", settings.model, True)
    close = catalog.closest(settings.model)
    meant = f" Did you mean {close[0]}?" if close else ""
    return Finding("model", f"{settings.model} is not in the catalog: no price, no limits.{meant}")


def _endpoint(settings: Settings) -> Finding:
    if settings.base_url:
        return Finding("endpoint", f"{settings.base_url} from {settings.base_url_source}: your key is sent there")
    return Finding("endpoint", "https://generativelanguage.googleapis.com (default)", True)


def _proxies() -> Iterator[Finding]:
    for name in PROXIES:
        if value := os.environ.get(name):
            yield Finding("proxy", f"{name}={value.rsplit('@', 1)[-1]}")


def _project(project: app.Project) -> Iterator[Finding]:
    root = project.root
    yield Finding("project", root.display, True)
    resolver = (
        "openat2: the kernel keeps every path inside"
        if root.resolver == "openat2"
        else "directory walk, no link followed unseen"
    )
    yield Finding("paths", resolver, True)
    yield Finding("commands", "none: the model can't run any", True)
    yield _file_system(project)
    verification = project.store.verify()
    size = f"{verification.objects} versions, {verification.size / 1024 / 1024:.1f} MiB in {project.store.directory}"
    damage = (
        "" if verification.sound else f"; damaged: {len(verification.damaged)}, missing: {len(verification.missing)}"
    )
    yield Finding("backups", size + damage, verification.sound)
    verdict = audit.verify(project.audit.directory)
    problem = f"; {verdict.problems[0]}" if verdict.problems else ""
    yield Finding("audit", f"{verdict.records} records{problem}", not verdict.problems)
    if project.instructions:
        yield Finding("instructions", f"{len(project.instructions)} characters of project instructions go to the model")
    for notice in project.notices:
        yield Finding("notice", notice)


def _file_system(project: app.Project) -> Finding:
    if can_exchange(project.root):
        return Finding("writes", "atomic exchange: a save by another program is never overwritten", True)
    return Finding("writes", "no atomic exchange on this file system: weaker against saves at the same moment")


def _terminal() -> Finding:
    terminal = is_terminal(1) and is_terminal(input_descriptor())
    size = terminal_size()
    look = choose_look(os.environ, terminal=terminal, encoding=sys.stdout.encoding, size=size)
    kind = f"{size.columns}x{size.rows}" if terminal else "none: writes need --approve"
    marks = "UTF-8" if look.unicode else "ASCII marks"
    return Finding("terminal", f"{kind}, colour {look.colour.value}, {marks}, TERM={os.environ.get('TERM', '')}")
