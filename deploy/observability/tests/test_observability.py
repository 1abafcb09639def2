"""Dashboard, alerts and pages against three real replicas under a small load, and a real Prometheus.

`--table` prints the dashboard's queries with their results, as README.md shows them.
"""

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from fleet import DEBIAN, HERE, PROGRAMS, Load, Prometheus, Replica, eventually

DASHBOARD = json.loads((HERE / "dashboard.json").read_text())
OF_TARGETS = {"namespace", "job", "instance"}
"""The labels that Prometheus adds."""
WINDOW = "20s"
"""What stands for `$__rate_interval`."""

DECIDE = {"type": "decide"}
# A run that touches every metric, with every value of a label that dashboard and alerts name.
MANAGED = {
    "hooks": [
        {"id": "no-rm", "event": "PreToolUse", "matcher": "^Bash$", "when": "params.command.contains('rm -rf')",
         "handler": {**DECIDE, "verdict": "block", "reason": "not that way"}},
        {"id": "broken", "event": "PreToolUse", "matcher": "^broken$",
         "handler": {"type": "command", "argv": ["sh", "-c", "exit 1"]}},
        {"id": "tried-out", "event": "PreToolUse", "mode": "shadow", "handler": {**DECIDE, "verdict": "block"}},
        {"id": "gone", "event": "SessionStart", "handler": {"type": "command", "argv": ["/nowhere/guard"]}},
    ],
    "defaults": [{"event": "PreToolUse", "matcher": "^deploy$", "verdict": "block", "reason": "not on the list"}],
}
TEAM = {
    "hooks": [
        {"id": "away", "event": "PostToolUse", "handler": {"type": "http", "url": "http://127.0.0.1:9/"}},
        {"id": "lint", "event": "PostToolUse", "handler": {"type": "command", "argv": ["sh", "-c", "exit 3"]}},
        {"id": "later", "event": "Stop", "async": True, "handler": {**DECIDE, "verdict": "allow"}},
    ]
}


def tool_call(event, tool, **params):
    return {"event": event, "sessionId": "s1", "toolCall": {"tool": tool, "params": params}}


BLOCKED = tool_call("PreToolUse", "Bash", command="rm -rf /")
BLOCKED_BY_DEFAULT = tool_call("PreToolUse", "deploy")
CALLS = [
    (tool_call("PreToolUse", "Read", path="a"), {}),
    (BLOCKED, {}),
    (tool_call("PreToolUse", "broken"), {}),
    ({**tool_call("PostToolUse", "Read"), "toolCall": {"tool": "Read", "params": {}, "result": "a"}}, {}),
    ({"event": "SessionStart", "sessionId": "s1"}, {}),
    ({"event": "Stop", "sessionId": "s1"}, {}),
    # Too late on arrival, and a proof that is none.
    (BLOCKED, {"hookd_timeout_ms": "1"}),
    (BLOCKED, {"Authorization": "Bearer nothing"}),
    # A tenant that calls too often.
    (BLOCKED, {"Authorization": "Bearer the-agent-of-a-tenant"}),
]


