import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.redaction import MASK, redact

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
SECRETS = (  # the text with its secret as %, and the secret
    ("AWS_SECRET_ACCESS_KEY=%", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("export DB_PASSWORD=% PORT=1", "swordfish"),
    ("aws_secret_access_key = %", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("user: ada\npassword: %\nport: 1", "swordfish"),
    ("  api-key: %  \n", "9f8e7d6c"),
    ('{"client_secret": "%", "id": 1}', "GOCSPX-abc def"),
    ("{'clientSecret':'%'}", "x"),
    ('"{\\"password\\": \\"%\\"}"', "hunter2"),
    ('password = "%"', 'with \\" a quote'),
    ('config["token"] = "%"', "abc"),
    ("token => '%'", "abc"),
    ("Authorization: Bearer %", "abcdefgh.12345678"),
    ("Authorization: Basic %", "YWRhOnN3b3JkZmlzaA=="),
    ('curl -H "Authorization: token %" x', "0123456789abcdef"),
    ("requests use Bearer %.", "0123456789abcdef0123"),
    ("X-Api-Key: %\r\nHost: x", "abc.def.1"),
    ("postgres://ada:%@db.example:5432/shop", "sw0rd:fish!"),
    ("redis://:%@cache:6379", "swordfish"),
    ("Server=db;Password=%;Port=1", "swordfish1"),
    ("https://api.example/x?access_token=%&page=2", "abc123"),
    ("jwt is %", JWT),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\n%\n-----END OPENSSH PRIVATE KEY-----", "b3BlbnNzaC1rZXk"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n%\n-----END PGP PRIVATE KEY BLOCK-----", "lQOYBF"),
    ("stripe: %", "sk_live_" + "a1" * 12),
)
CODE = (
    "token = next(tokens)",
    "token = tokens[0]",
    "token = self.token",
    "token = token2",
    "token = lexer.next_token",
    "self.token = token",
    "password: str",
    "password: str = Field(min_length=8)",
    "password: Optional[str] = None",
    "token: Token",
    "token: SecretStr\n",
    "def login(user: str, password: str, token: str | None = None) -> bool:",
    "client(token=token, password=password)",
    "client(\n    token=token\n)",
    "password=None\n",
    "if token == other:",
    "token != other",
    "api_key = os.environ['API_KEY']",
    'api_key = os.environ["API_KEY"]',
    'api_key: "${API_KEY}"',
    "API_KEY=$API_KEY",
    "const token = await session();",
    "let password = input.value;",
    "type Login = { password: string; token: number }",
    "max_tokens: 1024",
    "tokens = 5",
    'token_type = "bearer"',
    "https://example.com:8080/a@b",
    "https://example.com/tokens?page=2",
    "git@github.com:ada/shop.git",
    "postgres://${USER}:${PASSWORD}@host/db",
    "The bearer authentication is described below.",
    "basic functionality",
    "give `api_key=`, `auth_token=` or `token=`",
    "def refresh(self) -> AccessToken: ...",
    'log("cached token: %s", token)',
    "case Token:\n    return 1",
    "the password is checked, and the token: see below",
)


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=[text[:30] for text, _ in SECRETS])
def test_a_secret_is_removed_and_the_rest_stays(text: str, secret: str) -> None:
    clean = redact(text.replace("%", secret))
    assert secret not in clean and MASK in clean
    if "PRIVATE KEY" not in text:
        assert clean == text.replace("%", MASK)


@pytest.mark.parametrize("code", CODE)
def test_ordinary_code_stays_as_it_is(code: str) -> None:
    assert redact(code) == code


PIECES = st.sampled_from([
    *(text.replace("%", secret) for text, secret in SECRETS), *CODE, "password", "token", "=", ":", " ", '"', "'", "\\",
    "\n", "Bearer ", "://", "@", "a:", MASK, "x1", "api_key", "Authorization", "eyJ", "-----BEGIN PRIVATE KEY-----",
])  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(st.lists(PIECES, max_size=12).map("".join))
def test_values_of_json_stay_json_when_each_string_is_redacted(text: str) -> None:
    assert json.loads(json.dumps({"content": redact(text)})) == {"content": redact(text)}


@pytest.mark.parametrize(
    "piece",
    ["eyJ", "token=", 'token="', "token: ", "token = ", "password", "://a:", "Authorization: ", "bearer ", "Bearer a",
     "-----BEGIN ", "-----BEGIN PRIVATE KEY", "token='\\", "=", "A", "Aa", "a.", "SG.", "api_key = a", "token:a.a"],
)  # fmt: skip
def test_it_takes_linear_time(piece: str) -> None:
    """Quadratic would take hours here; the guard is the test's time limit."""
    redact(piece * (1_000_000 // len(piece)))
