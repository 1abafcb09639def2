"""TLS and tokens, from files that change."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import pytest
import trustme
from hookd import AddressError, AsyncClient, CallErrorKind, Client, Gate, Refuse, Run, Tls, v1
from support import ALLOW, Asker, Scripted, pre_tool_use, response


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
            error = ask.error(address, pre_tool_use(), tls=bad, rounds=1)
            assert error.kind is CallErrorKind.UNAVAILABLE, error
        error = ask.error(server.address, pre_tool_use(), rounds=1)
        assert error.kind is CallErrorKind.UNAVAILABLE, error


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
        for content in ("first", "the second", "", None, "third"):
            change(content)
            gates.append(client.trigger(pre_tool_use()))
        return gates

    async def asynchronous(client: AsyncClient) -> list[Gate]:
        gates: list[Gate] = []
        for content in ("first", "the second", "", None, "third"):
            change(content)
            gates.append(await client.trigger(pre_tool_use()))
        return gates

    with Scripted(answer) as server:
        do = sync if ask.kind == "threads" else asynchronous
        gates = ask(server.address, do, token_file=str(token), on_unavailable=ALLOW)
    assert seen == ["Bearer first", "Bearer the second", "Bearer third"]
    # Without its token a call is at fault: it buys no allow.
    assert [type(gate) for gate in gates] == [Run, Run, Refuse, Refuse, Run]
    assert gates[2].reason == f"the token file `{token}` holds no token"


@pytest.mark.parametrize("address", ["http://hookd.example:1", "10.0.0.1:1"])
def test_no_token_in_the_clear(address: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with pytest.raises(AddressError, match="in the clear"):
        Client(address, on_unavailable=ALLOW, token_file=str(tmp_path / "token"))
