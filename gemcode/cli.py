"""Flags → Options → a command. The only typer import; what a command needs is imported when it is chosen."""

import contextlib
import functools
import inspect
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gemcode import __version__
from gemcode.agent.errors import UsageError
from gemcode.agent.policy import Mode
from gemcode.running import Command, exit_code
from gemcode.terminal.headless import OutputFormat
from gemcode.terminal.safe import write_stdout

if TYPE_CHECKING:
    from gemcode.app import Options

HELP = "A terminal coding assistant for Google Gemini that you can trust with your only copy."
EPILOG = "Exit codes: 0 ok, 1 API, 2 usage, 3 blocked, 4 incomplete, 5 write refused, 6 quota, 130 interrupted."
BEFORE_A_COMMAND = ("-h", "--help", "-V", "--version", "--install-completion", "--show-completion")

app = typer.Typer(
    name="gemcode",
    epilog="Without a command: chat. Try it with no key and no network: gemcode demo",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gemcode {__version__}")
        raise typer.Exit


def _flag(name: str, kind: Any, *spelling: str, default: Any = None, **more: Any) -> inspect.Parameter:
    """A flag that commands share, named as the field of Options or of Settings that it sets."""
    option = typer.Option(default, *spelling, **more)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)


def _switch(name: str, *spelling: str, **more: Any) -> inspect.Parameter:
    return _flag(name, bool, *spelling, default=False, **more)


VERSION = _switch("version", "-V", "--version", callback=_version, is_eager=True, help="Show the version.")
EVERYWHERE = (
    _switch("verbose", "-v", "--verbose", help="Details of requests and errors, on stderr."),
    _switch("no_color", "--no-color", help="No colours."),
    VERSION,
)
PROJECT = (_flag("project", Path, "-C", "--project", default=Path(), metavar="DIR", help="The project's directory."),)
MODEL = (_flag("model", str, "-m", "--model", metavar="NAME", help="The model. See: gemcode models"),)
READ_ONLY = (_switch("read_only", "--read-only", help="Same as --approve none."),)
TURN = (
    *PROJECT,
    *MODEL,
    _flag("approve", Mode, "--approve", metavar="MODE", help="ask, edits, all or none. Without a terminal: none."),
    _switch("yes", "-y", "--yes", help="Same as --approve edits."),
    *READ_ONLY,
    _flag("max_steps", int, "--max-steps", min=1, metavar="N", help="Stop after N model answers."),
    _flag("max_cost", float, "--max-cost", min=0.0, metavar="USD", help="Stop when this much is spent."),
    _flag("timeout", float, "--timeout", min=0.1, metavar="SECONDS", help="Time for the whole turn."),
    _flag("fallback_model", str, "--fallback-model", metavar="NAME", help="Stands in when the model can't be reached."),
    _flag("resume", str, "--resume", metavar="ID", help="Go on with a session. See: gemcode sessions"),
    _switch("latest", "-c", "--continue", help="Go on with the last session."),
)
FORMATS = "On stdout: text, json or stream-json."
OUTPUT = (
    _flag("output", OutputFormat, "-o", "--output-format", default=OutputFormat.TEXT, metavar="FORMAT", help=FORMATS),
    _flag("record", Path, "--record", metavar="FILE", help="Keep the traffic as a simulator scenario."),
)
Words = Annotated[list[str] | None, typer.Argument(metavar="PROMPT", hidden=True)]
Id = Annotated[str, typer.Argument(metavar="ID", hidden=True)]
SessionsAction = Annotated[Literal["list", "show", "delete"], typer.Argument(metavar="list|show|delete", hidden=True)]
AuditAction = Annotated[Literal["show", "verify"], typer.Argument(metavar="show|verify", hidden=True)]
PlayOption = Annotated[bool, typer.Option("--play", help="Run the whole tour unattended.")]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do it without asking.")]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N", help="0: any free one.")]


def _command(
    *shared: Sequence[inspect.Parameter], epilog: str | None = None
) -> Callable[[Callable[..., Command]], Callable[..., Command]]:
    """A subcommand: a function of `options`, which the shared flags come to, and of what only this one takes."""

    def register(function: Callable[..., Command]) -> Callable[..., Command]:
        _, *parameters = inspect.signature(function).parameters.values()
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

        @functools.wraps(function, assigned=("__name__", "__doc__"))
        def chosen(**given: Any) -> Command:
            values = {parameter.name: given.pop(parameter.name) for parameter in own}
            return function(_options(given), **values)

        flags = [flag for group in (*shared, own, EVERYWHERE) for flag in group]
        chosen.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]  # where typer looks
        app.command(epilog=epilog)(chosen)
        return function

    return register


