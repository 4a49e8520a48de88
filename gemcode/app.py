"""The composition root: the one place that knows every concrete class. No globals; heavy imports inside functions."""

import contextlib
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, TextIO

from gemcode import __version__, config
from gemcode.agent.context import cap_instructions, system_instruction
from gemcode.agent.errors import ToolError, UsageError
from gemcode.agent.loop import Agent
from gemcode.agent.messages import Generation
from gemcode.agent.model import Model
from gemcode.agent.persona import Persona, TurnLimits
from gemcode.agent.policy import Mode
from gemcode.agent.registry import Limits, ToolRegistry
from gemcode.agent.session import Session, SessionStore
from gemcode.agent.tool import AnyTool, Approver
from gemcode.audit import Audit
from gemcode.config import Settings
from gemcode.frozen import frozen
from gemcode.gemini import catalog
from gemcode.gemini.settings import GeminiSettings
from gemcode.terminal.headless import OutputFormat, Reporter, open_reporter
from gemcode.terminal.look import Look, choose_look, terminal_size
from gemcode.terminal.safe import escape, write_stderr
from gemcode.terminal.tty import is_terminal
from gemcode.terminal.view import About
from gemcode.tools.workbench import Workbench
from gemcode.workspace import names, osfs
from gemcode.workspace.known import KnownVersions
from gemcode.workspace.root import Root, is_root_or_home
from gemcode.workspace.store import Store

INSTRUCTION_FILES = ("AGENTS.md", "GEMINI.md")


@frozen
class Options:
    """What the user gave on the command line. None and "" mean: not given."""

    project: Path = Path()
    flags: Mapping[str, Any] | None = None  # of Settings, by field name
    resume: str = ""
    latest: bool = False  # --continue
    record: Path | None = None
    output: OutputFormat = OutputFormat.TEXT
    verbose: bool = False
    no_color: bool = False


@frozen
class Project:
    """One open project with everything that belongs to it."""

    settings: Settings
    session_id: str
    root: Root
    store: Store
    bench: Workbench
    registry: ToolRegistry
    sessions: SessionStore
    audit: Audit
    instructions: str
    notices: tuple[str, ...]


def load_settings(options: Options) -> Settings:
    return config.load(options.project, os.environ, options.flags or {})


@contextlib.contextmanager
def open_project(settings: Settings, session_id: str) -> Iterator[Project]:
    """Open the project by its directory fd, recover what a crash left behind, and close everything at the end."""
    try:
        root = Root.open(settings.project)
    except ToolError as error:
        told = f"{settings.project} is not a directory." if error.kind == "not_a_directory" else error.message
        raise UsageError(told, "Name a directory with -C, or change into one.") from None
    with contextlib.closing(root):
        root.keep_out_of(settings.config_home, settings.state_home)
        settings = _with_project_file(settings, root)
        try:
            store = Store.open(settings.state_home, root, session_id)
        except (ToolError, OSError) as error:
            raise UsageError(f"The state directory can't be used: {error}", "See: gemcode doctor") from None
        with _closing(store):
            bench = Workbench(root, store, KnownVersions(), settings.bounds)
            bounds = settings.bounds
            limits = Limits(
                bounds.call_seconds,
                bounds.calls_per_turn,
                bounds.writes_per_turn,
                bounds.calls_per_minute,
                bounds.writes_per_minute,
            )
            audit = Audit(store.directory / "audit", session_id)
            registry = ToolRegistry(_late_tools(bench), audit, limits, strict=settings.strict_arguments)
            instructions, notices = _instructions(root)
            notices = (*_place_notice(root), *settings.warnings, *store.notices, *notices)
            sessions = SessionStore(store.directory / "sessions", root.display, __version__)
            sessions.prune(settings.session_days)
            yield Project(settings, session_id, root, store, bench, registry, sessions, audit, instructions, notices)


@contextlib.contextmanager
def _closing(store: Store) -> Iterator[None]:
    """At the end, what the store found out about late saves of other programs is told."""
    try:
        yield
    finally:
        for notice in store.close():
            write_stderr(f"! {escape(notice)}\n")


def _place_notice(root: Root) -> tuple[str, ...]:
    """The model may read whatever lies below: a home directory is more than anybody means to show."""
    return (
        (f"{root.display} is your home directory or above it: better name one project.",)
        if is_root_or_home(root)
        else ()
    )


def _late_tools(bench: Workbench) -> Iterator[AnyTool]:
    from gemcode.tools import build_tools

    yield from build_tools(bench)


def _with_project_file(settings: Settings, root: Root) -> Settings:
    text = _read_text(root, config.PROJECT_FILE, internal=True)
    return settings if text is None else config.tightened(settings, text)


def _instructions(root: Root) -> tuple[str, tuple[str, ...]]:
    for name in INSTRUCTION_FILES:
        text = _read_text(root, name)
        if text:
            text, cut = cap_instructions(text)
            return text, ((f"{name} is long: only its first 16 KiB are passed on.",) if cut else ())
    return "", ()


