"""Prices as people write them."""


def parse(text):
    """'1,50' and '1.50' are the same price."""
    return float(text.replace(",", "."))


def show(amount):
    return f"{amount:.2f} EUR"