def _options(given: dict[str, Any]) -> "Options":
    """What the shared flags come to. An empty value counts as none: a script's variable may be unset."""
    from gemcode.app import Options

    wanted = (
        given.pop("approve", None),
        given.pop("yes", False) and Mode.EDITS,
        given.pop("read_only", False) and Mode.NONE,
    )
    modes = [mode for mode in wanted if mode]
    if len(modes) > 1:
        raise UsageError("--approve, --yes and --read-only exclude each other.", "Give one of them.")
    given = {name: value for name, value in given.items() if value not in (None, "") and name != "version"}
    settings = ("model", "fallback_model", "max_steps", "max_cost", "timeout")
    flags = {name: given.pop(name) for name in settings if name in given}
    return Options(flags=flags | ({"approve": modes[0]} if modes else {}), **given)


@app.callback(help=HELP)
def _all(version: bool = VERSION.default) -> None:
    """Only here to take --version before a command."""


@_command(TURN, epilog=EPILOG)
def chat(options: "Options", prompt: Words = None) -> Command:
    """Talk with the model about the project. PROMPT is what you say first.

    Example: gemcode chat "why does the build fail?"
    """
    from gemcode.commands import chat as command

    return lambda: command.run(options, " ".join(prompt or []))


@_command(TURN, OUTPUT, epilog=EPILOG)
def ask(
    options: "Options",
    prompt: Words = None,
    tool_choice: Annotated[
        str, typer.Option("--tool-choice", metavar="CHOICE", help="First step: auto, required, none or a tool.")
    ] = "auto",
) -> Command:
    """One prompt, one answer on stdout. What is piped in is added to PROMPT.

    Example: git diff | gemcode ask "review this"

    A PROMPT of - is read from stdin: gemcode ask - < prompt.txt
    """
    from gemcode.commands import ask as command

    return lambda: command.run(options, prompt or [], tool_choice)


@_command()
def demo(options: "Options", play: PlayOption = False) -> Command:
    """The assistant on a scratch project: no key, no network.

    Example: gemcode demo --play
    """
    from gemcode.commands import demo as command

    return lambda: command.run(play=play, no_color=options.no_color)


@_command(PROJECT, READ_ONLY)
def tools(
    options: "Options",
    as_json: Annotated[bool, typer.Option("--json", help="The declarations exactly as the model gets them.")] = False,
) -> Command:
    """The tools that the model can call.

    Example: gemcode tools --json
    """
    from gemcode.commands import show

    return lambda: show.tools(options, as_json=as_json)


@_command(PROJECT, MODEL)
def models(options: "Options", as_json: JsonOption = False) -> Command:
    """Models with their limits, thinking levels and prices.

    Example: gemcode models
    """
    from gemcode.commands import show

    return lambda: show.models(options, as_json=as_json)


@_command(PROJECT, MODEL)
def doctor(options: "Options") -> Command:
    """What works here and what does not. Makes no request.

    Example: gemcode doctor
    """
    from gemcode.commands import doctor as command

    return lambda: command.run(options)


@_command(PROJECT)
def history(
    options: "Options",
    path: Annotated[str, typer.Argument(metavar="PATH", hidden=True)] = "",
    diff: Annotated[bool, typer.Option("--diff", help="Show what each write changed.")] = False,
) -> Command:
    """The writes that gemcode made here, newest last.

    With a PATH: only those to that file.

    Example: gemcode history src/app.py --diff
    """
    from gemcode.commands import journal

    return lambda: journal.history(options, path, diff=diff)


@_command(PROJECT)
def undo(
    options: "Options",
    write: Id = "",
    turn: Annotated[bool, typer.Option("--turn", help="The whole turn that the write belongs to.")] = False,
    yes: YesOption = False,
) -> Command:
    """Take a write back: the one with this ID, or the last.

    An undo is a write itself, so undo twice is redo.

    Example: gemcode undo
    """
    from gemcode.commands import journal

    return lambda: journal.undo(options, write, turn=turn, yes=yes)


@_command(PROJECT)
def restore(options: "Options", write: Id, yes: YesOption = False) -> Command:
    """Bring back the bytes from before a write. See the IDs with: gemcode history

    Example: gemcode restore w3k9
    """
    from gemcode.commands import journal

    return lambda: journal.restore(options, write, yes=yes)


