"""list_files: the project's files in order, without what .gitignore and .gemcodeignore hide, page by page."""

from pydantic import Field

from gemcode.agent.arguments import Arguments
from gemcode.agent.policy import Effect
from gemcode.agent.tool import Output, Preview, Tool
from gemcode.tools.workbench import Workbench
from gemcode.workspace import listing

DESCRIPTION = "List file paths below a directory, sorted. Ignored files are left out."


class ListFilesArguments(Arguments):
    path: str = Field(default=".", description="Directory, relative to the project root")
    pattern: str | None = Field(default=None, description='Glob such as "*.py" or "src/**/test_*"')
    after: str | None = Field(default=None, description="Go on after this path, from the last result's `next`")


def list_files(bench: Workbench) -> Tool[ListFilesArguments]:
    def run(arguments: ListFilesArguments, _: Preview | None) -> Output:
        page = listing.list_files(
            bench.root, arguments.path, arguments.pattern, limits=bench.listing_limits(), cursor=arguments.after
        )
        files, kept = _fitting(page.files, bench.bounds.shown_bytes)
        following = page.next_cursor if kept else files[-1]
        value: dict[str, object] = {"files": files}
        if page.links:
            value["links"] = sorted(page.links.intersection(files))
        if page.truncated or not kept:
            value["more"] = True
        if following is not None:
            value["next"] = following
        if page.notes:
            value["notes"] = list(page.notes)
        more = " and more" if value.get("more") else ""
        return Output(value, f"{len(files)} file{'' if len(files) == 1 else 's'}{more}")

    return Tool("list_files", DESCRIPTION, ListFilesArguments, Effect.READ, run, _subject)


def _fitting(files: tuple[str, ...], room: int) -> tuple[list[str], bool]:
    """As many paths as fit into the result, and whether that is all of them."""
    for index, path in enumerate(files):
        room -= len(path.encode("utf-8")) + 4
        if room < 0 and index:
            return list(files[:index]), False
    return list(files), True


def _subject(arguments: ListFilesArguments) -> str:
    return arguments.path if arguments.pattern is None else f"{arguments.pattern} in {arguments.path}"
