"""What connections are made with: options, TLS, the token."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Union

import grpc

from hookd._address import Address, AddressError
from hookd._call_error import CallError, not_trusted
from hookd._version import __version__

Metadata = tuple[tuple[str, Union[str, bytes]], ...]

TRIGGER = "/hookd.v1.HookService/Trigger"
TRIGGER_STREAM = "/hookd.v1.HookService/TriggerStream"
# What comes of an attempt to connect.
SETTLED = (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)

# How long a connection attempt may take before another address has its turn, in milliseconds.
_CONNECT_TIMEOUT = 5_000
_NO_TOKEN: Metadata = ()


@dataclass(frozen=True)
class Tls:
    """How to speak TLS with addresses that say `https`. Files are PEM, and read again when they change."""

    ca_file: str | None = None
    """Certificates that hookd's own is checked against. `None`: those that gRPC brings along."""
    cert_file: str | None = None
    """The certificate that this side shows, with its chain. `None`: none is shown."""
    key_file: str | None = None
    """The private key of that certificate."""
    server_name: str | None = None
    """The name that hookd's certificate has to be for. `None`: the host of the address."""


class Transport:
    """Makes channels' parts. Looks at files again whenever it is asked."""

    def __init__(
        self,
        addresses: list[Address],
        message_bytes: int,
        tls: Tls | None,
        token_file: str | None,
        keep_alive: tuple[float, float],
    ) -> None:
        """Raises `AddressError` where the options do not fit the addresses, and `OSError` where a file cannot be
        read."""
        if tls is not None and (tls.cert_file is None) != (tls.key_file is None):
            raise AddressError("a certificate and its key belong together, one of them is missing")
        for address in addresses:
            if address.tls or address.local:
                continue
            if token_file is not None:
                raise AddressError(f"the token would be sent in the clear to `{address.text}`, expected `https://…`")
            if tls is not None and (tls.ca_file is not None or tls.cert_file is not None):
                raise AddressError(f"TLS options are of no use at `{address.text}`, expected `https://…`")
        self._tls = tls or Tls()
        self._message_bytes = message_bytes
        self._token_file = token_file
        self._keep_alive = keep_alive
        self._token: tuple[tuple[int, ...], Metadata] | None = None
        if any(address.tls for address in addresses):
            self.credentials()
        self._with_token()

    def options(self, address: Address) -> list[tuple[str, str | int]]:
        """The options of a channel to `address`."""
        options: list[tuple[str, str | int]] = [
            # Its own connections: what others of this process meet is not this client's affair, nor their back-off.
            ("grpc.use_local_subchannel_pool", 1),
            # Whether a call is tried again is decided in one place, see `_calls`.
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            # hookd is asked directly: a proxy that is meant for the web would see every call.
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", self._message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.min_reconnect_backoff_ms", _CONNECT_TIMEOUT),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1_000),
            ("grpc.keepalive_time_ms", max(round(self._keep_alive[0] * 1000), 1)),
            ("grpc.keepalive_timeout_ms", max(round(self._keep_alive[1] * 1000), 1)),
            # For pings of gRPC's own too: while one of them is under way, none is sent for this.
            ("grpc.http2.ping_timeout_ms", max(round(self._keep_alive[1] * 1000), 1)),
            # Also while a call waits for a long time, in which nothing else is sent.
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.primary_user_agent", f"hookd-python/{__version__}"),
        ]
        if address.target.startswith("unix:"):
            # gRPC would send the path, which is no host to a server that looks.
            options.append(("grpc.default_authority", "localhost"))
        elif address.is_name:
            # Not the IP address that the name has just now.
            options.append(("grpc.default_authority", f"{address.host}:{address.port}"))
        if address.tls and (self._tls.server_name is not None or address.is_name):
            options.append(("grpc.ssl_target_name_override", self._tls.server_name or address.host))
        return options

    def credentials(self) -> grpc.ChannelCredentials:
        """What TLS needs, as the files say now. Raises `OSError`."""
        return grpc.ssl_channel_credentials(
            _content("CA file", self._tls.ca_file),
            _content("client key", self._tls.key_file),
            _content("client certificate", self._tls.cert_file),
        )

    def metadata(self, name: str) -> Metadata | CallError:
        """What every call carries: the token, if there is one."""
        try:
            return self._with_token()
        except OSError as error:
            return not_trusted(str(error), name)

    def _with_token(self) -> Metadata:
        path = self._token_file
        if path is None:
            return _NO_TOKEN
        state = _state(path)
        if self._token is None or self._token[0] != state or not state:
            token = (_content("token file", path) or b"").strip()
            if not token or not all(0x20 < byte < 0x7F for byte in token):
                raise OSError(f"the token file `{path}` holds no token, expected one line of visible ASCII")
            self._token = (state, (("authorization", f"Bearer {token.decode('ascii')}"),))
        return self._token[1]


def _content(what: str, path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise OSError(f"the {what} `{path}` cannot be read: {error.strerror}") from None


def _state(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        # In the middle of a rotation, perhaps.
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns)
