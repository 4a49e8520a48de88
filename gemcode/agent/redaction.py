"""Where keys come from and what they look like, so that none is stored, shown or passed on. Pure."""

import re

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")  # in the order of the official SDK
MASK = "[removed]"

SHAPES = re.compile(
    r"AIza[\w-]{30,}"  # Google API key
    r"|AQ\.[\w-]{30,}"
    r"|ya29\.[\w-]{20,}"  # Google OAuth token
    r"|sk-[\w-]{20,}"
    r"|gh[pousr]_\w{30,}"
    r"|github_pat_\w{30,}"
    r"|A[KS]IA[0-9A-Z]{16}"
    r"|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}"  # JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL | re.ASCII,
)


def redact(text: str, *keys: str) -> str:
    """The text without these keys, and without anything that looks like one."""
    for key in keys:
        if key:
            text = text.replace(key, MASK)
    return SHAPES.sub(MASK, text)
