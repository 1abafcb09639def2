"""From names to addresses."""

from __future__ import annotations

import ipaddress
import socket


def resolve(host: str, port: int) -> list[tuple[str, int]]:
    """The IP addresses and ports behind a name, each of them one replica, as the system knows them. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((str(place[0]), int(place[1])) for *_, place in found))


def is_ip(host: str) -> bool:
    """Whether it is an IP address, which nobody has to look up."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_of_this_machine(ip: str) -> bool:
    """Whether what is sent there stays on this machine."""
    return ipaddress.ip_address(ip.partition("%")[0]).is_loopback
