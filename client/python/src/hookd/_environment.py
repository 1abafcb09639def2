"""What the environment says of the way to hookd, the same for the clients of all languages."""

from __future__ import annotations

import os

from hookd._transport import Tls

ADDRESS = "HOOKD_ADDRESS"
TOKEN_FILE = "HOOKD_TOKEN_FILE"
CA_FILE = "HOOKD_CA_FILE"
CLIENT_CERT_FILE = "HOOKD_CLIENT_CERT_FILE"
CLIENT_KEY_FILE = "HOOKD_CLIENT_KEY_FILE"
_DEFAULT_ADDRESS = "127.0.0.1:50051"


def of_environment() -> tuple[str, Tls | None, str | None]:
    """The addresses, how to speak TLS, and the token file. A variable that is set to nothing is not set."""
    tls = Tls(_value(CA_FILE), _value(CLIENT_CERT_FILE), _value(CLIENT_KEY_FILE))
    return _value(ADDRESS) or _DEFAULT_ADDRESS, tls if tls != Tls() else None, _value(TOKEN_FILE)


def _value(name: str) -> str | None:
    return os.environ.get(name) or None
