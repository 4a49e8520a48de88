"""read_file: text with its encoding and line span, or what kind of binary a file is."""

from pydantic import Field

from gemcode.agent.arguments import Arguments, LineNumber
from gemcode.agent.errors import ToolError
from gemcode.agent.policy import Effect, Sensitivity
from gemcode.agent.tool import Output, Preview, SecretRead, Tool
from gemcode.tools.workbench import Workbench, sensitivity
from gemcode.workspace import names
from gemcode.workspace.objects import hash_of
from gemcode.workspace.text import Binary, decode, line_span

DESCRIPTION = "Read a text file. Long files come in parts: go on with start_line."


class ReadFileArguments(Arguments):
    path: str = Field(description="File, relative to the project root")
    start_line: LineNumber = Field(default=1, description="First line, from 1")
    end_line: LineNumber | None = Field(default=None, description="Last line, inclusive")


def read_file(bench: Workbench) -> Tool[ReadFileArguments]:
    def preview(arguments: ReadFileArguments) -> Preview | None:
        with bench.root.open_file(arguments.path) as file:
            real = file.path  # a link to a secret is as secret as the file behind it
        return SecretRead(real, names.reason(real)) if sensitivity(real) is Sensitivity.SECRET else None

    def run(arguments: ReadFileArguments, approved: Preview | None) -> Output:
        with bench.root.open_file(arguments.path) as file:
            asked = approved.path if isinstance(approved, SecretRead) else ""
            if sensitivity(file.path) is Sensitivity.SECRET and asked != file.path:  # the yes was for another file
                raise ToolError("stale", f"{arguments.path} became another file while it was opened. Try again.")
            data = file.read(bench.bounds.read_bytes)
            path, notes = file.path, ["has a second name (hard link)"] if file.hard_linked else []
        text = decode(data)
        if isinstance(text, Binary):
            return Output({"binary": text.kind, "size": text.size}, f"{text.kind}, {text.size} bytes")
        bounds = bench.bounds
        first, last = arguments.start_line, arguments.end_line
        span = line_span(text.text, first, last, bounds.shown_bytes, bounds.line_characters)
        bench.known.saw(path, hash_of(data), span)
        value: dict[str, object] = {
            "content": span.text,
            "first_line": span.first,
            "last_line": span.last,
            "total_lines": span.total,
            "encoding": text.encoding,
            "line_ends": text.newline,
        }
        if not text.final_newline and span.total:
            notes.append("no line end after the last line")
        if span.cut:
            notes.append(span.cut.message)
        if notes:
            value["notes"] = notes
        return Output(value, f"{span.last - span.first + 1} of {span.total} lines")

    return Tool("read_file", DESCRIPTION, ReadFileArguments, Effect.READ, run, _subject, preview)


def _subject(arguments: ReadFileArguments) -> str:
    if arguments.start_line == 1 and arguments.end_line is None:
        return arguments.path
    return f"{arguments.path}:{arguments.start_line}-{arguments.end_line or ''}"