def settings(folder, managed_mode):
    issuer = {"issuer": "https://issuer", "audiences": ["hookd"]}
    return {
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "tls": {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")},
        "identity": {
            "issuers": [
                {**issuer, "name": "prod", "jwks_url": "https://127.0.0.1:9/keys"},
                {**issuer, "name": "ci", "jwks_file": str(folder / "keys.json")},
            ],
            "tokens_file": str(folder / "tokens.json"),
        },
        "bulkheads": {"breaker_runs": 2, "breaker_open_for": "10m", "tenant_calls_per_second": 1, "tenant_burst": 1},
        "tiers": {
            "managed": {"sources": [{"path": str(folder / "managed")}], "mode": managed_mode},
            "team": {"sources": [{"path": str(folder / "team")}]},
        },
    }


def leaves(value, at=()):
    """All that a JSON value holds, each with its place."""
    if not isinstance(value, (dict, list)):
        return {(at, value)}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {leaf for key, part in items for leaf in leaves(part, (*at, key))}


def put(path, value):
    """Puts JSON in its place in one step."""
    path.parent.mkdir(exist_ok=True)
    new = path.parent.parent / "new-file"
    new.write_text(json.dumps(value))
    new.rename(path)


def queries():
    """`(panel, query)` of the dashboard."""
    return [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]


def as_run(query):
    """A query of the dashboard for all replicas."""
    return query.replace("$job", "hookd").replace("$instance", ".*").replace("$__rate_interval", WINDOW)


def as_shown(query):
    """A query of the dashboard without its variables."""
    query = query.replace('job=~"$job",instance=~"$instance"', "").replace("{,", "{").replace("{}", "")
    return query.replace("$__rate_interval", WINDOW)


def selectors(query):
    """`(metric, matchers)` of a query."""
    for name, matchers in re.findall(r"\b(hookd_\w+)(?:\{([^}]*)\})?", query):
        yield name, re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', matchers)


def grouped(query):
    """The labels that a query groups by."""
    lists = re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
    return {label.strip() for labels in lists for label in labels.split(",")}


def meets(value, sign, wanted):
    return {"=": value == wanted, "!=": value != wanted, "=~": re.fullmatch(wanted, value)}[sign]


def certificates(folder):
    """An authority, and what it says of 127.0.0.1 for a month."""
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    ca = ["-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=authority", "-addext", "keyUsage=critical,keyCertSign"]
    own = ["-keyout", "tls.key", "-out", "tls.crt", "-subj", "/CN=hookd", "-CA", "ca.crt", "-CAkey", "ca.key",
           "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1"]
    for more in (ca, own):
        subprocess.run([*new, *more], cwd=folder, check=True, capture_output=True)


def keys(folder):
    """The key of an issuer, as it publishes it."""
    public = ["openssl", "pkey", "-in", "ca.key", "-pubout", "-outform", "DER"]
    point = subprocess.run(public, cwd=folder, check=True, capture_output=True).stdout[-64:]
    x, y = (base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (point[:32], point[32:]))
    (folder / "keys.json").write_text(json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "x": x, "y": y}]}))


class Fleet:
    """Three replicas under load, and their Prometheus, which has seen enough for rates."""

    def __init__(self):
        with contextlib.ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            certificates(self.folder)
            keys(self.folder)
            put(self.folder / "managed" / "rules.json", MANAGED)
            put(self.folder / "team" / "rules.json", TEAM)
            token = {"name": "agent", "value": "the-agent-of-a-tenant", "labels": {"tenant": "payments"}}
            (self.folder / "tokens.json").write_text(json.dumps({"tokens": [token]}))
            self.managed_mode("enforce")
            self.replicas = [stack.enter_context(Replica(number, self.folder)) for number in range(3)]
            self.prometheus = stack.enter_context(Prometheus(self.folder, self.replicas))
            stack.enter_context(Load(self.replicas, list(CALLS)))
            # The breaker opens last: when its failures grow, all else has happened more than once.
            last = f'count(count by (instance) (rate(hookd_handler_runs_total{{failure="overloaded"}}[{WINDOW}]) > 0))'
            eventually("calls of every kind, scraped twice", lambda: self.prometheus.query(last) == [({}, 3.0)])
            self.close = stack.pop_all().close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def managed_mode(self, mode):
        """The one edit."""
        new = self.folder / "new-file"
        new.write_text(json.dumps(settings(self.folder, mode), indent=1))
        new.rename(self.folder / "hookd.json")


