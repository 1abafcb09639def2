"""Runs in the container's network: a name server that knows one name, and a policy that is asked by that name. What it is
asked about `slow` it answers when the file `go` of its directory is there. It ends with its input."""

from __future__ import annotations

import os
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = b"\x06policy\x04test\x00"
HELD, GO = sys.argv[1:]


def answer_names(server: socket.socket) -> None:
    while True:
        query, peer = server.recvfrom(512)
        name = query[12 : query.index(b"\x00", 12) + 1]
        kind = query[12 + len(name) : 16 + len(name)]
        known = name == NAME and kind == b"\x00\x01\x00\x01"
        answer = b"\xc0\x0c" + kind + b"\x00\x00\x00\x05\x00\x04\x7f\x00\x00\x01" if known else b""
        flags = b"\x81\x80" if name == NAME else b"\x81\x83"
        counts = b"\x00\x01" + (b"\x00\x01" if known else b"\x00\x00") + b"\x00\x00\x00\x00"
        server.sendto(query[:2] + flags + counts + name + kind + answer, peer)


class Policy(BaseHTTPRequestHandler):
    """Blocks, with a reason."""

    def do_POST(self) -> None:
        """Answers a call of hookd's."""
        asked = self.rfile.read(int(self.headers["content-length"]))
        if b'"slow"' in asked:
            # A named pipe: opening one end waits for the other.
            with open(HELD, "w"), open(GO):
                pass
        answer = b'{"decision":"block","reason":"the policy says no"}'
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.1", 53))
policy = ThreadingHTTPServer(("127.0.0.1", 8000), Policy)
threading.Thread(target=answer_names, args=[names], daemon=True).start()
threading.Thread(target=policy.serve_forever, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