@_command(PROJECT)
def sessions(
    options: "Options", action: SessionsAction = "list", session: Id = "", as_json: JsonOption = False
) -> Command:
    """Saved conversations of this project. show and delete need an ID.

    Example: gemcode sessions show k3f9
    """
    from gemcode.commands import sessions as command

    return lambda: command.run(options, action, session, as_json=as_json)


@_command(PROJECT)
def audit(options: "Options", action: AuditAction = "show", as_json: JsonOption = False) -> Command:
    """The tamper-evident log of every tool execution.

    Example: gemcode audit verify
    """
    from gemcode.commands import audit as command

    return lambda: command.run(options, action, as_json=as_json)


@_command(PROJECT)
def stats(
    options: "Options",
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="A page with plots.")] = None,
    as_json: JsonOption = False,
) -> Command:
    """What the sessions of this project add up to.

    Example: gemcode stats --html stats.html
    """
    from gemcode.commands import stats as command

    return lambda: command.run(options, html, as_json=as_json)


@_command(PROJECT)
def replay(options: "Options", session: Id) -> Command:
    """Show a past session again, tool by tool. Nothing is run.

    Example: gemcode replay k3f9
    """
    from gemcode.commands import stats as command

    return lambda: command.show_again(options, session)


@_command(MODEL)
def serve(
    options: "Options",
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: PortOption = 8787,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="The token; made 0600 if missing.")
    ] = None,
    model_map: Annotated[
        str, typer.Option("--model-map", metavar="MAP", help="claude-opus*=gemini-3.1-pro-preview,…")
    ] = "",
) -> Command:
    """Let Claude, OpenAI, Bedrock and Gemini clients run on Gemini.

    Example: gemcode serve --token-file ~/.config/gemcode/token
    """
    from gemcode.commands import serve as command

    return lambda: command.run(options, host, port, token_file, model_map)


@_command()
def convert(
    options: "Options",
    file: Annotated[str, typer.Argument(metavar="FILE", hidden=True)],
    source: Annotated[
        str, typer.Option("--from", metavar="DIALECT", help="anthropic, responses, chat, gemini, bedrock or amazonq.")
    ],
    target: Annotated[str, typer.Option("--to", metavar="DIALECT", help="As --from.")],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse what can't be kept.")] = False,
) -> Command:
    """Convert tool definitions, calls and results between dialects.

    Example: gemcode convert --from anthropic --to gemini tools.json

    A FILE of - is stdin.
    """
    from gemcode.commands import serve as command

    return lambda: command.convert(file, source, target, strict=strict)


@_command()
def simulator(
    options: "Options",
    scenario: Annotated[Path | None, typer.Option("--scenario", metavar="FILE", help="What it answers.")] = None,
    port: PortOption = 0,
) -> Command:
    """The built-in Gemini API simulator, for your own tests.

    Example: gemcode simulator --scenario tests/hello.json
    """
    from gemcode.commands import simulator as command

    return lambda: command.run(scenario, port)


def run(arguments: Sequence[str]) -> int:
    """The whole program; its exit code."""
    return exit_code(lambda: _parse(_with_command(arguments)))


def _with_command(arguments: Sequence[str]) -> list[str]:
    """Flags without a command are for chat. One that stands before its command is a mistake, not a prompt."""
    if arguments and (arguments[0] in BEFORE_A_COMMAND or not arguments[0].startswith("-")):
        return list(arguments)
    for word in arguments:
        if word in _names():
            raise UsageError("Flags come after the command.", f"Use: gemcode {word} {arguments[0]} …")
    return ["chat", *arguments]


def _names() -> set[str]:
    return {command.callback.__name__ for command in app.registered_commands if command.callback}


def _parse(arguments: list[str]) -> Command:
    """What the command line asks for. Help, the version and completion are all that typer itself prints."""
    printed = io.StringIO()
    chosen: Command | int | str | None
    try:
        with contextlib.redirect_stdout(printed):
            chosen = app(args=arguments, prog_name="gemcode", standalone_mode=False)
    except typer.TyperException as error:
        command = f"{arguments[0]} " if arguments[0] in _names() else ""
        raise UsageError(error.format_message(), f"See: gemcode {command}--help") from None
    except SystemExit as end:  # completion ends like this
        chosen = end.code
    if callable(chosen):
        return chosen
    write_stdout(printed.getvalue())
    code = int(chosen or 0)
    return lambda: code
