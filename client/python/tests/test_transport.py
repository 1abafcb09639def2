"""TLS and tokens, from files that change."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import grpc
import pytest
import trustme
from hookd import AddressError, AsyncClient, CallErrorKind, Client, Gate, Refuse, Run, Tls, _resolve, v1
from support import ALLOW, BLOCK, Asker, Scripted, dead, pre_tool_use, response


def credentials(authority: trustme.CA, name: str, *, clients: trustme.CA | None = None) -> grpc.ServerCredentials:
    """A server of this name."""
    issued = authority.issue_cert(name)
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    root = clients.cert_pem.bytes() if clients is not None else None
    return grpc.ssl_server_credentials(
        [(issued.private_key_pem.bytes(), chain)], root, require_client_auth=clients is not None
    )


def test_tls_is_spoken_and_the_server_is_checked(ask: Asker, tmp_path: Path) -> None:
    ours, other = trustme.CA(), trustme.CA()
    for file, authority in (("ours.pem", ours), ("other.pem", other)):
        authority.cert_pem.write_to_path(tmp_path / file)
    with Scripted(lambda *_: response(5), credentials=credentials(ours, "hookd.example")) as server:
        address = f"https://{server.address}"
        good = Tls(ca_file=str(tmp_path / "ours.pem"), server_name="hookd.example")
        gate = ask.gate(address, pre_tool_use(), on_unavailable=ALLOW, tls=good)
        assert gate == Refuse("because", decision=gate.decision)
        for bad in (
            Tls(ca_file=str(tmp_path / "other.pem"), server_name="hookd.example"),
            Tls(ca_file=str(tmp_path / "ours.pem"), server_name="else.example"),
            Tls(ca_file=str(tmp_path / "ours.pem")),
        ):
            gate = ask.gate(address, pre_tool_use(), tls=bad, on_unavailable=ALLOW)
            assert gate.decision.error.kind is CallErrorKind.NOT_TRUSTED, gate
            assert gate == Refuse(gate.decision.error.message, decision=gate.decision), "it buys no allow"
            assert gate.reason.startswith(f"hookd at {address} is not asked: "), gate
        error = ask.error(server.address, pre_tool_use(), rounds=1)
        assert error.kind is CallErrorKind.UNAVAILABLE, error
    with Scripted(lambda *_: response(5)) as server:
        error = ask.error(f"https://{server.address}", pre_tool_use(), rounds=1)
        assert error.kind is CallErrorKind.NOT_TRUSTED, error
        assert error.message == f"hookd at https://{server.address} is not asked: it does not speak TLS"


def test_a_certificate_is_for_the_name_and_not_for_the_address_that_it_leads_to(
    ask: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = trustme.CA()
    ours.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = Tls(ca_file=str(tmp_path / "ca.pem"))
    with Scripted(lambda *_: response(2), credentials=credentials(ours, "hookd.example")) as server:
        place = (server.address.split(":")[0], int(server.address.split(":")[1]))
        monkeypatch.setattr(_resolve, "resolve", lambda *_: [place])
        gate = ask.gate("https://hookd.example:1", pre_tool_use(), tls=tls)
        assert gate == Run(approved=True, decision=gate.decision)
        gate = ask.gate("https://else.example:1", pre_tool_use(), tls=tls, on_unavailable=ALLOW)
        assert gate == Refuse(gate.reason, decision=gate.decision)
        assert gate.reason.startswith(f"hookd at https://else.example:1 ({server.address}) is not asked: ")


def test_a_certificate_of_this_side_is_shown_and_read_again_when_it_changes(ask: Asker, tmp_path: Path) -> None:
    ours, stranger = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(tmp_path / "ca.pem")

    def show(authority: trustme.CA) -> None:
        issued = authority.issue_cert("agent.example")
        for file, blob in (("cert.pem", issued.cert_chain_pems[0]), ("key.pem", issued.private_key_pem)):
            blob.write_to_path(tmp_path / "new")
            os.replace(tmp_path / "new", tmp_path / file)

    ca_file, cert_file, key_file = (str(tmp_path / file) for file in ("ca.pem", "cert.pem", "key.pem"))
    tls = Tls(ca_file, cert_file, key_file, "hookd.example")
    seen: list[int] = []

    def step(gate: object) -> None:
        seen.append(isinstance(gate, Run) and gate.approved)

    def sync(client: Client) -> None:
        for authority in (stranger, ours):
            show(authority)
            step(client.trigger(pre_tool_use()))

    async def asynchronous(client: AsyncClient) -> None:
        for authority in (stranger, ours):
            show(authority)
            step(await client.trigger(pre_tool_use()))

    show(stranger)
    of_server = credentials(ours, "hookd.example", clients=ours)
    with Scripted(lambda *_: response(2), credentials=of_server) as server:
        do = sync if ask.kind == "threads" else asynchronous
        ask(f"https://{server.address}", do, tls=tls, rounds=1)
    assert seen == [False, True]


def test_a_token_is_sent_and_read_again_when_it_changes(ask: Asker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    seen: list[object] = []

    def answer(_: v1.TriggerRequest, context: grpc.ServicerContext) -> v1.TriggerResponse:
        seen.append(dict(context.invocation_metadata())["authorization"])
        return response(1)

    def change(content: str | None) -> None:
        if content is None:
            token.unlink()
        else:
            token.write_text(content)

    def sync(client: Client) -> list[Gate]:
        gates: list[Gate] = []
        for content in ("first", "another", "", None, "third"):
            change(content)
            gates.append(client.trigger(pre_tool_use()))
        return gates

    async def asynchronous(client: AsyncClient) -> list[Gate]:
        gates: list[Gate] = []
        for content in ("first", "another", "", None, "third"):
            change(content)
            gates.append(await client.trigger(pre_tool_use()))
        return gates

    with Scripted(answer) as server:
        do = sync if ask.kind == "threads" else asynchronous
        gates = ask(server.address, do, token_file=str(token), on_unavailable=ALLOW)
    assert seen == ["Bearer first", "Bearer another", "Bearer third"]
    # Without its token a call is at fault: it buys no allow.
    assert [type(gate) for gate in gates] == [Run, Run, Refuse, Refuse, Run]
    at = f"hookd at {server.address} is not asked: the token file `{token}`"
    assert gates[2].reason == f"{at} holds no token, expected one line of visible ASCII"
    assert gates[3].reason == f"{at} cannot be read: No such file or directory"


@pytest.mark.parametrize("address", ["http://hookd.example:1", "10.0.0.1:1"])
def test_no_token_in_the_clear(address: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with pytest.raises(AddressError, match="in the clear"):
        Client(address, on_unavailable=ALLOW, token_file=str(tmp_path / "token"))


def test_files_that_cannot_be_used_buy_no_allow(ask: Asker, tmp_path: Path) -> None:
    ours = trustme.CA()
    ca, junk = tmp_path / "ca.pem", tmp_path / "junk.pem"
    ours.cert_pem.write_to_path(ca)
    junk.write_text("junk")
    with Scripted(lambda *_: response(2), credentials=credentials(ours, "hookd.example")) as server:
        address = f"https://{server.address}"
        unusable = f"hookd at {address} is not asked: the CA file, or the certificate and its key, cannot be used"
        for tls in (
            Tls(ca_file=str(junk), server_name="hookd.example"),
            Tls(str(ca), str(junk), str(junk), "hookd.example"),
        ):
            gate = ask.gate(address, pre_tool_use(), tls=tls, on_unavailable=ALLOW)
            assert gate == Refuse(unusable, decision=gate.decision)
            assert gate.decision.error.kind is CallErrorKind.NOT_TRUSTED

        def remove(client: Client | AsyncClient) -> Client | AsyncClient:
            ca.unlink()
            return client

        tls = Tls(ca_file=str(ca), server_name="hookd.example")
        gate = ask(address, lambda client: remove(client).trigger(pre_tool_use()), tls=tls, on_unavailable=ALLOW)
        said = f"hookd at {address} is not asked: the CA file `{ca}` cannot be read: No such file or directory"
        assert gate == Refuse(said, decision=gate.decision)


def test_another_server_that_is_away_does_not_turn_want_of_trust_into_an_allow(ask: Asker, tmp_path: Path) -> None:
    ours, other = trustme.CA(), trustme.CA()
    other.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = Tls(ca_file=str(tmp_path / "ca.pem"), server_name="hookd.example")
    with Scripted(lambda *_: response(2), credentials=credentials(ours, "hookd.example")) as server:
        for addresses in ([f"https://{server.address}", dead()], [dead(), f"https://{server.address}"]):
            gate = ask.gate(",".join(addresses), pre_tool_use(), tls=tls, on_unavailable=ALLOW, rounds=2)
            assert gate == Refuse(gate.reason, decision=gate.decision)
            assert gate.decision.error.kind is CallErrorKind.NOT_TRUSTED
            assert gate.reason.endswith(f"; tried {addresses[0]}, {addresses[1]}")


def test_the_ca_is_read_again_when_it_changes(ask: Asker, tmp_path: Path) -> None:
    old, young = trustme.CA(), trustme.CA()
    ca = tmp_path / "ca.pem"
    old.cert_pem.write_to_path(ca)

    def change() -> None:
        young.cert_pem.write_to_path(tmp_path / "new")
        os.replace(tmp_path / "new", ca)

    def sync(client: Client) -> list[Gate]:
        first = client.trigger(pre_tool_use())
        change()
        return [first, client.trigger(pre_tool_use())]

    async def asynchronous(client: AsyncClient) -> list[Gate]:
        first = await client.trigger(pre_tool_use())
        change()
        return [first, await client.trigger(pre_tool_use())]

    with Scripted(lambda *_: response(2), credentials=credentials(young, "hookd.example")) as server:
        do = sync if ask.kind == "threads" else asynchronous
        tls = Tls(ca_file=str(ca), server_name="hookd.example")
        first, second = ask(f"https://{server.address}", do, tls=tls, on_unavailable=ALLOW)
    assert isinstance(first, Refuse)
    assert second == Run(approved=True, decision=second.decision)


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_client_is_as_the_environment_says(
    client: type[Client] | type[AsyncClient], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours = trustme.CA()
    mine = ours.issue_cert("agent.example")
    ours.cert_pem.write_to_path(tmp_path / "ca")
    mine.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    mine.private_key_pem.write_to_path(tmp_path / "key")
    (tmp_path / "token").write_text("secret\n")
    tokens: list[object] = []

    def answer(_: v1.TriggerRequest, context: grpc.ServicerContext) -> v1.TriggerResponse:
        tokens.append(dict(context.invocation_metadata())["authorization"])
        return response(2)

    async def await_gate(asking: AsyncClient) -> Gate:
        async with asking:
            return await asking.trigger(pre_tool_use())

    with Scripted(answer, credentials=credentials(ours, "127.0.0.1", clients=ours)) as server:
        monkeypatch.setenv("HOOKD_ADDRESS", f"https://{server.address}")
        for name in ("token", "ca", "client_cert", "client_key"):
            monkeypatch.setenv(f"HOOKD_{name.upper()}_FILE", str(tmp_path / name.removeprefix("client_")))
        asking = client.from_environment(on_unavailable=BLOCK)
        if isinstance(asking, Client):
            with asking:
                gate = asking.trigger(pre_tool_use())
        else:
            gate = asyncio.run(await_gate(asking))
    assert gate == Run(approved=True, decision=gate.decision)
    assert tokens == ["Bearer secret"]
    for name in ("ADDRESS", "TOKEN_FILE", "CA_FILE", "CLIENT_CERT_FILE", "CLIENT_KEY_FILE"):
        monkeypatch.setenv(f"HOOKD_{name}", "")
    assert repr(client.from_environment(on_unavailable=BLOCK)) == f"{client.__name__}('127.0.0.1:50051')"
