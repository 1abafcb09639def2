"""hookd as the chart starts it: what it reads, what it does when ConfigMaps change, and where it does not start."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, Iterator

import pytest
from authorities import Authority, Issuer
from chart import Object, Rendered, merged, render, value_sets, values
from pod import IS_ROOT, PROGRAMS, Pod, Running
from volumes import Cluster


def block(rule: str, word: str) -> str:
    """A rule file that blocks shell commands with a word in them."""
    return json.dumps(
        {
            "hooks": [
                {
                    "id": rule,
                    "event": "PreToolUse",
                    "when": f"params.command.contains('{word}')",
                    "handler": {"type": "decide", "verdict": "block", "reason": f"no {word}"},
                }
            ]
        }
    )


class World:
    """What is around the pod: its cluster with the Secrets and ConfigMaps that the values name."""

    def __init__(self, rendered: Rendered) -> None:
        self.rendered = rendered
        self.authority, self.issuer = Authority(), Issuer("first")
        self.cluster = Cluster(rendered.objects)
        names = rendered.settings()["hosts"]
        for name in ("hookd-tls", "policy-tls"):
            self.cluster.put("Secret", name, self.authority.secret(names))
        authority = self.authority.pem()
        self.cluster.put("Secret", "callers-ca", {"ca.crt": authority})
        self.cluster.put("Secret", "hookd-tokens", {"tokens.yaml": "tokens: [ { name: ci, value: secret-of-the-ci } ]"})
        self.cluster.put("Secret", "guard", {"token": "secret-of-the-guard"})
        self.cluster.put("ConfigMap", "callers-ca", {"bundle.pem": authority})
        self.cluster.put("ConfigMap", "internal-ca", {"ca.crt": authority})
        self.cluster.put("ConfigMap", "kube-root-ca.crt", {"ca.crt": authority})
        self.cluster.put("ConfigMap", "hookd-jwks", {"jwks.json": self.issuer.jwks()})
        for name in ("hookd-managed", "central-rules", "security-rules", "payments-rules"):
            self.cluster.put("ConfigMap", name, {"rules.json": block(name, name)})

    def pod(self, directory: Path) -> Pod:
        return Pod(self.rendered, self.cluster, directory)


@pytest.mark.parametrize("name", value_sets())
def test_hookd_takes_the_settings(name: str, tmp_path: Path) -> None:
    done = World(render(values(name))).pod(tmp_path).run("--check")
    assert done.returncode == 0, done.stderr + done.stdout


def test_hookd_refuses_settings_that_the_chart_passes_on(tmp_path: Path) -> None:
    wrong = merged(values("minimal"), {"settings": {"limits": {"in_fligth": 1}}})
    done = World(render(wrong)).pod(tmp_path).run("--check")
    assert (done.returncode, "did you mean `in_flight`" in done.stderr) == (64, True), done.stderr


@pytest.mark.parametrize("at", ["managed/policy-managed", "managed/security-rules", "team/payments-rules"])
def test_law_10_a_volume_of_rules_that_is_not_mounted_stops_the_start(at: str, tmp_path: Path) -> None:
    rendered = render(merged(values("full"), {"identity": {"cluster": {"enabled": False}, "issuers": []}}))
    path = f"/etc/hookd/rules/{at}"
    done = World(rendered).pod(tmp_path).run(without=path)
    assert (done.returncode, path in done.stderr) == (64, True), done.stderr


@pytest.fixture
def world() -> World:
    return World(render(values("minimal")))


@pytest.fixture
def running(world: World, tmp_path: Path) -> Iterator[Running]:
    pod = world.pod(tmp_path / "pod")
    (tmp_path / "hookd-ca.crt").write_bytes(world.authority.pem())
    (tmp_path / "hookd-token").write_text(world.issuer.token("hookd"))
    with pod.start() as running:
        yield running


def hookctl(running: Running, directory: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """What `hookctl` says, with the files that the chart's notes make."""
    where = ["--address", "https://localhost:50051", "--ca-file", "hookd-ca.crt", "--token-file", "hookd-token"]
    done = running.inside(PROGRAMS / "hookctl", "--output", "json", *where, *arguments, cwd=directory, env={})
    return done.returncode, json.loads(done.stdout or "{}")


def ask(running: Running, directory: Path, command: str) -> tuple[int, str]:
    """The exit code and the reason for a shell command."""
    params = json.dumps({"command": command})
    code, said = hookctl(running, directory, "trigger", "PreToolUse", "--tool", "Bash", "--params", params)
    return code, said.get("reason", "")


