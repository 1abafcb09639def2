"""The chart, rendered by Helm's own engine."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import helm_python
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CHART = ROOT / "deploy/charts/hookd"
NOTES = "hookd/templates/NOTES.txt"

Object = dict[str, Any]


class Rendered(NamedTuple):
    """What an installation gives."""

    texts: dict[str, str]
    objects: list[Object]
    notes: str

    def one(self, kind: str, name: str | None = None) -> Object:
        """The only object of a kind, or with a name."""
        found = [it for it in self.objects if it["kind"] == kind and name in (None, it["metadata"]["name"])]
        assert len(found) == 1, f"{len(found)} objects {kind} {name}"
        return found[0]

    def workload(self) -> Object:
        """The Deployment or the DaemonSet."""
        return next(it for it in self.objects if it["kind"] in ("Deployment", "DaemonSet"))

    def pod(self) -> Object:
        """What its pods are made from: metadata and spec."""
        return self.workload()["spec"]["template"]

    def settings(self) -> Object:
        """hookd.yaml."""
        name = self.workload()["metadata"]["name"]
        return yaml.safe_load(self.one("ConfigMap", name)["data"]["hookd.yaml"])


@functools.cache
def chart() -> helm_python.Chart:
    """The chart, loaded once."""
    return helm_python.Chart.load(CHART)


def render(values: Object, name: str = "hookd", namespace: str = "hookd") -> Rendered:
    """Renders the chart. Values are held to its schema on the way, as an installation does."""
    chart().validate_schema(values)
    texts = chart().render(values, name=name, namespace=namespace)
    notes = texts.pop(NOTES)
    texts = {path: text for path, text in texts.items() if text.strip()}
    objects = [it for text in texts.values() for it in yaml.safe_load_all(text) if it]
    return Rendered(texts, objects, notes)


def values(name: str) -> Object:
    """The values of a file in `ci/`."""
    return yaml.safe_load((CHART / f"ci/{name}-values.yaml").read_text())


def value_sets() -> list[str]:
    """The names of the files in `ci/`."""
    return sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").iterdir())


def merged(into: Object, changes: Object) -> Object:
    """Values with others over them, as Helm does it: tables are merged, null takes a key away."""
    result = dict(into)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result
