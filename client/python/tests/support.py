"""Servers to ask, and the two clients as one."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

import hookd
from hookd import v1

CLIENT = Path(__file__).parent.parent
BLOCK = hookd.OnUnavailable.BLOCK
ALLOW = hookd.OnUnavailable.ALLOW
TRIGGER = "/hookd.v1.HookService/Trigger"
STREAM = "/hookd.v1.HookService/TriggerStream"
# Nothing of a test takes so long, unless it hangs; in seconds.
LIMIT = 60.0


def binary() -> str:
    """The server, from the environment or out of the checkout."""
    said = os.environ.get("HOOKD_BINARY")
    return said if said else str(CLIENT.parent.parent / "target" / "debug" / "hookd")


class Hookd:
    """A real hookd with these managed rules, in a folder of its own."""

    def __init__(self, folder: Path, hooks: list[dict[str, Any]], settings: Mapping[str, Any] | None = None) -> None:
        self._folder = folder
        (folder / "managed.json").write_text(json.dumps({"hooks": hooks}))
        self._settings: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "tiers": {"managed": {"sources": [{"path": str(folder / "managed.json")}]}},
            **(settings or {}),
        }
        self.address = ""
        self.start()

    def start(self) -> None:
        """Starts, where it was before if it was somewhere."""
        if self.address:
            self._settings["listen"] = self.address
        settings = self._folder / "hookd.json"
        settings.write_text(json.dumps(self._settings))
        self.process = subprocess.Popen(
            [binary(), "--config", str(settings)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Handlers find its folder there.
            env={**os.environ, "TMPDIR": str(self._folder)},
        )
        said: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said.append(line)
            if line.startswith("hookd is ready: grpc="):
                self.address = line.split("grpc=")[1].split()[0].split(",")[0]
                # Its log must not fill the pipe.
                self._log = threading.Thread(target=self.process.stdout.read)
                self._log.start()
                return
        raise AssertionError("hookd did not start: " + "".join(said))

    def terminate(self) -> None:
        """Lets it drain, and waits until it is gone."""
        self.process.terminate()
        self._gone()

    def kill(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self._gone()

    def _gone(self) -> None:
        self.process.wait(LIMIT)
        self._log.join(LIMIT)
        if self.process.stdout is not None:
            self.process.stdout.close()


Answer = Callable[[v1.TriggerRequest, grpc.ServicerContext], v1.TriggerResponse]
Stream = Callable[[Iterator[v1.TriggerStreamRequest], grpc.ServicerContext], Iterator[v1.TriggerStreamResponse]]


class Scripted(grpc.GenericRpcHandler):
    """A server that does as a test says."""

    def __init__(
        self,
        answer: Answer | None = None,
        stream: Stream | None = None,
        *,
        address: str = "127.0.0.1:0",
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self._answer = answer
        self._stream = stream
        self._pool = futures.ThreadPoolExecutor(16)
        self.asked = 0
        self.server = grpc.server(self._pool, handlers=[self], options=[("grpc.so_reuseport", 0)])
        if credentials is None:
            port = self.server.add_insecure_port(address)
        else:
            port = self.server.add_secure_port(address, credentials)
        self.address = address if address.startswith("unix:") else f"127.0.0.1:{port}"
        self.server.start()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """One call of gRPC."""
        if handler_call_details.method == TRIGGER and self._answer is not None:
            return grpc.unary_unary_rpc_method_handler(
                self._counted, v1.TriggerRequest.FromString, v1.TriggerResponse.SerializeToString
            )
        if handler_call_details.method == STREAM and self._stream is not None:
            return grpc.stream_stream_rpc_method_handler(
                self._counted_stream,
                v1.TriggerStreamRequest.FromString,
                v1.TriggerStreamResponse.SerializeToString,
            )
        return None

    def _counted(self, request: v1.TriggerRequest, context: grpc.ServicerContext) -> v1.TriggerResponse:
        self.asked += 1
        assert self._answer is not None
        return self._answer(request, context)

    def _counted_stream(
        self, requests: Iterator[v1.TriggerStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[v1.TriggerStreamResponse]:
        self.asked += 1
        assert self._stream is not None
        yield from self._stream(requests, context)

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop(None).wait(LIMIT)
        self._pool.shutdown(wait=True)


def fails(code: grpc.StatusCode, message: str, *, of_hookd: bool, details: bytes | None = None) -> Answer:
    """Answers by a status."""

    def answer(_: v1.TriggerRequest, context: grpc.ServicerContext) -> v1.TriggerResponse:
        end_with(context, of_hookd=of_hookd, details=details)
        context.abort(code, message)

    return answer


def end_with(context: grpc.ServicerContext, *, of_hookd: bool, details: bytes | None = None) -> None:
    """What comes with a status."""
    metadata: list[tuple[str, str | bytes]] = [("hookd-decision-id", "d9")] if of_hookd else []
    if details is not None:
        metadata.append(("grpc-status-details-bin", details))
    context.set_trailing_metadata(tuple(metadata))


def response(verdict: int, **more: Any) -> v1.TriggerResponse:
    """An answer of hookd."""
    return v1.TriggerResponse(
        **{"verdict": verdict, "reason": "because", "decision_id": "d1", "policy_revision": "r1", **more}
    )


def pre_tool_use(tool: str = "bash") -> v1.TriggerRequest:
    """An event about a tool."""
    return v1.TriggerRequest(event="PreToolUse", tool_call=v1.ToolCall(tool=tool, params_json="{}"))


def event(name: str) -> v1.TriggerRequest:
    """An event about none."""
    return v1.TriggerRequest(event=name)


def fork(address: str, kind: str, begun: Path = Path(os.devnull)) -> list[str]:
    """What the program of forks says."""
    program = CLIENT / "tests" / "programs" / "fork.py"
    said = subprocess.run(
        [sys.executable, program, address, kind, begun], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert said.returncode == 0, said
    return said.stdout.splitlines()


_HELD: list[socket.socket] = []


def dead() -> str:
    """An address that is nobody else's, where nobody listens until the test does."""
    place = socket.socket()
    # One that may be reused can be shared with one listener.
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    _HELD.append(place)
    return f"127.0.0.1:{place.getsockname()[1]}"


class Asker:
    """Either client: `do` makes one thing of it, which is awaited where it has to be."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(
        self, addresses: str, do: Callable[[Any], Any], *, on_unavailable: hookd.OnUnavailable = BLOCK, **options: Any
    ) -> Any:
        if self.kind == "threads":
            with hookd.Client(addresses, on_unavailable=on_unavailable, **options) as client:
                return do(client)

        async def ask() -> Any:
            async with hookd.AsyncClient(addresses, on_unavailable=on_unavailable, **options) as client:
                return await do(client)

        return asyncio.run(ask())

    def gate(self, addresses: str, request: v1.TriggerRequest, **options: Any) -> Any:
        """The gate of one event."""
        return self(addresses, lambda client: client.trigger(request), **options)

    def error(self, addresses: str, request: v1.TriggerRequest, **options: Any) -> hookd.CallError:
        """What one call met."""
        error = self.gate(addresses, request, **options).decision.error
        assert isinstance(error, hookd.CallError)
        return error
