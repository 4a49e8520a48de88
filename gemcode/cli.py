"""Flags → Options → a command. The only typer import; what a command needs is imported when it runs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from gemcode import __version__
from gemcode.agent.errors import ExitCode, GemcodeError
from gemcode.running import exit_code, tell
from gemcode.terminal.headless import OutputFormat
from gemcode.terminal.safe import write_stdout

HELP = "A terminal coding assistant for Google Gemini that you can trust with your only copy."
EPILOG = "Exit codes: 0 ok, 1 API, 2 usage, 3 blocked, 4 incomplete, 5 write refused, 6 quota, 130 interrupted."

app = typer.Typer(
    name="gemcode",
    epilog="Without a command: chat. Try it with no key and no network: gemcode demo",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


def _version(wanted: bool) -> None:
    if wanted:
        write_stdout(f"gemcode {__version__}\n")
        raise typer.Exit


ProjectOption = Annotated[Path, typer.Option("-C", "--project", metavar="DIR", help="The project's directory.")]
ModelOption = Annotated[str, typer.Option("-m", "--model", metavar="NAME", help="The model. See: gemcode models")]
ApproveOption = Annotated[
    str, typer.Option(metavar="MODE", help="ask, edits, all or none. Default: ask; none without a terminal.")
]
VersionOption = Annotated[
    bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version.")
]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Same as --approve edits.")]
ReadOnlyOption = Annotated[bool, typer.Option("--read-only", help="Same as --approve none.")]
OutputOption = Annotated[OutputFormat, typer.Option("-o", "--output-format", help="What goes to stdout.")]
StepsOption = Annotated[int | None, typer.Option("--max-steps", min=1, metavar="N", help="Stop after N model answers.")]
CostOption = Annotated[
    float | None, typer.Option("--max-cost", min=0.0, metavar="USD", help="Stop when this much is spent.")
]
TimeOption = Annotated[
    float | None, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Time for the whole turn.")
]
FallbackOption = Annotated[
    str, typer.Option("--fallback-model", metavar="NAME", help="Go on with it when the model can't be reached.")
]
ResumeOption = Annotated[str, typer.Option(metavar="ID", help="Go on with a session. See: gemcode sessions")]
ContinueOption = Annotated[bool, typer.Option("-c", "--continue", help="Go on with the last session.")]
VerboseOption = Annotated[bool, typer.Option("-v", "--verbose", help="Details of requests and errors, on stderr.")]
ColorOption = Annotated[bool, typer.Option("--no-color", help="No colours.")]
YesAnswer = Annotated[bool, typer.Option("-y", "--yes", help="Do it without asking.")]


@app.callback(help=HELP)
def _all(version: VersionOption = False) -> None:
    """Only here to take --version before a command."""


@app.command(epilog=EPILOG)
def chat(
    prompt: Annotated[list[str] | None, typer.Argument(help="A first prompt.")] = None,
    project: ProjectOption = Path(),
    model: ModelOption = "",
    approve: ApproveOption = "",
    yes: YesOption = False,
    read_only: ReadOnlyOption = False,
    max_steps: StepsOption = None,
    max_cost: CostOption = None,
    timeout: TimeOption = None,
    fallback_model: FallbackOption = "",
    resume: ResumeOption = "",
    continue_: ContinueOption = False,
    verbose: VerboseOption = False,
    no_color: ColorOption = False,
    version: VersionOption = False,
) -> None:
    """Talk with the model about the project.

    Example: gemcode chat "why does the build fail?"
    """
    from gemcode.commands import chat as command

    options = _options(locals())
    _run(lambda: command.run(options, " ".join(prompt or [])))


@app.command(epilog=EPILOG)
def ask(
    prompt: Annotated[list[str] | None, typer.Argument(help="What you want; - reads it from stdin.")] = None,
    project: ProjectOption = Path(),
    model: ModelOption = "",
    approve: ApproveOption = "",
    yes: YesOption = False,
    read_only: ReadOnlyOption = False,
    output_format: OutputOption = OutputFormat.TEXT,
    max_steps: StepsOption = None,
    max_cost: CostOption = None,
    timeout: TimeOption = None,
    fallback_model: FallbackOption = "",
    resume: ResumeOption = "",
    continue_: ContinueOption = False,
    tool_choice: Annotated[
        str, typer.Option("--tool-choice", metavar="CHOICE", help="First step: auto, required, none or a tool's name.")
    ] = "auto",
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Keep the traffic as a simulator scenario.")
    ] = None,
    verbose: VerboseOption = False,
    no_color: ColorOption = False,
    version: VersionOption = False,
) -> None:
    """One prompt, one answer on stdout.

    Example: git diff | gemcode ask "review this"
    """
    from gemcode.commands import ask as command

    options = _options(locals())
    _run(lambda: command.run(options, prompt or [], tool_choice))


@app.command()
def demo(
    play: Annotated[bool, typer.Option("--play", help="Run the whole tour unattended.")] = False,
    no_color: ColorOption = False,
) -> None:
    """The assistant on a scratch project, with no key and no network.

    Example: gemcode demo --play
    """
    from gemcode.commands import demo as command

    _run(lambda: command.run(play=play, no_color=no_color))


@app.command()
def tools(
    as_json: Annotated[bool, typer.Option("--json", help="The declarations exactly as the model gets them.")] = False,
    project: ProjectOption = Path(),
    read_only: ReadOnlyOption = False,
) -> None:
    """The tools that the model can call.

    Example: gemcode tools --json
    """
    from gemcode.commands import show

    options = _options(locals())
    _run(lambda: show.tools(options, as_json=as_json))


@app.command()
def models(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    project: ProjectOption = Path(),
    model: ModelOption = "",
) -> None:
    """Models, limits, thinking levels, prices, and which one is active.

    Example: gemcode models
    """
    from gemcode.commands import show

    options = _options(locals())
    _run(lambda: show.models(options, as_json=as_json))


@app.command()
def doctor(project: ProjectOption = Path(), model: ModelOption = "") -> None:
    """What works here and what does not. Makes no request.

    Example: gemcode doctor
    """
    from gemcode.commands import doctor as command

    options = _options(locals())
    _run(lambda: command.run(options))


@app.command()
def history(
    path: Annotated[str, typer.Argument(help="Only writes to this file.")] = "",
    project: ProjectOption = Path(),
    diff: Annotated[bool, typer.Option("--diff", help="Show what each write changed.")] = False,
) -> None:
    """The writes that gemcode made here, newest last.

    Example: gemcode history src/app.py --diff
    """
    from gemcode.commands import journal

    options = _options(locals())
    _run(lambda: journal.history(options, path, diff=diff))


@app.command()
def undo(
    write: Annotated[str, typer.Argument(metavar="ID", help="A write (default: the last one).")] = "",
    turn: Annotated[bool, typer.Option("--turn", help="The whole turn that the write belongs to.")] = False,
    project: ProjectOption = Path(),
    yes: YesAnswer = False,
) -> None:
    """Take a write back. An undo is a write itself: undo twice is redo.

    Example: gemcode undo
    """
    from gemcode.commands import journal

    options = _options(locals())
    _run(lambda: journal.undo(options, write, turn=turn, yes=yes))


@app.command()
def restore(
    write: Annotated[str, typer.Argument(metavar="ID", help="A write, as in: gemcode history")],
    project: ProjectOption = Path(),
    yes: YesAnswer = False,
) -> None:
    """Bring back the bytes from before a write.

    Example: gemcode restore w3k9
    """
    from gemcode.commands import journal

    options = _options(locals())
    _run(lambda: journal.restore(options, write, yes=yes))


@app.command()
def sessions(
    action: Annotated[str, typer.Argument(help="list, show or delete")] = "list",
    session: Annotated[str, typer.Argument(metavar="[ID]", help="A session, for show and delete.")] = "",
    project: ProjectOption = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Saved conversations of this project.

    Example: gemcode sessions show k3f9
    """
    from gemcode.commands import sessions as command

    options = _options(locals())
    _run(lambda: command.run(options, action, session, as_json=as_json))


