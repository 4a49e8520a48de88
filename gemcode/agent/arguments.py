"""What a tool's arguments are made of: pydantic, since what the model sends is untrusted.

Loaded with the tools and not before: pydantic takes longer than the rest of the agent together.
"""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _integral(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = Annotated[int, BeforeValidator(_integral)]  # models write 3.0 for 3
# The bound stands before the validator: behind it, the schema of an optional field would call it "ge".
LineNumber = Annotated[int, Field(ge=1), BeforeValidator(_integral)]


class Arguments(BaseModel):
    """Base of every tool's arguments."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