def test_the_command_of_the_notes_asks_it(running: Running, world: World, tmp_path: Path) -> None:
    assert running.probes() == {"startup": 200, "readiness": 200, "liveness": 200}
    [line] = re.findall(r"^  (hookctl .*)$", world.rendered.notes, re.MULTILINE)
    command = shlex.split(line)
    assert command[0] == "hookctl"
    done = running.inside(PROGRAMS / "hookctl", *command[1:], cwd=tmp_path, env={})
    assert (done.returncode, done.stdout.splitlines()[0].split()) == (0, ["NONE", "PreToolUse", "Bash"]), done.stderr


def test_only_tokens_for_hookd_are_taken(running: Running, world: World, tmp_path: Path) -> None:
    assert ask(running, tmp_path, "ls") == (0, "")
    tokens = {"of another audience": world.issuer.token("vault"), "of another cluster": Issuer("first").token("hookd")}
    for name, token in tokens.items():
        (tmp_path / "hookd-token").write_text(token)
        assert ask(running, tmp_path, "ls")[0] == 1, name
    # The cluster has new keys: the file changes under the running process.
    successor = Issuer("second")
    world.cluster.put("ConfigMap", "hookd-jwks", {"jwks.json": successor.jwks()})
    running.pod.refresh()
    running.wait_for(lambda line: line["message"] == "the keys of an issuer are new")
    (tmp_path / "hookd-token").write_text(successor.token("hookd"))
    assert ask(running, tmp_path, "ls") == (0, "")


def test_law_10_a_config_map_changes_the_rules_in_place(running: Running, world: World, tmp_path: Path) -> None:
    def put(rules: Object) -> None:
        world.cluster.put("ConfigMap", "hookd-managed", rules)
        running.pod.refresh()

    put({"first.json": block("first", "curl"), "second.json": block("second", "wget")})
    running.loaded()
    assert ask(running, tmp_path, "curl x") == (2, "no curl")
    assert ask(running, tmp_path, "wget x") == (2, "no wget")
    # A key that goes takes its rules along.
    put({"second.json": block("second", "wget")})
    running.loaded()
    assert ask(running, tmp_path, "curl x") == (0, "")
    assert ask(running, tmp_path, "wget x") == (2, "no wget")
    # A broken one changes nothing, and takes no replica out of service.
    put({"second.json": "{"})
    running.wait_for(lambda line: line["message"] == "load refused, the catalog in force stays")
    assert ask(running, tmp_path, "wget x") == (2, "no wget")
    assert running.probes()["readiness"] == 200
    put({"second.json": block("second", "netcat")})
    running.loaded()
    assert ask(running, tmp_path, "netcat x") == (2, "no netcat")
    assert running.process.poll() is None


def test_one_value_takes_the_managed_rules_out_and_brings_them_back(
    running: Running, world: World, tmp_path: Path
) -> None:
    assert ask(running, tmp_path, "hookd-managed")[0] == 2
    for mode, code in (("shadow", 0), ("enforce", 2)):
        changed = render(merged(values("minimal"), {"rules": {"managed": {"mode": mode}}}))
        assert changed.pod() == world.rendered.pod()
        world.cluster.put("ConfigMap", "hookd", changed.one("ConfigMap", "hookd")["data"])
        running.pod.refresh()
        running.loaded()
        assert ask(running, tmp_path, "hookd-managed")[0] == code


@pytest.mark.skipif(not IS_ROOT, reason="only root can become the user of the manifest")
def test_the_process_may_do_nothing(running: Running) -> None:
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    said = dict(line.split(":\t", 1) for line in status.splitlines())
    wanted = {key: said[key] for key in ("Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs")}
    assert {key: it.split() for key, it in wanted.items()} == {
        "Uid": ["65532"] * 4,
        "Gid": ["65532"] * 4,
        "Groups": ["65532"],
        "CapEff": ["0" * 16],
        "CapBnd": ["0" * 16],
        "NoNewPrivs": ["1"],
    }
    mounts = Path(f"/proc/{running.process.pid}/mountinfo").read_text().splitlines()
    options = {line.split()[4]: set(line.split()[5].split(",")) for line in mounts}
    assert {at for at in options if "ro" not in options[at] and at.startswith(("/etc", "/var", "/tmp"))} == {
        "/tmp",
        "/var/lib/hookd",
    }
    assert "ro" in options["/"]
