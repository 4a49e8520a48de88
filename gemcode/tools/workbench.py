"""What every tool works on: the project's root, its backups, what the model has seen of it, and the limits."""

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemcode.agent.bounds import Bounds
from gemcode.agent.policy import Sensitivity
from gemcode.workspace import names
from gemcode.workspace.known import KnownVersions
from gemcode.workspace.root import Root
from gemcode.workspace.store import Store

if TYPE_CHECKING:
    from gemcode.workspace.listing import ListingLimits


@dataclass(slots=True)
class Workbench:
    root: Root
    store: Store
    known: KnownVersions
    bounds: Bounds = Bounds()
    turns: int = 0

    def begin_turn(self) -> None:
        """Writes from here on belong to a new turn, and can be undone together."""
        self.turns += 1

    @property
    def turn(self) -> str:
        return f"{self.store.session}.{self.turns}"

    def listing_limits(self) -> "ListingLimits":
        from gemcode.workspace.listing import ListingLimits  # with RE2, which the first prompt does not wait for

        bounds = self.bounds
        return ListingLimits(entries=bounds.list_entries, depth=bounds.list_depth, seconds=bounds.list_seconds)


def tidy(path: str) -> str:
    """One spelling for one path, to recognise it again; what is wrong with it is said elsewhere."""
    return posixpath.normpath(path) if path else path


_SENSITIVITY = {
    names.NameClass.SECRET: Sensitivity.SECRET,
    names.NameClass.RUNS_LATER: Sensitivity.RUNS_LATER,
    names.NameClass.ORDINARY: Sensitivity.ORDINARY,
}


def sensitivity(path: str) -> Sensitivity:
    """How careful to be with a path that may be touched at all."""
    return _SENSITIVITY[names.classify(path)]
