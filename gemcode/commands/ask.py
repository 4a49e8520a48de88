"""`gemcode ask`: one prompt, one answer on stdout, everything else on stderr. Never asks without a terminal."""

import asyncio
import contextlib
import os
import select
import stat
from collections.abc import Sequence
from dataclasses import replace

from gemcode import app
from gemcode.agent.errors import GemcodeError, UsageError
from gemcode.agent.events import Notice, Outcome, Status
from gemcode.agent.messages import ChoiceMode, Text, ToolChoice, UserMessage
from gemcode.agent.policy import Mode
from gemcode.agent.session import Session
from gemcode.agent.tool import decline_unasked
from gemcode.config import DEFAULT_MODEL
from gemcode.terminal.headless import OutputFormat, Reporter, run_once
from gemcode.terminal.safe import OutputFailed, write_stderr
from gemcode.terminal.tty import input_descriptor, is_terminal
from gemcode.tools import mentions

MOST_INPUT = 8 * 1024 * 1024
PATIENCE = 2.0  # seconds of silence on stdin before we say what we wait for


def start(words: list[str]) -> int:
    """`gemcode ask` without flags."""
    return run(app.Options(), words)


def run(options: app.Options, words: Sequence[str], choice_text: str = "auto") -> int:
    """The exit code. The reporter prints the outcome once, also when it never came to a request."""
    run_id = app.new_session_id()
    asked_for = (options.flags or {}).get("model") or os.environ.get("GEMCODE_MODEL") or DEFAULT_MODEL
    reporter = app.make_reporter(options, str(asked_for), options.resume or run_id)
    try:
        settings = app.load_settings(options)
        with (
            app.open_project(settings, run_id) as project,
            contextlib.closing(app.open_session(project, options.resume, latest=options.latest)) as session,
        ):
            reporter = app.make_reporter(options, settings.model, session.id)
            outcome = _answer(options, project, session, reporter, words, choice_text)
    except OutputFailed:
        raise
    except GemcodeError as error:
        outcome = Outcome(Status.of_exit_code(error.exit_code), error=error)
        reporter.finish(outcome)
    except KeyboardInterrupt:
        outcome = Outcome(Status.INTERRUPTED, error=GemcodeError("Interrupted."))
        reporter.finish(outcome)
    return outcome.status.exit_code


def _answer(
    options: app.Options,
    project: app.Project,
    session: Session,
    reporter: Reporter,
    words: Sequence[str],
    choice_text: str,
) -> Outcome:
    settings = project.settings
    choice = parse_choice(choice_text, project)
    gemini = app.gemini_settings(settings, write_stderr if options.verbose else None)
    prompt = read_prompt(words, project)
    interactive = options.output is OutputFormat.TEXT and is_terminal(input_descriptor()) and is_terminal(1)
    mode = settings.approve or (Mode.ASK if interactive else Mode.NONE)
    approve = app.terminal_approver(options, reporter.pause) if interactive else decline_unasked
    with app.recorded(gemini, options.record) as gemini:
        agent = app.make_agent(project, app.make_model(gemini), approve, mode)
        agent.begin(session.state, session.record)
        for notice in (*project.notices, *app.endpoint_notice(settings)):
            reporter(Notice(notice, warning=True))
        return asyncio.run(run_once(lambda emit: agent.run(prompt, emit, choice), reporter))


def parse_choice(text: str, project: app.Project) -> ToolChoice:
    """auto, required, none, or the name of one tool."""
    if text in tuple(ChoiceMode):
        return ToolChoice(ChoiceMode(text))
    names = [tool.name for tool in project.registry.declarations(Mode.ASK)]
    if text not in names:
        raise UsageError(f"{text!r} is not a tool choice.", f"Use auto, required, none, or one of: {', '.join(names)}.")
    return ToolChoice(ChoiceMode.REQUIRED, (text,))


def read_prompt(words: Sequence[str], project: app.Project) -> UserMessage:
    """The words of the command line, with their @mentions, and what was piped in. `-`, or no words: stdin is it."""
    typed = " ".join(words).strip()
    piped = read_stdin()
    if typed in ("", "-"):
        if not piped.strip():
            raise UsageError("The prompt is empty.", 'Say what you want: gemcode ask "explain this project"')
        return UserMessage.of(piped.strip())
    message = mentions.expand(typed, project.bench)
    if piped.strip():
        message = replace(message, parts=(*message.parts, Text(f"\n\nFrom stdin:\n```\n{piped}\n```")))
    return message


def read_stdin() -> str:
    """What is piped or redirected into us; nothing from a terminal, a closed stdin or the null device."""
    descriptor = input_descriptor()
    if descriptor < 0 or is_terminal(descriptor):
        return ""
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            ready, _, _ = select.select([descriptor], [], [], PATIENCE)
            if not ready:
                write_stderr("· reading stdin until it ends; close it with < /dev/null if nothing comes\n")
        elif not stat.S_ISREG(mode):
            return ""
        with os.fdopen(os.dup(descriptor), "rb") as stream:
            data = stream.read(MOST_INPUT + 1)
    except OSError as error:
        raise UsageError(f"stdin can't be read: {error.strerror}.", "Redirect it from a file or /dev/null.") from None
    if len(data) > MOST_INPUT:
        raise UsageError(f"stdin is larger than {MOST_INPUT} bytes.", "Send less of it, or name a file with @path.")
    if b"\0" in data:
        raise UsageError("stdin is not text.", "Send text, or name a file with @path.")
    return data.decode("utf-8", "replace")
