"""Run the corpus rows that need mounts, in a mount namespace of this process's own. A script: see test_corpus."""

import ctypes
import importlib
import json
import os
import sys
from pathlib import Path

from gemcode.workspace.listing import ListingLimits, list_files
from gemcode.workspace.root import Root
from tests.workspace.corpus import INSIDE, ROWS, Place, build
from tests.workspace.operations import Resolver, run

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_LIBC = ctypes.CDLL(None, use_errno=True)
CAN_NOT = 77


def mount(source: str, target: str, kind: str, flags: int) -> None:
    if _LIBC.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def enter_namespace() -> None:
    uid, gid = os.getuid(), os.getgid()
    if _LIBC.unshare(_NEW_MOUNTS | (_NEW_USER if uid else 0)) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    mount("none", "/", "", _RECURSIVE | _PRIVATE)


def build_with_mounts(base: Path) -> Place:
    elsewhere = base / "elsewhere"
    elsewhere.mkdir(parents=True)
    (elsewhere / "ok").write_bytes(INSIDE)
    place = build(base / "outside")
    for point in ("mount", "tmpfs", "proc"):
        (place.project / point).mkdir()
    mount(str(elsewhere), str(place.project / "mount"), "", _BIND)
    mount("tmpfs", str(place.project / "tmpfs"), "tmpfs", 0)
    mount("/proc", str(place.project / "proc"), "", _BIND | _RECURSIVE)
    return place


def main(table: str, resolver: Resolver, directory: str) -> None:
    module, _, attribute = table.partition(":")
    operations = getattr(importlib.import_module(module), attribute)
    try:
        enter_namespace()
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(CAN_NOT)
    outcomes: dict[str, str] = {}
    for row in (row for row in ROWS if row.needs == "mounts"):
        for name, operation in operations.items():
            place = build_with_mounts(Path(directory) / f"{row.id}-{name}")
            outcomes[f"{row.id} {name}"] = run(row, resolver, name, operation, place)
    place = build_with_mounts(Path(directory) / "listed")
    with Root.open(place.project, resolver) as root:
        listing = list_files(root, limits=ListingLimits())
    print(json.dumps({"outcomes": outcomes, "files": listing.files, "notes": listing.notes}))


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]  # the resolver comes from test_corpus
