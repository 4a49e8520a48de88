"""Which servers are believed, and by which way they are reached: certificates and proxies of the environment."""

import contextlib
import functools
import ipaddress
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2

from gemcode.agent.errors import ExitCode, ModelError


@functools.cache
def context() -> ssl.SSLContext:
    """As the HTTP client would make it for itself, with what the environment says (SSL_CERT_FILE, SSL_CERT_DIR). Read
    once, and shared by all connections."""
    try:
        return httpx2.create_ssl_context()
    except OSError as error:  # also a file that holds no certificate
        message = "The trusted certificates can't be read."
        hint = "Check SSL_CERT_FILE and SSL_CERT_DIR."
        raise ModelError(message, hint, exit_code=ExitCode.USAGE, detail=str(error)) from None


def read_early() -> None:
    """Read them ahead of the first request, which will say it if that fails."""
    with contextlib.suppress(ModelError):
        context()


def is_local(url: str) -> bool:
    """Whether this machine itself is meant: no proxy is asked for that, and none gets the key."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.contextmanager
def usable_proxies() -> Iterator[None]:
    """What the HTTP client raises for a proxy that it can't use becomes a sentence."""
    try:
        yield
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        message = "The proxy of the environment can't be used."
        hint = "HTTPS_PROXY, HTTP_PROXY and ALL_PROXY take http:// and https:// addresses."
        raise ModelError(message, hint, exit_code=ExitCode.USAGE, detail=str(error)) from None
