"""edit_file: exact replacements, all or none. Bytes outside of them stay as they are; a near miss is never applied."""

from pydantic import Field

from gemcode.agent.arguments import Arguments
from gemcode.agent.errors import ToolError
from gemcode.agent.policy import Effect
from gemcode.agent.tool import FileChange, Output, Preview, Tool
from gemcode.tools import writing
from gemcode.tools.workbench import Workbench, tidy
from gemcode.workspace.edit import Edit, apply_edits

DESCRIPTION = "Replace exact text in a file that you have read. All edits are made, or none."


class EditArguments(Arguments):
    old: str = Field(description="Text that occurs exactly once, with its indentation; add lines until it is unique")
    new: str
    all: bool = Field(default=False, description="Replace every occurrence")


class EditFileArguments(Arguments):
    path: str = Field(description="File, relative to the project root")
    edits: list[EditArguments] = Field(min_length=1, max_length=100)


def edit_file(bench: Workbench) -> Tool[EditFileArguments]:
    def preview(arguments: EditFileArguments) -> FileChange:
        before = writing.look(bench, arguments.path)
        if before.data is None:
            raise ToolError("not_found", f"{before.path} does not exist. Create it with write_file.", path=before.path)
        bench.known.require(before, whole=False)
        edits = [Edit(edit.old, edit.new, edit.all) for edit in arguments.edits]
        return writing.change(bench, before, apply_edits(before.data, edits))

    def run(_: EditFileArguments, approved: Preview | None) -> Output:
        return writing.commit(bench, approved, "edit_file")

    return Tool("edit_file", DESCRIPTION, EditFileArguments, Effect.WRITE, run, _subject, preview)


def _subject(arguments: EditFileArguments) -> str:
    return tidy(arguments.path)
