"""Who answers in a session, and how far a turn may go. Values only."""

from collections.abc import Callable

from gemcode.agent.messages import Generation, Usage
from gemcode.agent.policy import Mode
from gemcode.frozen import frozen


@frozen
class TurnLimits:
    """Where a turn stops by itself. `cost_usd` is for all turns of this agent together."""

    steps: int = 50
    seconds: float | None = None
    cost_usd: float | None = None
    text_bytes: int = 32 * 1024 * 1024  # of one streamed answer
    compact_at: float | None = 0.8  # share of the model's window; None: only when asked to


@frozen
class Persona:
    """Who the model is in this session: the stable prefix of every request."""

    model: str
    system: Callable[[Mode], str]
    generation: Generation = Generation()
    price: Callable[[Usage], float | None] = lambda _: None
    input_limit: int | None = None
