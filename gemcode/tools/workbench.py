"""What every tool works on: the project's root, its backups, what the model has seen of it, and the limits."""

from dataclasses import dataclass, field

from gemcode.agent.policy import Sensitivity
from gemcode.tools.bounds import Bounds
from gemcode.workspace import names
from gemcode.workspace.root import Root


@dataclass(slots=True)
class Workbench:
    root: Root
    bounds: Bounds = field(default_factory=Bounds)


_SENSITIVITY = {
    names.NameClass.SECRET: Sensitivity.SECRET,
    names.NameClass.RUNS_LATER: Sensitivity.RUNS_LATER,
    names.NameClass.ORDINARY: Sensitivity.ORDINARY,
}


def sensitivity(path: str) -> Sensitivity:
    """How careful to be with a path that may be touched at all."""
    return _SENSITIVITY[names.classify(path)]
