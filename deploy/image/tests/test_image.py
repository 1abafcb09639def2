"""The image and the example of a derived one, run as an engine would run them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
IMAGES = Path(os.environ["HOOKD_IMAGES"])
HOOKCTL = os.environ["HOOKCTL"]
# How long anything may take here: far longer than it does.
LIMIT = 60
# Of root's capabilities and of setuid programs nothing is left.
HELD = {"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "NoNewPrivs": "1"} | {
    f"Cap{kind}": "0000000000000000" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")
}
SETTINGS = {
    "listen": "127.0.0.1:50051",
    "tiers": {"managed": {"sources": [{"path": "managed"}]}},
    "drain": {"min_delay": "0s", "limit": "60s"},
    "log": {"format": "json"},
}


def rule(tool: str, **handler: Any) -> dict[str, Any]:
    return {"id": tool, "event": "PreToolUse", "matcher": f"^{tool}$", "handler": handler}


ASKED = "http://policy.test:8000/"
RULES = [
    rule("named", type="decide", verdict="block", reason="no shell needed"),
    rule("asked", type="http", url=ASKED),
    rule("slow", type="http", url=ASKED, timeout=60_000),
    rule("script", type="command", command="setsid sh -c 'exec sleep 0.2' >/dev/null 2>&1 & (exit 3) & echo '{\"decision\":\"block\",\"reason\":\"a script says no\"}'"),
]


class Container:
    """A container of an image, from its start to its end."""

    def __init__(self, name: str) -> None:
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        at = Path(self.folder.name)
        at.chmod(0o755)
        config = json.loads((IMAGES / name / "image.json").read_text())["OCIv1"]["config"]
        (at / "root").mkdir()
        (at / "settings/managed").mkdir(parents=True)
        (at / "settings/hookd.yaml").write_text(json.dumps(SETTINGS))
        (at / "settings/managed/rules.json").write_text(json.dumps({"hooks": RULES}))
        (at / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        self.held, self.go = at / "held", at / "go"
        os.mkfifo(self.held)
        os.mkfifo(self.go)
        said = {
            "image": (IMAGES / name / "mounted").read_text().strip(),
            "root": str(at / "root"),
            "settings": str(at / "settings"),
            "resolver": str(at / "resolv.conf"),
            "beside": [sys.executable, str(HERE / "beside.py"), str(self.held), str(self.go)],
            "user": config["User"],
            "command": [*config["Entrypoint"], "--config", "/etc/hookd/hookd.yaml"],
        }
        (at / "container.json").write_text(json.dumps(said))
        command = ["unshare", "--mount", "--net", "--pid", "--fork"]
        self.process = subprocess.Popen(
            [*command, sys.executable, HERE / "enter_image.py", at / "container.json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        try:
            self.wait_for("serving")
        except BaseException:
            self.__exit__()
            raise
        [self.pid] = children(self.process.pid)

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        # Its own end would not take the container along: what `unshare --kill-child` asks for is lost with the change of user.
        for pid in children(self.process.pid) if self.process.poll() is None else []:
            os.kill(pid, 9)
        self.process.wait(LIMIT)
        self.process.stdout.close()
        self.process.stderr.close()
        self.folder.cleanup()

    def wait_for(self, message: str) -> None:
        """Waits for a line of the log."""
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("{") and json.loads(line).get("message") == message:
                return
        raise AssertionError("hookd has ended: " + "".join(self.lines))

    def ask(self, tool: str) -> tuple[int, dict[str, Any]]:
        """Calls hookd from the container's network; the exit code of hookctl, and the decision."""
        command = ["nsenter", "--target", str(self.pid), "--net", HOOKCTL, "trigger", "PreToolUse"]
        command += ["--tool", tool, "--params", "{}", "--timeout", "50s", "--output", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        return done.returncode, json.loads(done.stdout or json.dumps(done.stderr))


def children(pid: int) -> list[int]:
    return [int(it) for it in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def left_behind(pid: int) -> int:
    """How many children hookd has, whichever of its threads started them, besides what serves beside it."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end meanwhile, and its children are then another's.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += len((task / "children").read_text().split())
    return found - 1


class Image(unittest.TestCase):
    """What is in the image, and what it does."""

    def test_it_holds_one_program_and_what_that_reads(self) -> None:
        root = Path((IMAGES / "hookd/mounted").read_text().strip())
        files = {str(it.relative_to(root)) for it in root.rglob("*") if not it.is_dir()}
        libraries = {it for it in files if it.startswith(("lib/", "lib64/"))}
        self.assertEqual(
            files - libraries,
            {"usr/local/bin/hookd", "etc/ssl/certs/ca-certificates.crt", "etc/nsswitch.conf", "etc/passwd", "etc/group"},
        )
        size = sum((root / it).stat().st_size for it in files - libraries)
        self.assertLess(size - (root / "usr/local/bin/hookd").stat().st_size, 1 << 20)
        self.assertEqual({it for it in files if (root / it).stat().st_mode & 0o6022}, set(), "setuid, or not root's alone")

    def test_its_labels_and_its_user_stand_in_its_configuration(self) -> None:
        config = json.loads((IMAGES / "hookd/image.json").read_text())["OCIv1"]["config"]
        labels = {name: it for name, it in config.pop("Labels").items() if name.startswith("org.opencontainers.image.")}
        self.assertEqual(
            {name.rsplit(".")[-1] for name in labels}, {"title", "description", "licenses", "version", "revision"}
        )
        config.pop("Env", None)
        ports = {it.removesuffix("/tcp") for it in config.pop("ExposedPorts")}
        self.assertEqual(
            (config, ports),
            ({"User": "65532:65532", "Entrypoint": ["/usr/local/bin/hookd"]}, {"50051", "8081"}),
        )

    def test_a_first_call_is_blocked_and_a_last_one_is_answered(self) -> None:
        with Container("hookd") as container:
            status = Path(f"/proc/{container.pid}/status").read_text().splitlines()
            said = {name: " ".join(rest.split()) for name, _, rest in (line.partition(":") for line in status)}
            self.assertEqual({name: said[name] for name in HELD}, HELD)
            self.assertEqual(said["NSpid"].split()[-1], "1")
            code, decision = container.ask("named")
            self.assertEqual((code, decision["reason"]), (2, "no shell needed"), decision)
            # By a name that only the name server knows.
            code, decision = container.ask("asked")
            self.assertEqual((code, decision["reason"]), (2, "the policy says no"), decision)
            # There is no shell, and a managed rule that cannot run blocks.
            code, decision = container.ask("script")
            self.assertEqual(code, 2, decision)
            self.assertIn("did_not_start", json.dumps(decision).lower())
            # SIGTERM, which a process 1 gets only if it asks for it, while a call waits for its answer.
            last: list[tuple[int, dict[str, Any]]] = []
            call = threading.Thread(target=lambda: last.append(container.ask("slow")))
            call.start()
            with open(container.held):
                os.kill(container.pid, 15)
                container.wait_for("leaving: not ready any more")
            with open(container.go, "w"):
                pass
            call.join(LIMIT)
            [(code, decision)] = last
            self.assertEqual((code, decision["reason"]), (2, "the policy says no"), decision)
            self.assertEqual(container.process.wait(LIMIT), 0)

    def test_with_a_shell_scripts_run_and_what_they_leave_behind_is_reaped(self) -> None:
        with Container("hookd-with-shell") as container:
            for _ in range(20):
                code, decision = container.ask("script")
                self.assertEqual((code, decision["reason"]), (2, "a script says no"), decision)
            limit = time.monotonic() + LIMIT
            while left_behind(container.pid) > 0:
                self.assertLess(time.monotonic(), limit, "hookd leaves its zombies")
                os.sched_yield()
            self.assertEqual(container.ask("named")[0], 2)


if __name__ == "__main__":
    unittest.main()
