"""The cart: lines of goods, and what they cost together."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    name: str
    price: float
    quantity: int


def total(lines):
    """The sum of all lines, in whole cents."""
    return sum(round(line.price * line.quantity, 2) for line in lines)


def describe(lines):
    return ", ".join(f"{line.quantity} x {line.name}" for line in lines)
