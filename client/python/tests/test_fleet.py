"""Replicas of the real hookd behind a list or a name: they are replaced, killed and paused under calls that must be blocked,
and no call is let through or left without an answer."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hookd
import pytest
from hookd import CallErrorKind, Refuse, _resolve
from support import ALLOW, LIMIT, Asker, Hookd, Scripted, pre_tool_use, response

Start = Callable[..., Hookd]


class Names:
    """A name service of the test's own: where the replicas are now."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: list[tuple[str, int]] = []
        monkeypatch.setattr(_resolve, "resolve", self._resolve)

    def say(self, addresses: list[str]) -> None:
        """They are there now."""
        self.places = [(host, int(port)) for host, _, port in (one.rpartition(":") for one in addresses)]

    def _resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        if host != "hookd.test":
            raise OSError(-2, "unknown")
        return list(self.places)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Instead of the system's names."""
    return Names(monkeypatch)


class Replicas:
    """Each of them blocks, and says which one it is."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._count = 0

    def more(self) -> tuple[str, Hookd]:
        """One more, by its name."""
        self._count += 1
        name = f"replica {self._count}"
        deny = {"type": "decide", "verdict": "block", "reason": name}
        return name, self._start(
            {"id": "guard", "event": "PreToolUse", "handler": deny}, drain={"min_delay": "0s"}
        )


class Callers:
    """Callers that go on until they are told to stop, at a client that lets everything go where hookd cannot be asked: an
    answer that is lost is an allow."""

    def __init__(self, kind: str, addresses: str) -> None:
        self.answers: Counter[str] = Counter()
        self.lost: list[hookd.Gate] = []
        self._stop = False
        # What a paused replica costs, not what is usual.
        options: dict[str, Any] = {"on_unavailable": ALLOW, "deadline": 50.0, "keep_alive": (1.0, 2.0)}
        if kind == "threads":
            self._client = hookd.Client(addresses, **options)
            self._threads = [threading.Thread(target=self._call) for _ in range(64)]
        else:
            self._async_client = hookd.AsyncClient(addresses, **options)
            self._threads = [threading.Thread(target=asyncio.run, args=(self._gather(500),))]

    def _note(self, gate: hookd.Gate) -> None:
        if isinstance(gate, Refuse) and gate.decision.error is None:
            self.answers[gate.reason] += 1
        else:
            self.lost.append(gate)

    def _call(self) -> None:
        while not self._stop:
            self._note(self._client.trigger(pre_tool_use()))

    async def _gather(self, callers: int) -> None:
        async def call() -> None:
            while not self._stop:
                self._note(await self._async_client.trigger(pre_tool_use()))

        async with self._async_client:
            await asyncio.gather(*(call() for _ in range(callers)))

    @contextmanager
    def calling(self) -> Iterator[Callers]:
        """Until the end of this."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop = True
            for thread in self._threads:
                thread.join(LIMIT)
        assert not any(thread.is_alive() for thread in self._threads)
        assert not self.lost, self.lost[:3]

    def answer(self, replicas: list[str], more: int = 100) -> None:
        """Waits until each of these has answered so many calls more."""
        before = dict(self.answers)
        over = time.monotonic() + LIMIT
        while not all(self.answers[name] - before.get(name, 0) >= more for name in replicas):
            assert not self.lost, self.lost[:3]
            assert time.monotonic() < over, (before, self.answers)
            time.sleep(0.005)


def answered(gate: hookd.Gate) -> str:
    """The replica that has answered with it."""
    assert isinstance(gate, Refuse) and gate.decision.error is None, gate
    return gate.reason


def shares(ask: Asker, addresses: str, replicas: list[str], times: int = 600) -> Counter[str]:
    """Who answers so many calls of a client, once it is connected to all of these."""
    options: dict[str, Any] = {"on_unavailable": ALLOW}

    def sync(client: hookd.Client) -> list[hookd.Gate]:
        seen: set[str] = set()
        while not seen >= set(replicas):
            seen.add(answered(client.trigger(pre_tool_use())))
        return [client.trigger(pre_tool_use()) for _ in range(times)]

    async def asynchronous(client: hookd.AsyncClient) -> list[hookd.Gate]:
        seen: set[str] = set()
        while not seen >= set(replicas):
            seen.add(answered(await client.trigger(pre_tool_use())))
        return [await client.trigger(pre_tool_use()) for _ in range(times)]

    gates = ask(addresses, sync if ask.kind == "threads" else asynchronous, **options)
    return Counter(answered(gate) for gate in gates)


def is_even(found: Counter[str], replicas: list[str]) -> bool:
    """These share them within a tenth, and nobody else has one."""
    mean = sum(found.values()) / len(replicas)
    return found.keys() == set(replicas) and all(abs(found[name] - mean) <= mean / 10 for name in replicas)


def test_calls_are_shared_evenly_over_a_list_and_over_the_addresses_of_a_name(
    ask: Asker, start: Start, names: Names
) -> None:
    replicas = Replicas(start)
    running = dict(replicas.more() for _ in range(3))
    addresses = [server.address for server in running.values()]
    names.say(addresses)
    for said in (",".join(addresses), "hookd.test:50051"):
        assert is_even(found := shares(ask, said, list(running)), list(running)), found


