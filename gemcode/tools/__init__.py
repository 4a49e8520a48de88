"""The tools, one file each. Adding one is a file and a line here."""

from gemcode.agent.tool import AnyTool
from gemcode.tools.edit_file import edit_file
from gemcode.tools.list_files import list_files
from gemcode.tools.read_file import read_file
from gemcode.tools.search_files import search_files
from gemcode.tools.workbench import Workbench
from gemcode.tools.write_file import write_file

TOOLS = (list_files, read_file, search_files, edit_file, write_file)


def build_tools(bench: Workbench) -> tuple[AnyTool, ...]:
    """All tools, at work on one project."""
    return tuple(make(bench) for make in TOOLS)
