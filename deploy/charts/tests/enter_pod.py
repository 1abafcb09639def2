"""Becomes the container of a pod: run in mount and network namespaces of its own, with a file that says what is in it.

The root has the machine's libraries (the debug build is not static), the program, and the volumes where the pod wants
them; it is read-only, and the user, the groups, the capabilities and the environment are the container's.
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


def bind(source: str | Path, target: Path, options: str = "bind") -> None:
    mount("--rbind", source, target)
    if options != "bind":
        mount("-o", f"remount,bind,{options}", target)


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(it, GET_FLAGS, request))[1]
        fcntl.ioctl(it, SET_FLAGS, struct.pack("16sh", b"lo", flags | UP))


def start_beside(command: list[str]) -> None:
    """Starts a program in the pod's network, and waits for its first line. It ends when nobody has its input any more."""
    beside = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.set_inheritable(beside.stdin.fileno(), True)
    if not beside.stdout.readline():
        raise SystemExit(f"{command} has ended")


def main() -> None:
    container = json.loads(Path(sys.argv[1]).read_text())
    root = Path(container["root"])
    loopback_up()
    if container["beside"]:
        start_beside(container["beside"])
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root)
    for name in ("usr", "lib", "lib64", "bin"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(os.readlink(f"/{name}"))
        elif Path("/", name).exists():
            (root / name).mkdir()
            bind(f"/{name}", root / name, "ro")
    for name in ("dev", "proc"):
        (root / name).mkdir()
        bind(f"/{name}", root / name)
    (root / "hookd").touch()
    bind(container["program"], root / "hookd", "ro")
    (root / "etc").mkdir()
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {container['host']}\n")
    for at, (directory, read_only) in container["mounts"].items():
        target = root / at.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        bind(directory, target, "ro" if read_only else "bind")
    mount("-o", "remount,bind,ro", root)
    os.chroot(root)
    os.chdir("/")
    libc = ctypes.CDLL(None, use_errno=True)
    if container["user"] is not None:
        for capability in range(64):
            libc.prctl(DROP_BOUNDING, capability, 0, 0, 0)
        os.setgroups([container["group"]])
        os.setgid(container["user"])
        os.setuid(container["user"])
    if libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    os.execve("/hookd", ["hookd", *container["arguments"]], container["environment"])


if __name__ == "__main__":
    main()
