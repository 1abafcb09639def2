"""The chart's page says what the chart does."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, Iterator

import yaml
from chart import CHART, ROOT, chart, render
from test_manifests import KUBERNETES

README = (CHART / "README.md").read_text()
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """The keys of all values that are no tables, or empty ones."""
    if isinstance(value, dict) and value:
        for key, it in value.items():
            yield from leaves(it, f"{path}.{key}".lstrip("."))
    else:
        yield path


def at(path: str) -> Any:
    """The value of a key."""
    value = VALUES
    for key in path.split("."):
        value = value[key]
    return value


def test_the_table_has_every_value_with_its_default() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]*)` \|", README, re.MULTILINE)
    defaults = {path: json.dumps(at(path), separators=(",", ":"), sort_keys=True) for path, _ in rows}
    assert dict(rows) == defaults
    assert len(rows) == len(defaults)
    covered = [leaf for leaf in leaves(VALUES) if [path for path, _ in rows if f"{leaf}.".startswith(f"{path}.")]]
    assert covered == list(leaves(VALUES))


def test_the_schema_knows_every_value() -> None:
    def known(value: Any, schema: dict[str, Any], path: str) -> None:
        if isinstance(value, dict) and "properties" in schema:
            assert schema["additionalProperties"] is False, path
            assert set(value) | {"global"} >= set(schema["properties"]) - {"claims"}, path
            for key, it in value.items():
                known(it, schema["properties"][key], f"{path}.{key}")

    known(VALUES, chart().schema, "")


def test_the_values_of_the_page_can_be_installed() -> None:
    block = next(it for it in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL) if it.startswith("image:"))
    said = yaml.safe_load(block)
    assert said == yaml.safe_load((CHART / "ci/minimal-values.yaml").read_text())
    address = re.search(r'HOOKD_ADDRESS, value: "([^"]+)"', README).group(1)
    assert f"HOOKD_ADDRESS={address}\n" in render(said).notes


def test_the_page_names_the_versions_of_kubernetes() -> None:
    assert f"Kubernetes {', '.join(KUBERNETES[:-1])} and {KUBERNETES[-1]}" in README
    oldest = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert oldest == f">={KUBERNETES[0]}.0-0"


def test_the_requests_are_what_was_measured() -> None:
    measured = (ROOT / "tests/peers/README.md").read_text()
    [memory, each] = re.search(r"\| memory at rest; for each rule more \| ([\d.]+) MiB; ([\d.]+) KiB \|", measured).groups()
    [cpu] = re.search(r"\| CPU of the server for one of these calls ¹ \| ([\d.]+) µs \|", measured).groups()
    assert f"100m at {cpu} µs a call" in README
    assert f"{memory} MiB at rest and {each} KiB for each rule" in README
    requests = VALUES["resources"]["requests"]
    assert requests == {"cpu": "100m", "memory": "32Mi"}
    calls, rules = 0.1 / float(cpu) * 1e6, (32 - float(memory)) * 1024 / float(each)
    assert (round(calls, -3), rules > 8000) == (6000, True)


def test_the_chart_is_for_this_hookd() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == workspace["version"]


def test_what_is_packaged_is_what_an_installation_needs() -> None:
    names = {it["name"] for it in chart().files}
    assert names == {".helmignore", "README.md"}, names
