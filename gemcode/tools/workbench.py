"""What every tool works on: the project's root, its backups, what the model has seen of it, and the limits."""

from dataclasses import dataclass

from gemcode.agent.policy import Sensitivity
from gemcode.tools.bounds import Bounds
from gemcode.tools.known import KnownVersions
from gemcode.workspace import names
from gemcode.workspace.listing import ListingLimits
from gemcode.workspace.root import Root


@dataclass(frozen=True, slots=True)
class Workbench:
    root: Root
    known: KnownVersions
    bounds: Bounds = Bounds()

    def listing_limits(self) -> ListingLimits:
        bounds = self.bounds
        return ListingLimits(entries=bounds.list_entries, depth=bounds.list_depth, seconds=bounds.list_seconds)


_SENSITIVITY = {
    names.NameClass.SECRET: Sensitivity.SECRET,
    names.NameClass.RUNS_LATER: Sensitivity.RUNS_LATER,
    names.NameClass.ORDINARY: Sensitivity.ORDINARY,
}


def sensitivity(path: str) -> Sensitivity:
    """How careful to be with a path that may be touched at all."""
    return _SENSITIVITY[names.classify(path)]
