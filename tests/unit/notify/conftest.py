from __future__ import annotations

import pytest
import trustme

from outhaul.notify import exchange
from outhaul.notify.guard import Guard


@pytest.fixture
def loopback():
    """A guard whose operator allows receivers on this machine."""
    return Guard(["127.0.0.1/32"])


@pytest.fixture
def hurried(monkeypatch):
    """The time for a whole exchange, cut down so that receivers that use it up cost little."""
    monkeypatch.setattr(exchange, "TOTAL_SECONDS", 0.4)


@pytest.fixture
def authority(monkeypatch, tmp_path):
    """A certificate authority that this machine trusts, as an operator would have it: by SSL_CERT_FILE."""
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return made
