"""The limits of the tools, and of what the service sends, as data. Each has a fixed maximum that no setting passes."""

from gemcode.frozen import frozen

MEGABYTE = 1024 * 1024


@frozen
class Bounds:
    """Defaults. Sizes in bytes, times in seconds."""

    read_bytes: int = MEGABYTE
    write_bytes: int = MEGABYTE
    shown_bytes: int = 48 * 1024  # of one result; with its JSON it stays under 64 KiB
    line_characters: int = 2_000
    list_entries: int = 1_000
    list_depth: int = 64
    list_seconds: float = 2.0
    search_matches: int = 200
    search_files: int = 10_000
    search_bytes: int = 64 * MEGABYTE
    search_seconds: float = 5.0
    call_seconds: float = 30.0
    calls_per_turn: int = 200
    writes_per_turn: int = 50
    calls_per_minute: float = 600.0
    writes_per_minute: float = 120.0
    event_bytes: int = 16 * MEGABYTE  # of one event of a stream


MAXIMA = Bounds(
    read_bytes=8 * MEGABYTE,
    write_bytes=8 * MEGABYTE,
    shown_bytes=64 * 1024,
    line_characters=10_000,
    list_entries=10_000,
    list_depth=256,
    list_seconds=20.0,
    search_matches=2_000,
    search_files=200_000,
    search_bytes=1024 * MEGABYTE,
    search_seconds=25.0,
    call_seconds=600.0,
    calls_per_turn=2_000,
    writes_per_turn=500,
    calls_per_minute=6_000.0,
    writes_per_minute=1_200.0,
    event_bytes=32 * MEGABYTE,
)
