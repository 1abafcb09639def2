"""Becomes a container of the image: run in mount, network and process namespaces of its own, with a file that says what is
in it. The root is the image's, read-only; the user is the image's, without a capability; hookd is process 1.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

DROP_BOUNDING, SET_NO_NEW_PRIVILEGES = 24, 38
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 0x1


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(it, GET_FLAGS, request))[1]
        fcntl.ioctl(it, SET_FLAGS, struct.pack("16sh", b"lo", flags | UP))


def main() -> None:
    container = json.loads(Path(sys.argv[1]).read_text())
    root = Path(container["root"])
    loopback_up()
    mount("--make-rprivate", "/")
    # As an engine does: the image's files, what it mounts for every container over them, and no more writing then.
    subprocess.run(["cp", "-a", f"{container['image']}/.", root], check=True)
    mount("--bind", root, root)
    for name in ("proc", "dev", "etc/hookd"):
        (root / name).mkdir(exist_ok=True)
    (root / "etc/resolv.conf").touch()
    mount("-t", "proc", "proc", root / "proc")
    mount("--rbind", "/dev", root / "dev")
    mount("--bind", container["resolver"], root / "etc/resolv.conf")
    mount("--bind", container["settings"], root / "etc/hookd")
    for at in (root / "etc/hookd", root):
        mount("-o", "remount,bind,ro", at)
    # What serves inside of the container's network, started from outside of its root.
    beside = subprocess.Popen(container["beside"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.set_inheritable(beside.stdin.fileno(), True)
    if not beside.stdout.readline():
        raise SystemExit("what runs beside has ended")
    os.chroot(root)
    os.chdir("/")
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):
        libc.prctl(DROP_BOUNDING, capability, 0, 0, 0)
    user, group = (int(number) for number in container["user"].split(":"))
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    if libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    program, *arguments = container["command"]
    os.execve(program, [program, *arguments], {"PATH": "/usr/local/bin:/usr/bin:/bin"})


main()
