"""Where hookd may listen."""

from __future__ import annotations

from typing import cast

import pytest
from hookd import AddressError, Client, OnUnavailable, Tls
from hookd._address import Address
from support import BLOCK

EXPECTED = "expected `host:port`, `http://host:port`, `https://host:port` or `unix:/path`"


def test_every_documented_form_is_an_address() -> None:
    forms = "127.0.0.1:50051, http://hookd.svc:1, [::1]:2,,http://h:3/,unix:/run/h.sock,unix:///run/h.sock,https://h:4"
    assert [(one.target, one.tls, one.local) for one in Address.parse_list(forms)] == [
        ("dns:///127.0.0.1:50051", False, True),
        ("dns:///hookd.svc:1", False, False),
        ("dns:///[::1]:2", False, True),
        ("dns:///h:3", False, False),
        ("unix:/run/h.sock", False, True),
        ("unix:/run/h.sock", False, True),
        ("dns:///h:4", True, False),
    ]
    assert [one.text for one in Address.parse_list(["a:1,b:2", " c:3 "])] == ["a:1", "b:2", "c:3"]


@pytest.mark.parametrize(
    "text",
    [
        "localhost",
        "http://",
        ":50051",
        "h:0",
        "h:99999",
        "h:1/path",
        "h:1?q",
        "u@h:1",
        "unix:",
        "unix:run/h.sock",
        "unix:/a\0b",
        "tcp://h:1",
        "h :1",
        "grpc://h:1",
        "h:1\n",
        "h:１",
    ],
)
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(AddressError) as raised:
        Address.parse(text)
    assert str(raised.value) == f"`{text}` is not an address, {EXPECTED}"


def test_an_empty_list_is_named() -> None:
    with pytest.raises(AddressError) as raised:
        Client(" , ", on_unavailable=BLOCK)
    assert str(raised.value) == f"no address given, {EXPECTED}"


def test_options_that_do_not_fit_are_named() -> None:
    for options, problem in (
        ({"tls": Tls(ca_file="/ca")}, "TLS options are of no use at `h:1`, expected `https://…`"),
        ({"token_file": "/nowhere"}, "the token would be sent in the clear to `h:1`, expected `https://…`"),
    ):
        with pytest.raises(AddressError) as raised:
            Client("h:1", on_unavailable=BLOCK, **options)
        assert str(raised.value) == problem
    with pytest.raises(AddressError, match="one of them is missing"):
        Client("https://h:1", on_unavailable=BLOCK, tls=Tls(cert_file="c.pem"))
    with pytest.raises(OSError, match="the CA file `/nowhere/ca.pem` cannot be read"):
        Client("https://h:1", on_unavailable=BLOCK, tls=Tls(ca_file="/nowhere/ca.pem"))
    with pytest.raises(OSError, match="the token file `/nowhere` cannot be read"):
        Client("127.0.0.1:1", on_unavailable=BLOCK, token_file="/nowhere")
    for nothing in ("block", True, None, OnUnavailable.block_except):
        with pytest.raises(TypeError, match="on_unavailable is .*, expected hookd.OnUnavailable.BLOCK"):
            Client("127.0.0.1:1", on_unavailable=cast(OnUnavailable, nothing))
    with pytest.raises(ValueError, match="a deadline of 0 s is none"):
        Client("127.0.0.1:1", on_unavailable=BLOCK, deadline=0)
    assert Client("127.0.0.1:1", on_unavailable=BLOCK, deadline=float("inf"))._calls.deadline < 2**31
    with pytest.raises(ValueError, match="0 rounds ask nobody"):
        Client("127.0.0.1:1", on_unavailable=BLOCK, rounds=0)
