"""`helm` for the guides: renders the chart by Helm's own engine, and holds it to what was made before."""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml
from chart import CHART, ROOT, Object, render

import cluster


def mounted(value: Object | list[Object]) -> set[str]:
    """The ConfigMaps and Secrets that a manifest mounts."""
    if isinstance(value, list):
        return set().union(*map(mounted, value))
    if not isinstance(value, dict):
        return set()
    found = mounted(list(value.values()))
    for kind in ("configMap", "secret"):
        if isinstance(volume := value.get(kind), dict):
            found.add(f"{kind}/{volume.get('name') or volume['secretName']}".lower())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="helm")
    commands = parser.add_subparsers(dest="command", required=True)
    upgrade = commands.add_parser("upgrade")
    upgrade.add_argument("--install", action="store_true")
    upgrade.add_argument("release")
    upgrade.add_argument("chart")
    upgrade.add_argument("--values", required=True)
    for name in ("history", "rollback"):
        commands.add_parser(name).add_argument("release")
    for command in commands.choices.values():
        command.add_argument("--namespace", "-n", required=True)
    said = parser.parse_args()

    state = cluster.read()
    if f"namespace/{said.namespace}" not in state["objects"]:
        raise SystemExit(f"helm: there is no namespace {said.namespace}")
    if said.command == "upgrade":
        if ROOT / said.chart != CHART:
            raise SystemExit(f"helm: there is no chart {said.chart}")
        rendered = render(yaml.safe_load(Path(said.values).read_text()), said.release, said.namespace)
        made = {f"{it['kind']}/{it['metadata']['name']}".lower() for it in rendered.objects}
        made |= {f"secret/{it['spec']['secretName']}" for it in rendered.objects if it["kind"] == "Certificate"}
        missing = mounted(rendered.objects) - made - set(state["objects"])
        if missing:
            raise SystemExit(f"helm: the pods would wait for {sorted(missing)}")
        state["objects"] = sorted(made | set(state["objects"]))
        state["releases"].append(said.values)
        cluster.write(state)
        print(rendered.notes)
    elif len(state["releases"]) < (2 if said.command == "rollback" else 1):
        raise SystemExit(f"helm: {said.release} has nothing to go back to")


main()
