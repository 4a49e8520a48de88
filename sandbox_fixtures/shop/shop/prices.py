"""Prices as people write them."""


def parse(text):
    """'1,50' and '1.50' are the same price."""
    return float(text.replace(",", "."))


def show(amount):
    return f"{amount:.2f} EUR"


def discount(amount, percent):
    """What is left of a price."""
    return amount - amount * percent / 100


def is_free(amount):
    return amount < 0.005


def compare(one, other):
    """-1, 0 or 1, in whole cents."""
    difference = round(one * 100) - round(other * 100)
    return difference / abs(difference) if difference else 0
