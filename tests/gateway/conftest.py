"""Clients and gateway talk over loopback, whatever proxies the environment names."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def no_proxies() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.delenv(name, raising=False)
            patch.delenv(name.lower(), raising=False)
        yield
