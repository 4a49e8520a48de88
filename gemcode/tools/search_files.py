"""search_files: matches with line numbers. RE2 runs in linear time, so no pattern can hang the search."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import re2
from pydantic import Field

from gemcode.agent.arguments import Arguments, WholeNumber
from gemcode.agent.errors import ToolError
from gemcode.agent.policy import Effect, Sensitivity
from gemcode.agent.tool import Output, Preview, Tool
from gemcode.frozen import frozen
from gemcode.tools.workbench import Workbench, sensitivity
from gemcode.workspace import names, osfs
from gemcode.workspace.listing import WalkReport, walk_files
from gemcode.workspace.text import Binary, decode, split_lines
from gemcode.workspace.wildmatch import compile_glob

DESCRIPTION = "Search file contents by regular expression (RE2) or literal text. Ignored and binary files are left out."
# RE2 is linear in the text, but each character may cost as much as the pattern is long: so both are bounded, and the
# clock is looked at after each block of lines.
_PATTERN_CHARACTERS = 1_000
_PATTERN_MEMORY = 1024 * 1024
_BLOCK = 64 * 1024


class SearchFilesArguments(Arguments):
    pattern: str = Field(min_length=1, description="What to find, within one line")
    path: str = Field(default=".", description="File or directory, relative to the project root")
    glob: str | None = Field(default=None, description='Only paths like this, such as "*.py"')
    literal: bool = Field(default=False, description="The pattern is plain text")
    ignore_case: bool = False
    context: WholeNumber = Field(default=0, ge=0, le=10, description="Lines to show around each match")


@dataclass(slots=True)
class _Tally:
    """What the search has used up and found."""

    deadline: float
    room: int  # bytes left in the result
    matches: list[dict[str, object]] = field(default_factory=list)
    found: int = 0
    files: int = 0
    files_matched: int = 0
    data: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


@frozen
class _Matcher:
    """`maybe` is asked once a block of lines and never misses; `line` decides line by line."""

    maybe: Callable[[str], object]
    line: Callable[[str], object]


def search_files(bench: Workbench) -> Tool[SearchFilesArguments]:
    def run(arguments: SearchFilesArguments, _: Preview | None) -> Output:
        matcher = _matcher(arguments)
        tally = _Tally(time.monotonic() + bench.bounds.search_seconds, bench.bounds.shown_bytes)
        for path, data in _contents(bench, arguments, tally):
            _search(path, data, matcher, arguments.context, tally, bench)
            if not _go_on(tally, bench):
                break
        value: dict[str, object] = {"matches": tally.matches, "files_searched": tally.files}
        if tally.found > len(tally.matches):
            value["more"] = True
        if tally.notes:
            value["notes"] = tally.notes
        plural = "" if tally.found == 1 else "es"
        many = "" if tally.files_matched == 1 else "s"
        return Output(value, f"{tally.found} match{plural} in {tally.files_matched} file{many}")

    return Tool("search_files", DESCRIPTION, SearchFilesArguments, Effect.READ, run, _subject)


def _matcher(arguments: SearchFilesArguments) -> _Matcher:
    if len(arguments.pattern) > _PATTERN_CHARACTERS and not arguments.literal:
        raise ToolError("invalid_pattern", f"The pattern is longer than {_PATTERN_CHARACTERS} characters; shorten it.")
    options = re2.Options()
    options.case_sensitive = not arguments.ignore_case
    options.literal = arguments.literal
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    try:
        line = re2.compile(arguments.pattern, options).search
        if arguments.literal or not any(anchor in arguments.pattern for anchor in (r"\A", r"\z")):
            whole = arguments.pattern if arguments.literal else f"(?m:{arguments.pattern})"
            return _Matcher(re2.compile(whole, options).search, line)
    except re2.error as error:
        said = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error.args[0])
        raise ToolError(
            "invalid_pattern", f"Not a valid RE2 pattern: {said}. Set literal=true to search for it as plain text."
        ) from None
    return _Matcher(lambda _: True, line)


def _contents(bench: Workbench, arguments: SearchFilesArguments, tally: _Tally) -> Iterator[tuple[str, bytes]]:
    """The files to search, opened one by one; what can't be searched is noted, not fatal."""
    matches = compile_glob(arguments.glob) if arguments.glob is not None else None
    for path in _paths(bench, arguments.path, tally):
        if matches is not None and not (matches(path) or matches(path.rsplit("/", 1)[-1])):
            continue
        try:
            with bench.root.open_file(names.to_handle(path)) as file:
                if sensitivity(file.path) is Sensitivity.SECRET:  # what was opened: the name may be a link by now
                    tally.note("Files that may hold secrets were not searched.")
                    continue
                data = file.read(bench.bounds.read_bytes)
        except ToolError as error:
            if error.kind == "too_large":
                tally.note(f"Files over {bench.bounds.read_bytes} bytes were not searched.")
            continue
        tally.files += 1
        tally.data += len(data)
        yield path, data


