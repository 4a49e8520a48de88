"""The tools, one file each. Adding one is a file and two lines here."""

from gemcode.agent.tool import AnyTool
from gemcode.tools.workbench import Workbench


def build_tools(bench: Workbench) -> tuple[AnyTool, ...]:
    """All tools, at work on one project. They come with pydantic, which the first prompt does not wait for."""
    from gemcode.tools.edit_file import edit_file
    from gemcode.tools.list_files import list_files
    from gemcode.tools.read_file import read_file
    from gemcode.tools.search_files import search_files
    from gemcode.tools.write_file import write_file

    return tuple(make(bench) for make in (list_files, read_file, search_files, edit_file, write_file))
