"""Where keys come from and what secrets look like, so that none is stored, shown or passed on. Pure.

By shape, and by the name of what they are assigned to. Every pattern takes linear time: what is repeated in it is
bounded, or can't begin anew inside of itself.
"""

import re

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")  # in the order of the official SDK
MASK = "[removed]"

# Compiled when first needed, which re remembers: not at every start.
_FLAGS = re.IGNORECASE | re.ASCII
_SHAPES = (
    r"AIza[\w-]{30,}"  # Google API key
    r"|AQ\.[\w-]{30,}"
    r"|ya29\.[\w-]{20,}"  # Google OAuth token
    r"|sk-[\w-]{20,}"
    r"|[rs]k_(?:live|test)_\w{16,}"
    r"|gh[pousr]_\w{30,}"
    r"|github_pat_\w{30,}"
    r"|glpat-[\w-]{20,}"
    r"|npm_\w{36,}"
    r"|hf_\w{30,}"
    r"|A[KS]IA[0-9A-Z]{16}"
    r"|xox[abprs]-[\w-]{10,}"
    r"|(?<![\w-])eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}"  # JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
# A name that says what it holds, at its end: DB_PASSWORD, clientSecret, "api-key", AWS_SECRET_ACCESS_KEY.
_NAME = (
    r"(?:secret|token|passw(?:or)?d|passphrase|pwd"
    r"|(?:api|access|secret|private|account|signing|encryption|auth|master|shared)[_-]?key)[_-]?\d{0,3}"
)
_QUOTED = r"(?P<quote>\\?[\"'])(?P<value>(?!\$\{|\$\(|\{|<|%)(?:\\.|[^\\\n]){1,2000}?)(?P=quote)"
_WORD = r"[^\s\"'`,;&(){}\[\]<>$\\]"
# What stands after such a name in code: a type, a constant, another variable.
_CODE = (
    r"(?![.%*]|(?:str|string|bytes?|int|integer|float|bool|boolean|number|any|none|null|nil|true|false|undefined"
    r"|object|optional|required|text|self|await|new|not|yes|no|on|off)\b"
    r"|\w*(?:token|secret|passw(?:or)?d|credential|key)s?\d{0,2}(?![^\s;])"
    r"|(?-i:[A-Z][a-z]+)+\b"
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?![^\s;]))"
)
_ASSIGNED = (
    rf"(?P<name>{_NAME}\\?[\"'`]?\]?)(?:"
    rf"(?P<sign>[ \t]{{0,8}}(?:=>|:=|[:=])[ \t]{{0,8}}){_QUOTED}"
    rf"|(?P<equals>=){_CODE}(?P<plain>{_WORD}{{1,500}})(?=[;&\s\"'`\\]|\Z)"  # an environment, a query, a connection
    rf"|(?P<colon>:[ \t]{{1,8}}){_CODE}(?P<line>{_WORD}{{1,500}})(?=[ \t\r]{{0,8}}(?:[\n\"'`\\]|\Z))"  # YAML, a header
    rf"|(?P<spaced>[ \t]{{1,8}}=[ \t]{{1,8}}){_CODE}(?P<mixed>(?=[^\d\s]{{0,500}}\d)(?=[^a-z\s]{{0,500}}[a-z])"
    rf"{_WORD}{{6,500}})(?=[ \t\r]{{0,8}}(?:\n|\Z))"  # a file of settings
    r")"
)
_AUTHORIZATION = (
    r"(?P<head>authorization\\?[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\?[\"']?(?:(?:bearer|basic|token|apikey)[ \t]{1,8})?"
    r"|\bbearer[ \t]{1,8}(?=[a-z~+/=._-]{0,500}\d)(?=[\w.~+/=-]{16}))(?P<value>[\w.~+/=-]{7,}[\w~+/=-])"
)
_ADDRESS = r"(?P<head>://[^\s:/@\"'`]{0,100}:)(?P<value>(?![${<%])[^\s/@\"'`]{1,300})(?=@)"


def names_secret(name: str) -> bool:
    """Whether a field of this name holds one."""
    return re.search(rf"{_NAME}\Z", name, _FLAGS) is not None


def redact(text: str, *keys: str) -> str:
    """The text without these keys, and without anything that looks like a secret."""
    for key in keys:
        if key:
            text = text.replace(key, MASK)
    text = re.sub(_SHAPES, MASK, text, flags=re.DOTALL | re.ASCII)
    text = re.sub(_ADDRESS, _masked, text)
    text = re.sub(_AUTHORIZATION, _masked, text, flags=_FLAGS)
    return re.sub(_ASSIGNED, _without_value, text, flags=_FLAGS)


def _masked(found: re.Match[str]) -> str:
    return found["head"] + MASK


def _without_value(found: re.Match[str]) -> str:
    if found["quote"]:
        return f"{found['name']}{found['sign']}{found['quote']}{MASK}{found['quote']}"
    return f"{found['name']}{found['equals'] or found['colon'] or found['spaced']}{MASK}"