def _paths(bench: Workbench, path: str, tally: _Tally) -> Iterator[str]:
    if not _is_directory(bench, path):
        with bench.root.open_file(path) as file:
            yield file.path
        return
    report = WalkReport()
    for found in walk_files(bench.root, path, limits=bench.listing_limits(), report=report):
        if not found.is_link:
            yield found.path
    for note in report.notes:
        tally.note(note)


def _is_directory(bench: Workbench, path: str) -> bool:
    try:
        osfs.close(bench.root.open_directory(path))
    except ToolError as error:
        if error.kind == "not_a_directory":
            return False
        raise
    return True


def _search(path: str, data: bytes, matcher: _Matcher, context: int, tally: _Tally, bench: Workbench) -> None:
    text = decode(data)
    if isinstance(text, Binary):
        return
    view = text.view
    lines: list[str] = []
    before = tally.found
    for start, block in _blocks(view):
        if matcher.maybe(block):
            lines = lines or [line.rstrip("\n") for line in split_lines(view)]
            first = view.count("\n", 0, start)
            for index in range(first, first + block.count("\n") + (block[-1] != "\n")):
                if matcher.line(lines[index]) and not _add(path, lines, index, context, tally, bench):
                    break
        if tally.room == 0 or time.monotonic() > tally.deadline:
            break
    tally.files_matched += tally.found > before


def _blocks(view: str) -> Iterator[tuple[int, str]]:
    """The text in pieces of whole lines, each with its offset."""
    start = 0
    while start < len(view):
        stop = view.find("\n", start + _BLOCK) + 1 or len(view)
        yield start, view[start:stop]
        start = stop


def _add(path: str, lines: list[str], index: int, context: int, tally: _Tally, bench: Workbench) -> bool:
    """Note a match; False when there is no room for it."""
    longest = bench.bounds.line_characters
    tally.found += 1
    match: dict[str, object] = {"path": names.to_handle(path), "line": index + 1, "text": lines[index][:longest]}
    if context:
        match["before"] = [near[:longest] for near in lines[max(0, index - context) : index]]
        match["after"] = [near[:longest] for near in lines[index + 1 : index + 1 + context]]
    size = len(repr(match))
    if size > tally.room or len(tally.matches) >= bench.bounds.search_matches:
        tally.note(f"Only the first {len(tally.matches)} matches are shown. Narrow the pattern, path or glob.")
        tally.room = 0
        return False
    tally.room -= size
    tally.matches.append(match)
    return True


def _go_on(tally: _Tally, bench: Workbench) -> bool:
    bounds = bench.bounds
    if tally.room == 0:
        return False
    if time.monotonic() > tally.deadline:
        tally.note(f"Stopped after {bounds.search_seconds:g} s. Narrow the path or glob.")
    elif tally.files >= bounds.search_files:
        tally.note(f"Stopped after {bounds.search_files} files. Narrow the path or glob.")
    elif tally.data >= bounds.search_bytes:
        tally.note(f"Stopped after {bounds.search_bytes} bytes. Narrow the path or glob.")
    else:
        return True
    return False


def _subject(arguments: SearchFilesArguments) -> str:
    return f"{arguments.pattern!r} in {arguments.path}"
