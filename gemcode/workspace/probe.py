"""What the project's file system can do, found out by trying it on two empty files of our own."""

import contextlib

from gemcode.workspace import names, osfs
from gemcode.workspace.attributes import create_temporary
from gemcode.workspace.root import Root


def can_exchange(root: Root) -> bool:
    """Whether two names can be exchanged in one step, which is what makes a write safe against other writers."""
    made: list[str] = []
    try:
        for _ in range(2):
            name = osfs.random_name(names.TEMPORARY_PREFIX)
            osfs.close(create_temporary(root.fd, name, private=True))
            made.append(name)
        osfs.exchange(root.fd, made[0], root.fd, made[1])
    except OSError:
        return False
    finally:
        for name in made:
            with contextlib.suppress(OSError):
                osfs.unlink(root.fd, name)
    return True
