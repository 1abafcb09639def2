"""The table of what every client does (tests/conformance), in Python: how a row is run, and how gates are compared."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import hookd
from google.protobuf import json_format
from hookd import v1
from support import CLIENT, LIMIT, Hookd, fork

ROOT = CLIENT.parent.parent
FOLDER = ROOT / "tests" / "conformance"
# How many callers there are under which a server goes away, and how many answers there are before it does.
CALLERS, ENOUGH = 4, 20

Row = Mapping[str, Any]
ROW_KEYS = {
    *("name", "kind", "servers", "client", "calls", "clients", "asked", "times", "signal", "restart", "forMs"),
    *("busy", "settings", "requests", "statuses", "without"),
}
CALL_KEYS = {"request", "padBytes", "gate", "error", "differs"}
CLIENT_KEYS = {"onUnavailable", "deadlineMs", "rounds", "messageBytes"}


def read(name: str) -> Any:
    """A file of the table."""
    return json.loads((FOLDER / name).read_text("utf-8"))


class Scripts:
    """The scripted servers, in one process."""

    def __init__(self) -> None:
        program = os.environ.get("HOOKD_SCRIPTED") or str(ROOT / "target" / "debug" / "hookd-scripted")
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def order(self, **order: Any) -> str:
        """Gives one order and its answer, as the program's own text says."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer, f"no answer to {order}"
        return answer

    def close(self) -> None:
        """Ends it."""
        self._process.communicate()
        assert self._process.returncode == 0


