"""The one path of an API server that hookd asks: the keys of its service accounts, for whoever shows the token.

Arguments: the port, files with certificate and key, a file with the keys, and the token. Says `ready` when it listens,
and ends with its input.
"""

from __future__ import annotations

import http.server
import ssl
import sys
import threading
from pathlib import Path

PORT, CERTIFICATE, KEY, KEYS, TOKEN = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path == "/openid/v1/jwks" and self.headers["authorization"] == f"Bearer {TOKEN}"
        body = Path(KEYS).read_bytes() if known else b"{}"
        self.send_response(200 if known else 401)
        self.send_header("content-type", "application/jwk-set+json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(PORT)), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
