"""A fleet for the tests: hookd processes that read one settings file, a Prometheus that scrapes them, and calls."""

import http.client
import itertools
import json
import os
import re
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
PROGRAMS = Path(os.environ["HOOKD_PROGRAMS"])
DEBIAN = Path(os.environ["DEBIAN"])
"""Debian's packages, unpacked."""
LIMIT = 60
"""Seconds that anything may take before a test fails."""


def eventually(what, look):
    """What `look` gives once that is not false, and not an answer that is still missing."""
    end, seen = time.monotonic() + LIMIT, None
    while time.monotonic() < end:
        try:
            seen = look()
        except (OSError, http.client.HTTPException) as error:
            seen = error
        else:
            if seen:
                return seen
        threading.Event().wait(0.05)
    raise AssertionError(f"not within {LIMIT} s: {what}; last seen: {seen!r}")


class Process:
    """A program whose output goes to a file. It ends with its `with`."""

    def __init__(self, command, log, **environment):
        self.log = Path(log)
        with self.log.open("wb") as out:
            self.child = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, **environment},
            )

    def said(self, pattern):
        """The match of `pattern` in its output, once there is one."""

        def look():
            text = self.log.read_text()
            assert self.child.poll() is None, f"it ended:\n{text}"
            return re.search(pattern, text)

        return eventually(f"`{pattern}` in {self.log}", look)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Replica(Process):
    """One hookd."""

    def __init__(self, number, folder):
        self.audit = folder / f"audit-{number}.jsonl"
        self.ca = folder / "ca.crt"
        super().__init__(
            [PROGRAMS / "hookd", "--config", folder / "hookd.json"],
            folder / f"hookd-{number}.log",
            HOOKD__AUDIT__FILE__PATH=str(self.audit),
        )
        self.grpc, self.admin = self.said(r"hookd is ready: grpc=(\S+) admin=(\S+)").groups()
        self.tls = ssl.create_default_context(cafile=str(self.ca))

    def ask(self, call, **headers):
        """The answer of `POST /v1/trigger`, or what it says in place of one."""
        headers = {name.replace("_", "-"): text for name, text in headers.items()}
        headers |= {"Content-Type": "application/json", "Connection": "close"}
        url = f"https://{self.grpc}/v1/trigger"
        request = urllib.request.Request(url, json.dumps(call).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT, context=self.tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return json.load(refused)

    def metrics(self):
        """What it serves to Prometheus: `(name, labels)` of every series."""
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=LIMIT) as page:
            text = page.read().decode()
        series = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
                series[name, tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))] = float(value)
        return series

    def hookctl(self, *arguments):
        """What `hookctl` prints about it."""
        command = [PROGRAMS / "hookctl", *arguments]
        return subprocess.run(command, env=self.environment(), check=True, capture_output=True, text=True).stdout

    def environment(self):
        """What brings `hookctl` to it."""
        return {**os.environ, "HOOKD_ADDRESS": f"https://{self.grpc}", "HOOKD_CA_FILE": str(self.ca)}


class Prometheus(Process):
    """Debian's Prometheus, with the alerts of this folder."""

    def __init__(self, folder, replicas):
        rules = (HERE / "alerts.yaml").read_text()
        (folder / "hookd-alerts.yaml").write_text(rules)
        targets = json.dumps([replica.admin for replica in replicas])
        (folder / "prometheus.yml").write_text(
            "global: { scrape_interval: 1s, evaluation_interval: 1s }\n"
            "rule_files: [hookd-alerts.yaml]\n"
            f"scrape_configs: [{{ job_name: hookd, static_configs: [{{ targets: {targets} }}] }}]\n"
        )
        super().__init__(
            [
                DEBIAN / "usr/bin/prometheus", f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/tsdb", "--web.listen-address=127.0.0.1:0",
            ],
            folder / "prometheus.log",
        )
        self.address = self.said(r'msg="Listening on" address=(127\.0\.0\.1:\d+)').group(1)

    def get(self, path, **parameters):
        """`data` of an answer of its API."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=LIMIT) as page:
                return json.load(page)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                raise
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, query):
        """The samples of a query: `(labels, value)`."""
        result = self.get("query", query=query)["result"]
        return [(sample["metric"], float(sample["value"][1])) for sample in result]

    def alerts(self):
        """The alerts that it has, as it read them."""
        groups = self.get("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]


class Load:
    """A small load on all replicas, as long as its `with` lasts: at most 50 calls a second on each."""

    def __init__(self, replicas, calls):
        self.replicas, self.calls, self.end = replicas, itertools.cycle(calls), threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.end.wait(0.02):
            call, headers = next(self.calls)
            for replica in self.replicas:
                replica.ask(call, **headers)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()
