"""@path in a prompt: the file's content, or a directory's listing, goes along with it. A missing one is an error."""

import difflib
import re
from collections.abc import Callable
from typing import Any

from gemcode.agent.errors import ToolError, UsageError
from gemcode.agent.messages import Blob, Text, UserMessage, UserPart
from gemcode.tools.list_files import ListFilesArguments, list_files
from gemcode.tools.read_file import ReadFileArguments, read_file
from gemcode.tools.workbench import Workbench, tidy
from gemcode.workspace import listing
from gemcode.workspace.names import to_handle
from gemcode.workspace.text import decode

_MENTION = re.compile(r'(?<![^\s(\["\'`])@(?:"([^"\n]+)"|([^\s"\'`]+))')
_ESCAPED = re.compile(r"(?<!\S)\\@")
_TRAILING = ".,;:!?)]}>"
_MEDIA = {"PNG image": "image/png", "JPEG image": "image/jpeg", "PDF document": "application/pdf"}


def expand(prompt: str, bench: Workbench, told: Callable[[str], None] = lambda _: None) -> UserMessage:
    """The message for a prompt, which begins a new turn; UsageError for what can't be read. `\\@` is a plain @.

    `told` gets a line for each attachment, with its size.
    """
    bench.begin_turn()
    attached: dict[str, tuple[UserPart, str]] = {}
    for match in _MENTION.finditer(prompt):
        path = match[1] or match[2]
        if path in attached:
            continue
        try:
            attached[path] = _attachment(path, bench)
        except ToolError as error:
            shorter = path.rstrip(_TRAILING)
            if error.kind != "not_found" or not shorter or shorter == path:
                raise _explain(path, error, bench) from None
            try:
                attached[shorter] = _attachment(shorter, bench)
            except ToolError as second:
                raise _explain(shorter, second, bench) from None
    for path, (_, size) in attached.items():
        told(f"@{path}: {size}")
    return UserMessage((Text(_ESCAPED.sub("@", prompt)), *(part for part, _ in attached.values())))


def _attachment(path: str, bench: Workbench) -> tuple[UserPart, str]:
    """What goes along, and how large it is. The user named it, so no question is asked, not even for a secret."""
    try:
        value: Any = _read(path, bench)
    except ToolError as error:
        if error.kind not in ("is_a_directory", "invalid_path") or (
            error.kind == "invalid_path" and path[-1:] not in "/."
        ):
            raise
        value = list_files(bench).run(ListFilesArguments(path=path), None).value
        more = "\n(and more)" if "more" in value else ""
        files = value["files"]
        size = f"a listing of {len(files)} file{'' if len(files) == 1 else 's'}{' and more' if more else ''}"
        return Text(f"\n\nFiles in {path}:\n" + "\n".join(files) + more), size
    if "binary" in value:
        if value["binary"] not in _MEDIA:
            raise ToolError("binary", f"{path} is binary ({value['binary']}, {value['size']} bytes).")
        with bench.root.open_file(path) as file:
            data = file.read(bench.bounds.read_bytes)
            if getattr(decode(data), "kind", "") != value["binary"]:
                raise ToolError("stale", f"{path} changed while it was read; try again.")
            return Blob(_MEDIA[value["binary"]], data), f"{value['binary']}, {len(data):,} bytes"
    lines = f"lines {value['first_line']}-{value['last_line']} of {value['total_lines']}"
    content = value["content"]
    return Text(f"\n\n{path} ({lines}):\n```\n{content}```"), f"{lines}, {len(content.encode()):,} bytes"


def _read(path: str, bench: Workbench) -> object:
    tool, arguments = read_file(bench), ReadFileArguments(path=path)
    secret = tool.preview(arguments)
    if secret is not None and to_handle(secret.path) != tidy(path):
        raise ToolError("protected", f"it is a link to {secret.path}, which {secret.why}; name that one.")
    return tool.run(arguments, secret).value


def _explain(path: str, error: ToolError, bench: Workbench) -> UsageError:
    if error.kind != "not_found":
        return UsageError(f"@{path}: {error.message}", "Name another file, or write \\@ for a plain @.")
    files = listing.list_files(bench.root, limits=bench.listing_limits()).files
    by_name = {name.rsplit("/", 1)[-1]: name for name in files}
    close = difflib.get_close_matches(path, files, n=1) or [
        by_name[name] for name in difflib.get_close_matches(path.rsplit("/", 1)[-1], by_name, n=1)
    ]
    hint = f"Did you mean @{close[0]}?" if close else "Write \\@ for a plain @."
    return UsageError(f"@{path} does not exist.", hint)