def test_replicas_are_replaced_one_after_another_under_calls_and_none_is_lost_or_let_through(
    ask: Asker, start: Start, names: Names
) -> None:
    replicas = Replicas(start)
    running = dict(replicas.more() for _ in range(3))
    names.say([server.address for server in running.values()])
    with Callers(ask.kind, "hookd.test:50051").calling() as callers:
        callers.answer(list(running))
        for old in list(running):
            leaving = running.pop(old)
            name, server = replicas.more()
            running[name] = server
            names.say([server.address for server in running.values()])
            leaving.terminate()
            # The one that is new has its share too before the next goes.
            callers.answer(list(running))
    assert is_even(found := shares(ask, "hookd.test:1", list(running)), list(running)), found


def test_replicas_are_killed_under_calls_and_none_is_lost_or_let_through(
    ask: Asker, start: Start, names: Names
) -> None:
    replicas = Replicas(start)
    running = dict(replicas.more() for _ in range(3))
    names.say([server.address for server in running.values()])
    with Callers(ask.kind, "hookd.test:50051").calling() as callers:
        callers.answer(list(running))
        for old in list(running):
            running.pop(old).kill()
            callers.answer(list(running))
            name, server = replicas.more()
            running[name] = server
            names.say([server.address for server in running.values()])
            # It is found by the one that is not there any more.
            callers.answer(list(running))


def test_the_share_of_a_paused_replica_moves_to_the_others_and_comes_back(
    ask: Asker, start: Start, names: Names
) -> None:
    replicas = Replicas(start)
    running = dict(replicas.more() for _ in range(3))
    names.say([server.address for server in running.values()])
    paused, *others = running
    with Callers(ask.kind, "hookd.test:50051").calling() as callers:
        callers.answer(list(running))
        running[paused].process.send_signal(signal.SIGSTOP)
        try:
            # Those that wait for it find out, and all go on at the others.
            callers.answer(others, 500)
            # Whoever comes anew is not held up by it.
            assert is_even(found := shares(ask, "hookd.test:1", others), others), found
        finally:
            running[paused].process.send_signal(signal.SIGCONT)
        callers.answer(list(running))
    assert is_even(found := shares(ask, "hookd.test:1", list(running)), list(running)), found


def test_a_name_that_is_not_known_is_named_and_is_found_once_it_is(
    ask: Asker, start: Start, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ask.error("hookd.nowhere:1", pre_tool_use(), rounds=1)
    assert error.kind is CallErrorKind.UNAVAILABLE
    assert error.message == "hookd cannot be reached at hookd.nowhere:1: the name cannot be looked up: unknown"
    error = ask.error("hookd.test:1", pre_tool_use(), rounds=2)
    assert error.message == "hookd cannot be reached at hookd.test:1: the name has no address"
    name, server = Replicas(start).more()
    looked_up: list[str] = []

    def resolve(host: str, _: int) -> list[tuple[str, int]]:
        looked_up.append(host)
        if len(looked_up) == 1:
            raise OSError(-2, "not yet")
        return [("127.0.0.1", int(server.address.rpartition(":")[2]))]

    monkeypatch.setattr(_resolve, "resolve", resolve)
    assert ask.gate("hookd.test:1", pre_tool_use()).reason == name
    assert looked_up == ["hookd.test"] * 2


def test_a_local_name_that_leads_to_another_machine_is_not_asked(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_resolve, "resolve", lambda *_: [("192.0.2.1", 1)])
    gate = ask.gate("localhost:1", pre_tool_use(), on_unavailable=ALLOW)
    said = "hookd at localhost:1 is not asked: it is not on this machine, and there is no TLS"
    assert gate == Refuse(said, decision=gate.decision)


def test_the_last_failure_is_named_with_the_place_that_it_was_met_at(ask: Asker, names: Names) -> None:
    with Scripted(lambda *_: response(5)) as server:
        names.say([server.address])
        assert ask.gate("hookd.test:7", pre_tool_use()).reason == "because"
    error = ask.error("hookd.test:7", pre_tool_use(), rounds=2)
    assert error.message.startswith(f"hookd cannot be reached at hookd.test:7 ({server.address}): "), error


def test_one_that_never_says_a_word_of_http2_is_not_connected(ask: Asker, start: Start) -> None:
    replicas = Replicas(start)
    (_, silent), (name, server) = replicas.more(), replicas.more()
    silent.process.send_signal(signal.SIGSTOP)
    try:
        def sync(client: hookd.Client) -> list[str]:
            return [answered(client.trigger(pre_tool_use())) for _ in range(6)]

        async def asynchronous(client: hookd.AsyncClient) -> list[str]:
            return [answered(await client.trigger(pre_tool_use())) for _ in range(6)]

        do = sync if ask.kind == "threads" else asynchronous
        assert ask(f"{silent.address},{server.address}", do, on_unavailable=ALLOW) == [name] * 6
    finally:
        silent.process.send_signal(signal.SIGCONT)
