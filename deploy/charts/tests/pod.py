"""A pod of the chart on this machine: the real hookd with exactly the arguments, mounts and environment of the manifest."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable

from chart import HERE, Object, Rendered
from volumes import IS_ROOT, Cluster, Volume

PROGRAMS = Path(os.environ["HOOKD_PROGRAMS"])
# How long anything may take here: far longer than it does.
LIMIT = 120


class Pod:
    """A pod: its volumes, and a process in namespaces of its own."""

    def __init__(self, rendered: Rendered, cluster: Cluster, directory: Path) -> None:
        self.rendered, self.cluster = rendered, cluster
        spec = rendered.pod()["spec"]
        [self.container] = spec["containers"]
        security = spec["securityContext"]
        self.user, self.group = security["runAsUser"], security["fsGroup"]
        self.directory = directory
        # What runs in the network of the pod besides hookd, and the name by which hookd finds it.
        self.beside: list[str | Path] = []
        self.host = ""
        self.volumes = {
            it["name"]: Volume(directory / "volumes" / it["name"], it, self.group) for it in spec["volumes"]
        }
        self.refresh()

    def refresh(self) -> None:
        """What a kubelet does each minute."""
        for volume in self.volumes.values():
            volume.refresh(self.cluster)

    def mounts(self) -> dict[str, tuple[str, bool]]:
        """Where volumes are mounted: the directory, and whether it is read-only."""
        return {
            it["mountPath"]: (str(self.volumes[it["name"]].directory), it.get("readOnly", False))
            for it in self.container["volumeMounts"]
        }

    def command(self, *more: str, without: str | None = None) -> list[str | Path]:
        """The command that becomes the container."""
        root = self.directory / "root"
        root.mkdir(exist_ok=True)
        mounts = {at: it for at, it in self.mounts().items() if at != without}
        assert without is None or len(mounts) == len(self.mounts()) - 1
        environment = {it["name"]: self.value(it) for it in self.container.get("env", [])}
        said = {
            "root": str(root),
            "beside": [str(it) for it in self.beside],
            "host": self.host,
            "program": str(PROGRAMS / "hookd"),
            "mounts": mounts,
            "user": self.user if IS_ROOT else None,
            "group": self.group,
            "arguments": [*self.container["args"], *more],
            "environment": environment,
        }
        path = self.directory / "container.json"
        path.write_text(json.dumps(said))
        namespaces = ["--mount", "--net", *([] if IS_ROOT else ["--user", "--map-root-user"])]
        return ["unshare", *namespaces, sys.executable, HERE / "enter_pod.py", path]

    def value(self, variable: Object) -> str:
        """The value of a variable of the environment."""
        if "value" in variable:
            return variable["value"]
        reference = variable["valueFrom"]["secretKeyRef"]
        return self.cluster.data["Secret", reference["name"]][reference["key"]].decode()

    def run(self, *more: str, without: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs the container to its end."""
        command = self.command(*more, without=without)
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)

    def start(self) -> Running:
        """Starts the container and waits until hookd serves."""
        return Running(self)


class Running:
    """A running container."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.process = subprocess.Popen(pod.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        try:
            self.wait_for(lambda line: line["message"] == "serving")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def read(self) -> None:
        for line in self.process.stderr:
            self.lines.put(line)
        self.lines.put(None)

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next line of the log that is wanted."""
        seen = []
        for line in iter(lambda: self.lines.get(timeout=LIMIT), None):
            seen.append(line)
            said = json.loads(line) if line.startswith("{") else {"message": line}
            if wanted(said):
                return said
        raise AssertionError("hookd has ended: " + "".join(seen))

    def loaded(self) -> dict[str, Any]:
        """Waits for rules that were loaded anew."""
        return self.wait_for(lambda line: line["message"] == "catalog loaded" and line["changed"])

    def inside(self, *command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a program of this machine in the pod's network, as a port forward would lead there."""
        target = ["nsenter", "--target", str(self.process.pid), "--net"]
        user = [] if IS_ROOT else ["--user", "--preserve-credentials"]
        command = (*target, *user, *command)
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, **options)

    def probes(self) -> dict[str, int]:
        """What the probes of the manifest see: the status of each."""
        ports = {it["name"]: it["containerPort"] for it in self.pod.container["ports"]}
        return dict(self.probe(kind, ports) for kind in ("startup", "readiness", "liveness"))

    def probe(self, kind: str, ports: dict[str, int]) -> tuple[str, int]:
        get = self.pod.container[f"{kind}Probe"]["httpGet"]
        url = f"http://127.0.0.1:{ports[get['port']]}{get['path']}"
        done = self.inside("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url)
        return kind, int(done.stdout)