class Asking:
    """Either client, for any thread: `trigger` waits, `submit` does not."""

    def __init__(self, kind: str, addresses: list[str], options: Mapping[str, Any], threads: int = CALLERS) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        if kind == "threads":
            self._client = hookd.Client(addresses, **options)
            self._pool = ThreadPoolExecutor(threads)
        else:
            self._async_client = hookd.AsyncClient(addresses, **options)
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever)
            self._thread.start()

    def submit(self, request: v1.TriggerRequest) -> Future[hookd.Gate]:
        """Asks."""
        if self._loop is None:
            return self._pool.submit(self._client.trigger, request)
        return asyncio.run_coroutine_threadsafe(self._async_client.trigger(request), self._loop)

    def trigger(self, request: v1.TriggerRequest) -> hookd.Gate:
        """Asks, and waits."""
        return self._client.trigger(request) if self._loop is None else self.submit(request).result(LIMIT)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._loop is None:
            self._client.close()
            self._pool.shutdown()
            return
        asyncio.run_coroutine_threadsafe(self._async_client.close(), self._loop).result(LIMIT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()


def options(client: Mapping[str, Any], on_unavailable: Any = None) -> dict[str, Any]:
    """The options of a client."""
    assert client.keys() <= CLIENT_KEYS, client
    said = client.get("onUnavailable", on_unavailable)
    given: dict[str, Any] = {}
    if isinstance(said, str):
        given["on_unavailable"] = {"block": hookd.OnUnavailable.BLOCK, "allow": hookd.OnUnavailable.ALLOW}[said]
    else:
        given["on_unavailable"] = hookd.OnUnavailable.block_except(*said["blockExcept"])
    if "deadlineMs" in client:
        given["deadline"] = client["deadlineMs"] / 1000
    if "rounds" in client:
        given["rounds"] = client["rounds"]
    if "messageBytes" in client:
        given["message_bytes"] = client["messageBytes"]
    return given


def message(request: Mapping[str, Any]) -> v1.TriggerRequest:
    """A request of the table or of a vector."""
    return json_format.ParseDict(dict(request), v1.TriggerRequest())


def request_of(call: Mapping[str, Any]) -> v1.TriggerRequest:
    """What a call of the table sends."""
    assert call.keys() <= CALL_KEYS, call
    request = message(call["request"])
    if "padBytes" in call:
        request.tool_call.params_json = json.dumps({"text": "x" * call["padBytes"]})
    return request


def expected(call: Mapping[str, Any]) -> dict[str, Any]:
    """What has to come of a call in Python."""
    of = call.get("differs", {}).get("python", call)
    return {key: of[key] for key in ("gate", "error") if key in of}


def seen(gate: hookd.Gate) -> dict[str, Any]:
    """A gate in the words of the table."""
    said: dict[str, Any] = {"kind": type(gate).__name__.lower()}
    for key in ("reason", "approved"):
        if hasattr(gate, key):
            said[key] = getattr(gate, key)
    for key in ("params", "result"):
        form = getattr(gate, key, None)
        if form is not None:
            said[key] = form.text
    error = gate.decision.error
    if error is None:
        return {"gate": said}
    met: dict[str, Any] = {"kind": error.kind.value, "ofHookd": error.decision_id is not None}
    if error.retry_after is not None:
        met["retryAfterMs"] = error.retry_after // timedelta(milliseconds=1)
    return {"gate": said, "error": met}


def holds(wanted: Any, found: Any, addresses: list[str]) -> bool:
    """`found` is as the table says."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return wanted.keys() == found.keys() and all(holds(wanted[key], found[key], addresses) for key in wanted)
    if isinstance(wanted, str) and isinstance(found, str):
        for number, address in enumerate(addresses, 1):
            wanted = wanted.replace("{address}" if number == 1 else f"{{address {number}}}", address)
        pattern = ".*".join(re.escape(part) for part in wanted.split("{any}"))
        return re.fullmatch(pattern, found, re.DOTALL) is not None
    if wanted == "any":
        return isinstance(found, bool)
    return type(wanted) is type(found) and bool(wanted == found)


def check(wanted: Mapping[str, Any], gate: hookd.Gate, addresses: list[str]) -> None:
    """It has to be so."""
    found = seen(gate)
    assert holds(wanted, found, addresses), f"{found}\nis not\n{wanted}"


class Run:
    """One row, with one of the two clients."""

    def __init__(self, row: Row, kind: str, scripts: Scripts, folder: Path) -> None:
        assert row.keys() <= ROW_KEYS, row.keys() - ROW_KEYS
        self._row = row
        self._kind = kind
        self._scripts = scripts
        self._folder = folder
        self._calls = row.get("calls", [])
        self._servers: list[Hookd | None] = []
        self._addresses: list[str] = []

    def __call__(self) -> None:
        """Runs it."""
        # A kind that is not known has no such method.
        run: Callable[[], None] = getattr(self, f"run_{self._row['kind']}")
        with ExitStack() as stack:
            for server in self._row.get("servers", []):
                self._start(server, stack)
            run()
            if "asked" in self._row:
                assert int(self._scripts.order(asked=self._addresses[0])) == self._row["asked"]

    def _start(self, server: Any, stack: ExitStack) -> None:
        started: Hookd | None = None
        match server:
            case "dead":
                address = self._scripts.order(dead=True)
            case {"scripted": answers} if len(server) == 1:
                address = self._scripts.order(serve=answers)
            case {"hookd": {"rules": rules} as hookd_of} if len(server) == 1 and hookd_of.keys() <= {"rules", "settings"}:
                folder = self._folder / f"hookd-{len(self._servers)}"
                folder.mkdir()
                settings: dict[str, Any] = {"drain": {"min_delay": "0s"}}
                started = Hookd(folder, rules, settings | hookd_of.get("settings", {}))
                stack.callback(started.kill)
                address = started.address
            case _:
                raise AssertionError(f"no server: {server}")
        self._servers.append(started)
        self._addresses.append(address)

    def _asking(self, threads: int = CALLERS) -> Asking:
        return Asking(self._kind, self._addresses, options(self._row["client"]), threads)

    def _check(self, call: Mapping[str, Any], gate: hookd.Gate) -> None:
        check(expected(call), gate, self._addresses)

    def _first(self) -> Hookd:
        server = self._servers[0]
        assert server is not None
        return server

    def _wait(self, what: Callable[[], bool]) -> None:
        over = time.monotonic() + LIMIT
        while not what():
            assert time.monotonic() < over, "in time"
            time.sleep(0.002)

    def _begun(self) -> None:
        """Waits until the handler of a call has begun: it makes that file."""
        self._wait((self._folder / "hookd-0" / "begun").exists)

    def _each_call(self, asking: Asking) -> None:
        for call in self._calls:
            self._check(call, asking.trigger(request_of(call)))

    # The kinds of rows, by their names in the table.

    def run_calls(self) -> None:
        """One call after another, by as many clients as the row says."""
        for _ in range(self._row.get("clients", 1)):
            with self._asking() as asking:
                self._each_call(asking)

    def run_each_status(self) -> None:
        """Each status under each setting."""
        for of in self._row["statuses"]:
            assert of.keys() == {"status", "error", "reason", "gates"}
            addresses = [self._scripts.order(serve=[{"status": of["status"]}])]
            for setting, line in zip(self._row["settings"], of["gates"].split(" "), strict=True):
                with Asking(self._kind, addresses, options(self._row["client"], setting)) as asking:
                    for request, cell in zip(self._row["requests"], line, strict=True):
                        runs, refuses = {"kind": "run", "approved": False}, {"kind": "refuse", "reason": of["reason"]}
                        wanted = {"gate": {"R": runs, "X": refuses}[cell], "error": of["error"]}
                        check(wanted, asking.trigger(message(request)), addresses)

    def run_at_once(self) -> None:
        """Many calls at the same time, each with an answer of its own."""
        times = self._row["times"]
        with self._asking(times) as asking:
            calls = [self._calls[number % len(self._calls)] for number in range(times)]
            gates = [future.result(LIMIT) for future in [asking.submit(request_of(call)) for call in calls]]
        for call, gate in zip(calls, gates, strict=True):
            self._check(call, gate)
        assert len({gate.decision.id for gate in gates}) == times

    def run_killed_in_call(self) -> None:
        """The server is killed under a call."""
        with self._asking() as asking:
            asked = asking.submit(request_of(self._calls[0]))
            self._begun()
            self._first().kill()
            self._check(self._calls[0], asked.result(LIMIT))

    def run_while_busy(self) -> None:
        """Calls while another one is under way."""
        with self._asking() as asking:
            busy = asking.submit(message(self._row["busy"]))
            self._begun()
            self._each_call(asking)
            self._first().kill()
            busy.result(LIMIT)

    def run_under_calls(self) -> None:
        """Several callers, while the first server goes away (and comes back) or for a time."""
        stop = threading.Event()
        answered = [0] * CALLERS
        wanted = [expected(call) for call in self._calls]

        def calls(asking: Asking, caller: int) -> None:
            while not stop.is_set():
                gate = asking.trigger(request_of(self._calls[0]))
                found = seen(gate)
                assert any(holds(one, found, self._addresses) for one in wanted), found
                answered[caller] += "error" not in found

        def more() -> None:
            enough = sum(answered) + ENOUGH
            self._wait(lambda: sum(answered) >= enough or all(future.done() for future in futures))

        with self._asking() as asking, ThreadPoolExecutor(CALLERS) as pool:
            futures = [pool.submit(calls, asking, caller) for caller in range(CALLERS)]
            try:
                time.sleep(self._row.get("forMs", 0) / 1000)
                for _ in range(self._row.get("times", 0)):
                    more()
                    {"SIGTERM": self._first().terminate, "SIGKILL": self._first().kill}[self._row["signal"]]()
                    if self._row["restart"]:
                        self._first().start()
                more()
            finally:
                stop.set()
            for future in futures:
                future.result(LIMIT)

    def run_fork(self) -> None:
        """The program of forks asks before, in the child, and after."""
        (call,) = self._calls
        wanted = expected(call)
        line = f"{wanted['gate']['kind'].capitalize()} {wanted.get('error', {}).get('kind')}"
        assert fork(self._addresses[0], self._kind) == [line] * 3
