"""A process that exchanges two names as fast as it can: the adversary of the path races. Run by `swapping`."""

import contextlib
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gemcode.workspace import osfs

_ROUND = 64


@dataclass(slots=True)
class Swaps:
    count: int = 0  # known once the adversary has stopped


@contextlib.contextmanager
def swapping(directory: Path, first: str, second: str) -> Iterator[Swaps]:
    """Exchange `first` and `second` below `directory` for as long as the block runs."""
    command = [sys.executable, "-m", "tests.workspace.swapper", str(directory), first, second]
    swaps = Swaps()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield swaps
        finally:
            output, _ = process.communicate(timeout=30)
        swaps.count = int(output)


def main(directory: str, first: str, second: str) -> None:
    fd = osfs.open(directory, 0)
    osfs.exchange(fd, first, fd, second)
    print("ready", flush=True)
    count = 1
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(_ROUND):
            osfs.exchange(fd, first, fd, second)
        count += _ROUND
    print(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