@app.command()
def audit(
    action: Annotated[str, typer.Argument(help="show or verify")] = "show",
    project: ProjectOption = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="The records as they are.")] = False,
) -> None:
    """The tamper-evident log of every tool execution.

    Example: gemcode audit verify
    """
    from gemcode.commands import audit as command

    options = _options(locals())
    _run(lambda: command.run(options, action, as_json=as_json))


@app.command()
def stats(
    project: ProjectOption = Path(),
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="A page with plots.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What the sessions of this project add up to, per day and per tool.

    Example: gemcode stats --html stats.html
    """
    from gemcode.commands import stats as command

    options = _options(locals())
    _run(lambda: command.run(options, html, as_json=as_json))


@app.command()
def replay(
    session: Annotated[str, typer.Argument(metavar="ID", help="A session. See: gemcode sessions")],
    project: ProjectOption = Path(),
    no_color: ColorOption = False,
) -> None:
    """Show a past session again, tool by tool. Nothing is run.

    Example: gemcode replay k3f9
    """
    from gemcode.commands import stats as command

    options = _options(locals())
    _run(lambda: command.show_again(options, session))


@app.command()
def serve(
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 8787,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="The token; made 0600 if missing.")
    ] = None,
    model_map: Annotated[
        str, typer.Option("--model-map", metavar="MAP", help="claude-opus*=gemini-3.1-pro-preview,…")
    ] = "",
    model: ModelOption = "",
) -> None:
    """Let Claude, OpenAI, Bedrock and Gemini clients run on Gemini.

    Example: gemcode serve --token-file ~/.config/gemcode/token
    """
    from gemcode.commands import serve as command

    options = _options(locals())
    _run(lambda: command.run(options, host, port, token_file, model_map))


@app.command()
def convert(
    file: Annotated[str, typer.Argument(help="A JSON file; - reads stdin.")],
    source: Annotated[
        str, typer.Option("--from", metavar="DIALECT", help="anthropic, responses, chat, gemini, bedrock, amazonq")
    ],
    target: Annotated[str, typer.Option("--to", metavar="DIALECT", help="As --from.")],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse what can't be kept.")] = False,
) -> None:
    """Convert tool definitions, calls and results between dialects.

    Example: gemcode convert --from anthropic --to gemini tools.json
    """
    from gemcode.commands import serve as command

    _run(lambda: command.convert(file, source, target, strict=strict))


@app.command()
def simulator(
    scenario: Annotated[Path | None, typer.Option("--scenario", metavar="FILE", help="What it answers.")] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 0,
) -> None:
    """The built-in Gemini API simulator on this machine, for your own tests.

    Example: gemcode simulator --scenario tests/hello.json
    """
    from gemcode.commands import simulator as command

    _run(lambda: command.run(scenario, port))


def _options(given: dict[str, Any]) -> Any:
    """What the user gave, as Options. Modes that exclude each other are a usage error."""
    from gemcode import app as composition
    from gemcode.config import parse_mode

    flags: dict[str, Any] = {}
    wanted = [name for name in ("approve", "yes", "read_only") if given.get(name)]
    if len(wanted) > 1:
        _fail(GemcodeError("--approve, --yes and --read-only exclude each other.", "Give one of them."))
    try:
        if given.get("approve"):
            flags["approve"] = parse_mode(given["approve"])
    except GemcodeError as error:
        _fail(error)
    if given.get("yes") and "approve" in given:
        flags["approve"] = parse_mode("edits")
    if given.get("read_only"):
        flags["approve"] = parse_mode("none")
    flags |= {name: given[name] for name in ("model", "fallback_model", "max_steps", "timeout") if given.get(name)}
    if given.get("max_cost") is not None:
        flags["max_cost"] = given["max_cost"]
    return composition.Options(
        project=given.get("project", Path()),
        flags=flags,
        resume=given.get("resume", ""),
        latest=given.get("continue_", False),
        record=given.get("record"),
        output=given.get("output_format", OutputFormat.TEXT),
        verbose=given.get("verbose", False),
        no_color=given.get("no_color", False),
    )


def _run(command: Callable[[], int]) -> NoReturn:
    raise typer.Exit(exit_code(command))


def _fail(error: GemcodeError) -> NoReturn:
    tell(error)
    raise typer.Exit(int(ExitCode.USAGE))


def run(arguments: Sequence[str]) -> int:
    """The whole program; its exit code. No command means chat."""
    try:
        app(args=list(arguments) or ["chat"], prog_name="gemcode")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