def _read_text(root: Root, name: str, *, internal: bool = False) -> str | None:
    """The beginning of a file: as much as is looked at, and a byte more, so that too much is seen to be too much."""
    try:
        with root.open_file(name, internal=internal) as file:
            if names.classify(file.path) is names.NameClass.SECRET:  # a link that would send it unasked
                return None
            return osfs.read_all(file.fd, config.MOST_PROJECT_TEXT + 1).decode("utf-8", "replace")
    except (ToolError, OSError):
        return None


def gemini_settings(settings: Settings, trace: Callable[[str], None] | None = None) -> GeminiSettings:
    """How to reach the service. `trace` is told of each request in lines that are safe to show."""
    key = config.require_key(settings)
    told = (lambda line: trace(escape(line, single_line=True) + "\n")) if trace else None
    return GeminiSettings(
        key.reveal(),
        settings.base_url or None,
        read_timeout=settings.read_timeout,
        event_bytes=settings.bounds.event_bytes,
        trace=told,
    )


def make_model(gemini: GeminiSettings) -> Model:
    from gemcode.gemini.client import GeminiModel
    from gemcode.gemini.persistent import PersistentModel

    return PersistentModel(GeminiModel(gemini))


@contextlib.contextmanager
def recorded(gemini: GeminiSettings, path: Path | None) -> Iterator[GeminiSettings]:
    """The settings with a recorder listening, whose file is complete at the end; without a path as they are."""
    if path is None:
        yield gemini
        return
    from gemcode.recording import Recorder

    recorder = Recorder(path, gemini.redact, os.path.expanduser("~"))
    try:
        yield replace(gemini, observe=recorder)
    finally:
        recorder.save()


def open_session(project: Project, resume: str = "", *, latest: bool = False) -> Session:
    """The conversation to record: a new one, or one to go on with."""
    if latest and not resume:
        resume = project.sessions.latest() or ""
        if not resume:
            raise UsageError("There is no session here to continue.", "Start one with: gemcode chat")
    return project.sessions.resume(resume) if resume else Session(project.sessions, project.session_id)


def make_agent(project: Project, model: Model, approve: Approver, mode: Mode) -> Agent:
    settings = project.settings
    for name in filter(None, (settings.model, settings.fallback_model)):
        if settings.max_cost is not None and catalog.find(name) is None:
            raise UsageError(
                f"--max-cost can't be kept: the price of {name} is not known.",
                "Leave it out, or use a model of: gemcode models",
            )
    limits = TurnLimits(settings.max_steps, settings.timeout, settings.max_cost)
    agent = Agent(model, project.registry, persona(project, settings.model), approve, limits)
    agent.mode = mode
    if settings.fallback_model:
        agent.fallback = persona(project, settings.fallback_model)
    return agent


def persona(project: Project, model: str) -> Persona:
    """Who answers: the model, what it is told, and what it costs."""
    info = catalog.find(model)
    return Persona(
        model=model,
        system=lambda mode: system_instruction(mode, project.instructions),
        generation=Generation(thinking_level=project.settings.thinking_level or None),
        price=lambda usage: catalog.cost_usd(model, usage, date.today()),
        input_limit=info.input_limit if info else None,
    )


def preload(project: Project) -> None:
    """The slow imports, for a thread behind the prompt."""
    from gemcode.gemini import client

    project.registry.load()
    client.warm_up()


def terminal_approver(options: Options, pause: Callable[[], None] = lambda: None) -> Approver:
    """Somebody who asks the person at the terminal; `pause` takes away what moves on the screen."""
    from gemcode.terminal.repl import open_approval

    return open_approval(os.environ, sys.stdout.encoding, no_color=options.no_color, pause=pause)


def make_reporter(options: Options, model: str, session_id: str) -> Reporter:
    """Where the events of a one-shot command go."""
    about = About(__version__, model, session_id=session_id)
    out, err = _look(1, sys.stdout, options), _look(2, sys.stderr, options)
    return open_reporter(options.output, about, err, terminal=is_terminal(1), verbose=options.verbose, out=out)


def _look(descriptor: int, stream: TextIO | None, options: Options) -> Look:
    return choose_look(
        os.environ,
        terminal=is_terminal(descriptor),
        encoding=stream.encoding if stream else None,
        size=terminal_size(descriptor),
        no_color=options.no_color,
    )


def endpoint_notice(settings: Settings) -> tuple[str, ...]:
    """Said at start when the key goes anywhere but to Google."""
    return (f"endpoint: {settings.base_url} (from {settings.base_url_source})",) if settings.base_url else ()


def about(settings: Settings, session_id: str, notices: tuple[str, ...] = ()) -> About:
    return About(
        version=__version__,
        model=settings.model,
        project=_short(settings.project),
        key=f"{settings.key_source} {settings.key}" if settings.key else "",
        session_id=session_id,
        warnings=(*endpoint_notice(settings), *notices),
    )


def _short(path: Path) -> str:
    text = os.path.abspath(path)
    home = os.path.expanduser("~")
    return "~" + text[len(home) :] if text == home or text.startswith(home + os.sep) else text


def new_session_id() -> str:
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"
    return "".join(secrets.choice(alphabet) for _ in range(6))
