"""write_file: a whole new content, or an addition at the end. Confirmed, backed up, atomic, compare-and-swap."""

from typing import Literal

from pydantic import Field

from gemcode.agent.arguments import Arguments
from gemcode.agent.policy import Effect
from gemcode.agent.tool import FileChange, Output, Preview, Tool
from gemcode.tools import writing
from gemcode.tools.workbench import Workbench, tidy
from gemcode.workspace.edit import new_content

DESCRIPTION = "Create a file, or replace or extend one. Read an existing file before you overwrite it."


class WriteFileArguments(Arguments):
    path: str = Field(description="File, relative to the project root; missing directories are created")
    content: str
    mode: Literal["overwrite", "append"] = "overwrite"


def write_file(bench: Workbench) -> Tool[WriteFileArguments]:
    def preview(arguments: WriteFileArguments) -> FileChange:
        before = writing.look(bench, arguments.path)
        if arguments.mode == "overwrite":
            bench.known.require(before, whole=True)
        return writing.change(bench, before, new_content(before.data, arguments.content, arguments.mode))

    def run(_: WriteFileArguments, approved: Preview | None) -> Output:
        return writing.commit(bench, approved, "write_file")

    return Tool("write_file", DESCRIPTION, WriteFileArguments, Effect.WRITE, run, _subject, preview)


def _subject(arguments: WriteFileArguments) -> str:
    return tidy(arguments.path)