class Observability(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet()
        cls.addClassCleanup(cls.fleet.close)
        cls.alerts = cls.fleet.prometheus.alerts()

    def test_every_metric_and_label_of_dashboard_and_alerts_is_served(self):
        served = self.fleet.replicas[0].metrics()
        for query in [query for _, query in queries()] + [alert["query"] for alert in self.alerts]:
            of_metrics = set()
            for name, matchers in selectors(query):
                series = [dict(labels) for served_name, labels in served if served_name == name]
                self.assertTrue(series, f"{name} is not served: {query}")
                of_metrics |= {label for labels in series for label in labels}
                own = [matcher for matcher in matchers if matcher[0] not in OF_TARGETS]
                fits = [s for s in series if all(m[0] in s and meets(s[m[0]], m[1], m[2]) for m in own)]
                self.assertTrue(fits, f"no series of {name} meets {own}, of {series}")
            self.assertLessEqual(grouped(query), of_metrics | OF_TARGETS, query)

    def test_every_query_of_the_dashboard_returns_data(self):
        for panel, query in queries():
            with self.subTest(panel, query=query):
                values = [value for _, value in self.fleet.prometheus.query(as_run(query))]
                self.assertTrue(any(value == value for value in values), values)

    def test_the_readme_shows_every_query(self):
        rows = re.findall(r"^\| ([^|]+) \| `([^`]+)` \| (?=\S)", (HERE / "README.md").read_text(), re.MULTILINE)
        self.assertEqual(rows, [(panel, as_shown(query)) for panel, query in queries()])

    def test_the_dashboard_is_one_by_the_schema_of_grafana(self):
        register_default_plugins()
        read = Dashboard.from_json(json.loads(json.dumps(DASHBOARD)))
        # What the schema does not know gets lost.
        self.assertEqual(leaves(DASHBOARD) - leaves(json.loads(JSONEncoder().encode(read))), set())

    def test_panels_have_numbers_and_places_of_their_own_and_take_the_variables(self):
        panels = DASHBOARD["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(taken & cells, f"{panel['title']} lies over another panel")
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            taken |= cells
            for target in panel.get("targets", []):
                self.assertIn('{job=~"$job",instance=~"$instance"', target["expr"])
        variables = [variable["name"] for variable in DASHBOARD["templating"]["list"]]
        self.assertEqual(variables, ["datasource", "job", "instance"])

    def test_every_alert_has_its_page_and_a_unit_test(self):
        unit_tests = (HERE / "alerts.test.yaml").read_text()
        readme = (HERE / "README.md").read_text()
        pages = {page.stem for page in (HERE / "alerts").glob("*.md")}
        self.assertEqual({alert["name"] for alert in self.alerts}, pages)
        for alert in self.alerts:
            name, severity = alert["name"], alert["labels"]["severity"]
            with self.subTest(name):
                self.assertEqual(alert["annotations"]["runbook_url"], f"deploy/observability/alerts/{name}.md")
                self.assertRegex(readme, rf"\n\| \[{name}\]\(alerts/{name}.md\) \|[^|]*\b{severity}\b")
                page = (HERE / "alerts" / f"{name}.md").read_text()
                self.assertRegex(page, rf"\A# {name}\n(.|\n)+\n## What it means\n(.|\n)+\n## What to do\n(.|\n)+```sh\n")
                fires = rf'ALERTS\{{alertname="{name}",alertstate="firing",[^}}]*severity="{severity}"'
                self.assertRegex(unit_tests, fires)

    def test_every_command_and_file_of_the_pages_works(self):
        replica, folder = self.fleet.replicas[0], self.fleet.folder
        places = {
            "127.0.0.1:8081": replica.admin,
            "127.0.0.1:9090": self.fleet.prometheus.address,
            "/etc/hookd/tls": str(folder),
            "/etc/hookd/hookd.yaml": str(folder / "hookd.json"),
            "/etc/hookd": str(folder),
            "/var/log/hookd/audit.jsonl": str(replica.audit),
        }
        path = f"{PROGRAMS}:{DEBIAN}/usr/bin:{os.environ['PATH']}"

        def works(command):
            for ours, real in places.items():
                command = command.replace(ours, real)
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command], cwd=HERE.parent.parent, capture_output=True, text=True,
                env={**replica.environment(), "PATH": path}, stdin=subprocess.DEVNULL,
            )
            self.assertEqual((ran.returncode, bool(ran.stdout)), (0, True), f"{ran.stdout}\n{ran.stderr}")

        for page in [HERE / "README.md", *sorted((HERE / "alerts").glob("*.md"))]:
            text = page.read_text()
            for language, block in re.findall(r"^```(sh|yaml)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
                with self.subTest(page.name, block=block):
                    if "kind: PodMonitor" in block:
                        workload = (HERE.parent / "kustomize" / "base" / "workload.yaml").read_text()
                        self.assertIn("        app.kubernetes.io/name: hookd\n", workload)
                        self.assertIn("- { name: admin, containerPort: 8081,", workload)
                    elif language == "yaml":
                        checked = folder / "block.yaml"
                        checked.write_text(block.replace("/etc/hookd", str(folder)).replace("/etc/prometheus", str(folder)))
                        is_ours = "tiers:" in block
                        block = f"hookd --config {checked} --check" if is_ours else f"promtool check config {checked}"
                        works(block)
                    else:
                        for line in block.splitlines():
                            works(line)

    def test_break_glass(self):
        self.judged("block", enforced=4)
        before = {replica.ask(BLOCKED)["policyRevision"] for replica in self.fleet.replicas}
        self.assertEqual(len(before), 1)
        self.fleet.managed_mode("shadow")
        try:
            self.judged("none", enforced=0)
            eventually("the alert of all replicas", lambda: len(self.glass()) == 3)
            for alert in self.glass():
                self.assertEqual(alert["labels"]["severity"], "critical")
                summary = f"No managed rule is enforced on {alert['labels']['instance']}"
                self.assertEqual(alert["annotations"]["summary"], summary)
                self.assertIn("All 5 managed rules and defaults are in shadow mode", alert["annotations"]["description"])
        finally:
            # The one edit back.
            self.fleet.managed_mode("enforce")
        self.judged("block", enforced=4)
        self.assertEqual({replica.ask(BLOCKED)["policyRevision"] for replica in self.fleet.replicas}, before)
        eventually("no alert any more", lambda: self.glass() == [])

    def test_a_refused_load_is_seen_as_long_as_it_lasts(self):
        rules = self.fleet.folder / "managed" / "rules.json"
        refused = "hookd_last_load_accepted == 0"
        self.assertEqual(self.fleet.prometheus.query(refused), [])
        put(rules, {"hooks": [{"event": "PreTolUse"}]})
        try:
            eventually("all replicas refuse it", lambda: len(self.fleet.prometheus.query(refused)) == 3)
            eventually("the alert on it", lambda: len(self.of_alert("HookdReloadFailing", "pending")) == 3)
            self.assertEqual([replica.ask(BLOCKED)["verdict"] for replica in self.fleet.replicas], ["block"] * 3)
        finally:
            put(rules, MANAGED)
        eventually("no replica refuses it", lambda: self.fleet.prometheus.query(refused) == [])

    def judged(self, verdict, enforced):
        """Waits until every replica judges so, and says the same of itself: of 5 rules and defaults 4 or none are enforced."""
        line = "  NOT ENFORCED: managed, 5 of 5 rules and defaults in shadow mode by the settings\n"
        self.assertIn(line, (HERE / "README.md").read_text())
        shadow = 5 - enforced
        said = {"tier": "managed", "enforced": enforced, "shadow": shadow, "shadow_by_settings": enforced == 0}
        for replica in self.fleet.replicas:
            eventually(f"{verdict} by {replica.grpc}", lambda: replica.ask(BLOCKED)["verdict"] == verdict)
            self.assertEqual(replica.ask(BLOCKED_BY_DEFAULT)["verdict"], verdict)
            served = replica.metrics()
            modes = [served["hookd_rules", (("tier", "managed"), ("mode", mode))] for mode in ("enforce", "shadow")]
            self.assertEqual(modes, [enforced, shadow])
            self.assertIn(said, json.loads(replica.hookctl("--output", "json", "status"))["tiers"])
            self.assertEqual(line in replica.hookctl("status"), enforced == 0)

    def glass(self):
        """The replicas whose broken glass the alert tells of."""
        return self.of_alert("HookdManagedNotEnforced", "firing")

    def of_alert(self, name, state):
        """What there is of an alert in this state: one for each replica."""
        [rule] = [rule for rule in self.fleet.prometheus.alerts() if rule["name"] == name]
        return [alert for alert in rule["alerts"] if alert["state"] == state]


def table():
    """The dashboard's queries with their results."""
    with Fleet() as fleet:
        full = f"min(count_over_time(hookd_catalog_info[{WINDOW}])) >= {WINDOW[:-1]}"
        eventually("a whole window", lambda: fleet.prometheus.query(full))
        names = {replica.admin: f"replica {number}" for number, replica in enumerate(fleet.replicas, 1)}
        print("| Panel | Query | Result |\n| --- | --- | --- |")
        for panel, query in queries():
            samples = sorted(fleet.prometheus.query(as_run(query)), key=lambda sample: -sample[1])
            shown = []
            for labels, value in samples[:4]:
                own = sorted({*labels} - {"__name__", "job"}, key=query.find)
                words = [names.get(labels[name], labels[name][:8] if name == "revision" else labels[name]) for name in own]
                shown.append(" ".join([*filter(None, words), f"**{value:.4g}**"]))
            more = f" and {len(samples) - 4} more" if len(samples) > 4 else ""
            print(f"| {panel} | `{as_shown(query)}` | {'; '.join(shown)}{more} |")


if __name__ == "__main__":
    table() if sys.argv[1:] == ["--table"] else unittest.main()
