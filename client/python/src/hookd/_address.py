"""Where hookd listens."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hookd._resolve import is_ip

_EXPECTED = "expected `host:port`, `http://host:port`, `https://host:port` or `unix:/path`"
# A name, an IPv4 address, or an IPv6 address in brackets.
_AUTHORITY = re.compile(r"([A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})/?\Z")
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|\[::1\]")


class AddressError(ValueError):
    """A text is not an address of hookd, or does not fit the other options."""


@dataclass(frozen=True, eq=False)
class Address:
    """One address of hookd: a TCP address, with TLS where it says `https`, or a unix socket."""

    text: str
    """As it was written."""
    target: str
    """What gRPC takes."""
    tls: bool
    """Whether it asks for TLS."""
    local: bool
    """Nothing between the two ends leaves this machine."""
    host: str = ""
    """The name or IP address, without brackets. Empty: a unix socket."""
    port: int = 0
    """The TCP port."""

    @property
    def is_name(self) -> bool:
        """Whether it has to be looked up, and stands for as many replicas as it has addresses."""
        return self.host != "" and not is_ip(self.host)

    @staticmethod
    def parse(text: str) -> Address:
        """Reads one address. Raises `AddressError`."""
        if text.startswith("unix:"):
            path = text.removeprefix("unix:")
            path = path.removeprefix("//") if path.startswith("//") else path
            if not path.startswith("/") or "\0" in path:
                raise _not_an_address(text)
            return Address(text, f"unix:{path}", tls=False, local=True)
        tls = text.startswith("https://")
        match = _AUTHORITY.match(text.removeprefix("https://" if tls else "http://"))
        if match is None or not 0 < int(match[2]) < 65536:
            raise _not_an_address(text)
        local = _LOOPBACK.fullmatch(match[1]) is not None
        return Address(text, f"dns:///{match[1]}:{match[2]}", tls=tls, local=local, host=match[1].strip("[]"), port=int(match[2]))

    @staticmethod
    def parse_list(addresses: str | Iterable[str]) -> list[Address]:
        """Reads a comma separated list, as `HOOKD_ADDRESS` holds it, or several. White space and empty places are
        skipped. Raises `AddressError` of the first one that is none, and where there is not a single one."""
        lists = [addresses] if isinstance(addresses, str) else addresses
        places = [place.strip() for text in lists for place in text.split(",")]
        parsed = [Address.parse(place) for place in places if place]
        if not parsed:
            raise AddressError(f"no address given, {_EXPECTED}")
        return parsed


def _not_an_address(text: str) -> AddressError:
    return AddressError(f"`{text}` is not an address, {_EXPECTED}")
