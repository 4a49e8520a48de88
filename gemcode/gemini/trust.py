"""Which servers are believed: the trusted certificates, read once and shared by all connections."""

import contextlib
import functools
import ssl

import httpx2


@functools.cache
def context() -> ssl.SSLContext:
    """As the HTTP client would make it for itself, with what the environment says (SSL_CERT_FILE, SSL_CERT_DIR)."""
    return httpx2.create_ssl_context()


def read_early() -> None:
    """Read them ahead of the first request, which will say it if that fails."""
    with contextlib.suppress(OSError):
        context()
