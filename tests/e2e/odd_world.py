"""The real program in a world that is odd: no descriptors left, addresses that lead nowhere, a clock that jumps.

python tests/e2e/odd_world.py ARGUMENTS…; what is odd is said by ODD_ADDRESSES, ODD_FILES and ODD_CLOCK.
"""

import itertools
import os
import resource
import runpy
import socket
import sys
import time
from collections.abc import Callable
from typing import Any


def take_all_files() -> None:
    """From now on no descriptor is to be had: not for a socket, not for a file."""
    next_one = os.dup(0)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def resolve_to(addresses: list[str], then: Callable[[], None]) -> None:
    """Every name has these addresses, as if the machine's resolver had said so. `then` happens before the connect."""
    real = socket.getaddrinfo

    def resolved(host: Any, *more: Any, **named: Any) -> list[Any]:
        found = [each for address in addresses for each in real(address, *more, **named)]
        then()
        return found

    socket.getaddrinfo = resolved  # type: ignore[assignment]  # the same, for the arguments that are used


def jump(offsets: list[float]) -> None:
    """The wall clock is off by one of these after the other, in seconds, each time that it is read."""
    real, coming = time.time, itertools.cycle(offsets)
    time.time = lambda: real() + next(coming)


if __name__ == "__main__":
    if "ODD_ADDRESSES" in os.environ:
        resolve_to(
            os.environ["ODD_ADDRESSES"].split(","), take_all_files if "ODD_FILES" in os.environ else lambda: None
        )
    if "ODD_CLOCK" in os.environ:
        jump([float(offset) for offset in os.environ["ODD_CLOCK"].split(",")])
    sys.path.pop(0)  # the directory of this file
    runpy.run_module("gemcode", run_name="__main__", alter_sys=True)
