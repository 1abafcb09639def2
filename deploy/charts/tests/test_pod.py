"""hookd as the chart starts it: what it reads, what it does when ConfigMaps change, and where it does not start."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Iterator

import pytest
from authorities import Authority, Issuer
from chart import HERE, Object, Rendered, merged, render, value_sets, values
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
            assert ("ConfigMap", name) not in self.cluster.data
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


@pytest.mark.parametrize("at", ["managed/policy-rules", "managed/security-rules", "team/payments-rules"])
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
    caller(world, tmp_path)
    with world.pod(tmp_path / "pod").start() as running:
        yield running


def caller(world: World, directory: Path) -> None:
    """The files that the notes of the chart make for a caller."""
    (directory / "hookd-ca.crt").write_bytes(world.authority.pem())
    (directory / "hookd-token").write_text(world.issuer.token("hookd"))


def notes_command(rendered: Rendered) -> list[str]:
    """The arguments of the one `hookctl` command in the notes."""
    [line] = re.findall(r"^  hookctl (.*)$", rendered.notes, re.MULTILINE)
    return shlex.split(line)


def ask(running: Running, directory: Path, command: str, *more: str) -> tuple[int, str]:
    """Asks, as the notes say, about another shell command: the exit code and the reason."""
    arguments = notes_command(running.pod.rendered)
    arguments[-1] = json.dumps({"command": command})
    done = running.inside(PROGRAMS / "hookctl", "--output", "json", *more, *arguments, cwd=directory, env={})
    return done.returncode, json.loads(done.stdout or "{}").get("reason", "")


def test_the_command_of_the_notes_asks_it(running: Running, world: World, tmp_path: Path) -> None:
    assert running.probes() == {"startup": 200, "readiness": 200, "liveness": 200}
    done = running.inside(PROGRAMS / "hookctl", *notes_command(world.rendered), cwd=tmp_path, env={})
    assert (done.returncode, done.stdout.splitlines()[0].split()) == (0, ["NONE", "PreToolUse", "Bash"]), done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_in_the_clear_everybody_may_ask_where_the_values_say_so(host: str, tmp_path: Path) -> None:
    rendered = render(merged(values("plaintext"), {"listenHost": host}))
    with World(rendered).pod(tmp_path).start() as running:
        assert ask(running, tmp_path, "ls") == (0, "")
        assert ask(running, tmp_path, "git push --force") == (2, "force pushes are not for agents")
        assert running.probes() == {"startup": 200, "readiness": 200, "liveness": 200}


def test_callers_show_certificates(tmp_path: Path) -> None:
    world = World(render(values("daemonset")))
    caller(world, tmp_path)
    for name, uri in (("ours", "spiffe://example.org/ns/payments/sa/a"), ("theirs", "spiffe://example.com/ns/b")):
        shown = world.authority.secret([], (uri,))
        (tmp_path / f"{name}.crt").write_bytes(shown["tls.crt"])
        (tmp_path / f"{name}.key").write_bytes(shown["tls.key"])
    with world.pod(tmp_path / "pod").start() as running:
        codes = {
            name: ask(running, tmp_path, "ls", "--client-cert-file", f"{name}.crt", "--client-key-file", f"{name}.key")[0]
            for name in ("ours", "theirs")
        }
        assert codes == {"ours": 0, "theirs": 1}
        assert ask(running, tmp_path, "ls")[0] == 1


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


def test_the_keys_of_the_cluster_come_from_its_api_server(tmp_path: Path) -> None:
    cluster = {"jwksConfigMap": "", "jwksFromApiServer": True}
    world = World(render(merged(values("minimal"), {"identity": {"cluster": cluster}})))
    caller(world, tmp_path)
    pod = world.pod(tmp_path / "pod")
    pod.host = "kubernetes.default.svc.cluster.local"
    shown = world.authority.secret([pod.host])
    for name, content in {**shown, "keys": world.issuer.jwks().encode()}.items():
        (tmp_path / name).write_bytes(content)
    [token] = (pod.volumes["api-server"].directory / "token").read_text().splitlines()
    files = [tmp_path / name for name in ("tls.crt", "tls.key", "keys")]
    pod.beside = [sys.executable, HERE / "api_server.py", "443", *files, token]
    with pod.start() as running:
        assert ask(running, tmp_path, "ls") == (0, "")
        assert any((pod.volumes["state"].directory / "jwks").iterdir())


def test_a_secret_changes_the_certificate_in_place(running: Running, world: World, tmp_path: Path) -> None:
    successor = Authority()
    world.cluster.put("Secret", "hookd-tls", successor.secret(["localhost"]))
    running.pod.refresh()
    running.wait_for(lambda line: line["message"] == "certificate reloaded")
    assert ask(running, tmp_path, "ls")[0] == 1
    (tmp_path / "hookd-ca.crt").write_bytes(successor.pem())
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
