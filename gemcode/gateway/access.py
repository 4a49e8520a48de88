"""Who may talk to the gateway: the token in any of the clients' headers, and the Host header. Pure."""

import hmac
import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import parse_qs

from gemcode.gateway.dialect import Failure, FailureKind

_AWS_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]+)/")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/]+)(?::[0-9]*)?")
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


def is_loopback(host: str) -> bool:
    if host in _LOOPBACK_NAMES:
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def check_host(header: str, bound: str) -> None:
    """A web page can make a browser call us under a name of its own; an address or our own name can't be faked so."""
    name = _host_name(header)
    if name in _LOOPBACK_NAMES or name == bound.lower() or (_address(name) is not None and not is_loopback(bound)):
        return
    raise Failure(FailureKind.FORBIDDEN, "This Host is not served here; use the address the gateway printed.")


def check_token(headers: Mapping[str, str], query: str, token: str) -> None:
    """Accepts the token wherever one of the clients puts its key. AWS clients send it as their access key id."""
    authorization = headers.get("authorization", "")
    aws = _AWS_CREDENTIAL.match(authorization)
    scheme, _, bearer = authorization.partition(" ")
    given = [
        headers.get("x-api-key", ""),
        headers.get("x-goog-api-key", ""),
        aws[1] if aws else "",
        bearer.strip() if scheme.lower() == "bearer" else "",
        *parse_qs(query).get("key", [])[:1],
    ]
    expected = token.encode()
    # Every candidate is compared in full, so that the time taken tells nothing.
    matches = [hmac.compare_digest(candidate.encode("utf-8", "replace"), expected) for candidate in given]
    if not any(matches):
        raise Failure(FailureKind.UNAUTHENTICATED, "The gateway's token is missing or wrong.")


def _host_name(header: str) -> str:
    """Without the port; nothing where it is no Host header at all."""
    found = _HOST.fullmatch(header)
    return found[1].lower() if found else ""


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None
