"""A server that sends what nobody should: plain HTTP/2 without gRPC."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions


@dataclass(frozen=True)
class Raw:
    """One answer."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/grpc"),)
    trailers: tuple[tuple[str, str], ...] = (("grpc-status", "0"),)
    goaway: bool = False
    """Sends GOAWAY with last stream 0 instead of an answer, on the first connection alone."""


def frame(message: bytes) -> bytes:
    """A message as gRPC frames it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


@dataclass
class RawServer:
    """Answers every call so."""

    raw: Raw
    address: str = ""
    connections: int = 0
    _listener: socket.socket = field(default_factory=socket.socket)
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _open: list[socket.socket] = field(default_factory=list[socket.socket])

    def __enter__(self) -> RawServer:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads[1:]:
            thread.join()

    def _start(self, body: object) -> None:
        thread = threading.Thread(target=body)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection)
                first = self.connections == 1
                self._start(lambda: self._serve(connection, first))

    def _serve(self, connection: socket.socket, first: bool) -> None:
        protocol = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=False, header_encoding="utf-8", validate_outbound_headers=False
            )
        )
        protocol.initiate_connection()
        # What comes after a GOAWAY does not matter here.
        with contextlib.suppress(OSError, h2.exceptions.ProtocolError):
            connection.sendall(protocol.data_to_send())
            while data := connection.recv(65536):
                for event in protocol.receive_data(data):
                    if isinstance(event, h2.events.StreamEnded):
                        self._answer(protocol, event.stream_id, first)
                connection.sendall(protocol.data_to_send())

    def _answer(self, protocol: h2.connection.H2Connection, stream: int, first: bool) -> None:
        raw = self.raw
        if raw.goaway and first:
            protocol.close_connection(h2.errors.ErrorCodes.NO_ERROR, last_stream_id=0)
            return
        protocol.send_headers(stream, [(":status", str(raw.status)), *raw.headers])
        protocol.send_data(stream, raw.body, end_stream=not raw.trailers)
        if raw.trailers:
            protocol.send_headers(stream, list(raw.trailers), end_stream=True)
