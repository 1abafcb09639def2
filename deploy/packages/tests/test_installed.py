"""The programs as they were installed: nothing stands between them and whoever started them."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import ROOT, Installed
from registry import Registry
from test_pack import VERSION

QUICKSTART = ROOT / "deploy/examples/quickstart"


@contextmanager
def server(
    installed: Installed, folder: Path, stdin: int = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A hookd with the rules of the quickstart, on a free port, and its address."""
    rules = folder / "quickstart"
    shutil.copytree(QUICKSTART, rules)
    settings = rules / "hookd.yaml"
    settings.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", settings.read_text()))
    command = [installed.command("hookd"), "--config", settings]
    with (folder / "log").open("w") as log:
        hookd = subprocess.Popen(
            command, env=installed.environment, stdin=stdin, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert hookd.stdout is not None
        line = hookd.stdout.readline()
        ready = re.match(r"hookd is ready: grpc=(\S+)", line)
        assert ready, line + (folder / "log").read_text()
        yield hookd, ready[1]
    finally:
        for process in [*children(hookd.pid), hookd.pid]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        hookd.communicate(timeout=60)


def children(process: int) -> list[int]:
    """Its children, if it is there and has any."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


def hookctl(installed: Installed, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [installed.command("hookctl"), *arguments]
    return subprocess.run(command, env=installed.environment, input=stdin, capture_output=True, text=True, timeout=60)


def edit(path: str, **more: str) -> str:
    """What Claude Code writes before it edits a file."""
    return json.dumps(
        {
            "session_id": "s1",
            "transcript_path": "/nowhere",
            "cwd": "/",
            "hook_event_name": "PreToolUse",
            "tool_name": "edit_file",
            "tool_input": {"file_path": path, **more},
            "tool_use_id": "t1",
        }
    )


def test_the_programs_say_their_version(installed: Installed) -> None:
    for name in ("hookd", "hookctl"):
        done = subprocess.run(
            [installed.command(name), "--version"],
            env=installed.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{name} {VERSION}\n", "")


def test_the_python_client_brings_them_as_an_extra(packed: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=300)
    commands = tmp_path / "venv/bin"
    client = f"{ROOT / 'client/python'}[bin]"
    command = [commands / "pip", "install", "--quiet", "--find-links", packed, client]
    subprocess.run(command, check=True, timeout=300)
    said = "import hookd, subprocess, sys; print(hookd.__version__, flush=True); subprocess.run([sys.argv[1], '--version'])"
    command = [commands / "python", "-c", said, commands / "hookd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{VERSION}\nhookd {VERSION}\n", "")


def test_no_interpreter_stands_between_where_it_can_be_helped(installed: Installed) -> None:
    is_program = installed.command("hookctl").read_bytes().startswith(b"\x7fELF")
    assert is_program == (installed.way in ("pip", "npm"))


def test_a_first_call_is_blocked(installed: Installed, tmp_path: Path) -> None:
    with server(installed, tmp_path) as (_, address):
        params = '{"file_path":"node_modules/x.js"}'
        done = hookctl(
            installed, "--address", address, "trigger", "PreToolUse", "--tool", "edit_file", "--params", params
        )
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("BLOCK  PreToolUse edit_file\n  Cannot write to node_modules\n")


def test_the_relay_reads_what_the_agent_writes(installed: Installed, tmp_path: Path) -> None:
    with server(installed, tmp_path) as (_, address):
        arguments = ("relay", "--address", address, "--agent", "claude-code")
        # More than a pipe holds.
        text = "ü" * 100_000
        blocked = hookctl(installed, *arguments, stdin=edit("node_modules/x.js", new_string=text))
        passed = hookctl(installed, *arguments, stdin=edit("src/x.js", new_string=text))
    assert (blocked.returncode, blocked.stderr) == (0, "")
    answer = json.loads(blocked.stdout)["hookSpecificOutput"]
    assert answer["permissionDecision"] == "deny"
    assert answer["permissionDecisionReason"].startswith("Cannot write to node_modules (no-node-modules, ")
    assert (passed.returncode, passed.stdout, passed.stderr) == (0, "", "")


def test_exit_codes_are_the_programs_own(installed: Installed) -> None:
    # Nobody listens on this port: it cannot be had by a server.
    unasked = hookctl(installed, "--address", "127.0.0.1:1", "trigger", "Stop")
    assert (unasked.returncode, unasked.stdout) == (1, "")
    wrong = hookctl(installed, "--no-such-option")
    assert (wrong.returncode, wrong.stdout) == (64, "")


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_in_good_order(installed: Installed, tmp_path: Path, told: signal.Signals) -> None:
    with server(installed, tmp_path) as (hookd, _):
        below = children(hookd.pid)
        assert len(below) == (1 if installed.way == "npm-follows" else 0)
        hookd.send_signal(told)
        assert hookd.wait(timeout=60) == 0
        assert not [process for process in below if Path(f"/proc/{process}").exists()]
    assert "a second signal" not in (tmp_path / "log").read_text()


def test_ctrl_c_is_one_signal(installed: Installed, tmp_path: Path) -> None:
    terminal, other_end = pty.openpty()
    try:
        # A session of its own, whose terminal this is: what is typed there signals its foreground group.
        typed = "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        typed += "os.execv(sys.argv[1], sys.argv[1:])"
        started = Installed(installed.way, tmp_path / "commands", installed.path)
        started.commands.mkdir()
        command = started.command("hookd")
        command.write_text(f"#!/bin/sh\nexec python3 -c '{typed}' {installed.command('hookd')} \"$@\"\n")
        command.chmod(0o755)
        with server(started, tmp_path, stdin=other_end) as (hookd, _):
            os.write(terminal, b"\x03")
            assert hookd.wait(timeout=60) == 0
    finally:
        os.close(terminal)
        os.close(other_end)
    assert "a second signal" not in (tmp_path / "log").read_text()


def test_the_way_it_ended_is_seen_from_outside(installed: Installed, tmp_path: Path) -> None:
    with server(installed, tmp_path) as (hookd, _):
        os.kill((children(hookd.pid) or [hookd.pid])[0], signal.SIGKILL)
        assert hookd.wait(timeout=60) == -signal.SIGKILL


def test_a_machine_without_a_package_is_told_in_one_line(registry: Registry, tmp_path: Path) -> None:
    registry.install(tmp_path, "--cpu=riscv64")
    installed = Installed("npm", tmp_path / "node_modules/.bin", os.environ["PATH"])
    assert not (tmp_path / "node_modules/@hookd/cli-linux-x64").exists()
    why = (
        "the package @hookd/cli-linux-x64 is not installed (were optional dependencies left out?), "
        "or there is none for this machine: build hookd with cargo there\n"
    )
    done = subprocess.run([installed.command("hookd")], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"hookd: {why}")
    done = hookctl(installed, "trigger", "Stop")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"hookctl: {why}")
    # To an agent 2 is a block.
    done = hookctl(installed, "relay", "--agent", "claude-code", stdin=edit("src/x.js"))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"hookctl: {why}")
