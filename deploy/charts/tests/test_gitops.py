"""The example of a repository of rules: it passes its own check, and what it names is there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import yaml
from chart import ROOT, Object, render
from pod import PROGRAMS, Pod
from test_kustomize import build, needs_kustomize
from test_pod import World

EXAMPLE = ROOT / "deploy/examples/gitops"
PROD = EXAMPLE / "clusters/prod"


def read(path: Path) -> list[Object]:
    """The objects of a file."""
    return list(yaml.safe_load_all(path.read_text()))


def config_maps() -> dict[str, dict[str, str]]:
    """What kustomize makes of `policy`: a ConfigMap for each list of files."""
    [said] = read(EXAMPLE / "policy/kustomization.yaml")
    assert said["generatorOptions"]["disableNameSuffixHash"] is True
    return {
        it["name"]: {Path(path).name: (EXAMPLE / "policy" / path).read_text() for path in it["files"]}
        for it in said["configMapGenerator"]
    }


def check() -> subprocess.CompletedProcess[str]:
    """The step of CI."""
    environment = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    return subprocess.run([EXAMPLE / "check"], capture_output=True, text=True, timeout=60, env=environment)


def test_the_rules_pass_the_step_of_ci() -> None:
    done = check()
    assert (done.returncode, done.stdout.count("0 errors, 0 warnings")) == (0, 2), done.stdout + done.stderr
    [workflow] = read(EXAMPLE / ".github/workflows/policy.yaml")
    assert [step for step in workflow["jobs"]["check"]["steps"] if step.get("run") == "./check"] != []
    # A directory that is not checked, and a file that is not shipped, would be surprises.
    script = (EXAMPLE / "check").read_text()
    directories = sorted(path.name for path in (EXAMPLE / "policy").iterdir() if path.is_dir())
    assert [name for name in directories if f" {name}\n" not in script] == []
    files = {f"{path.parent.name}/{path.name}" for path in (EXAMPLE / "policy").glob("*/*")}
    [said] = read(EXAMPLE / "policy/kustomization.yaml")
    assert {path for it in said["configMapGenerator"] for path in it["files"]} == files


def test_hookd_starts_with_its_values_and_rules(tmp_path: Path) -> None:
    [values] = read(PROD / "hookd-values.yaml")
    world = World(render(values))
    for name, data in config_maps().items():
        world.cluster.put("ConfigMap", name, data)
    done = Pod(world.rendered, world.cluster, tmp_path).run("--check")
    assert done.returncode == 0, done.stderr
    for rule in ("no-force-push", "no-piped-installs", "no-keys-in-results", "deploys-need-a-person"):
        assert rule in done.stdout


def test_argo_cd_and_flux_name_what_is_there() -> None:
    chart, policy = read(PROD / "argocd.yaml")
    ours, values = chart["spec"]["sources"]
    assert (ROOT / ours["path"] / "Chart.yaml").exists()
    [value_file] = ours["helm"]["valueFiles"]
    assert EXAMPLE / value_file.removeprefix(f"${values['ref']}/") == PROD / "hookd-values.yaml"
    assert (EXAMPLE / policy["spec"]["source"]["path"] / "kustomization.yaml").exists()
    assert policy["spec"]["source"]["repoURL"] == values["repoURL"]

    objects = {(it["kind"], it["metadata"]["name"]): it["spec"] for it in read(PROD / "flux.yaml")}
    release = objects["HelmRelease", "hookd"]
    assert (ROOT / release["chart"]["spec"]["chart"] / "Chart.yaml").exists()
    [generated] = read(PROD / "kustomization.yaml")[0]["configMapGenerator"]
    [wanted] = release["valuesFrom"]
    assert generated == {"name": wanted["name"], "files": [f"{wanted['valuesKey']}=hookd-values.yaml"]}
    for name, path in (("hookd-values", PROD), ("hookd-policy", EXAMPLE / "policy")):
        assert EXAMPLE / objects["Kustomization", name]["path"] == path
    references = [release["chart"]["spec"]["sourceRef"]]
    references += [it["sourceRef"] for (kind, _), it in objects.items() if kind == "Kustomization"]
    assert {(it["kind"], it["name"]) for it in references} <= set(objects)
    destinations = {it["spec"]["destination"]["namespace"] for it in (chart, policy)}
    assert destinations == {"hookd"} == {read(EXAMPLE / "policy/kustomization.yaml")[0]["namespace"]}


@needs_kustomize
def test_kustomize_makes_the_config_maps() -> None:
    made = {it["metadata"]["name"]: it["data"] for it in build(EXAMPLE / "policy")}
    assert made == config_maps()
    [values] = build(PROD)
    assert values["data"] == {"values.yaml": (PROD / "hookd-values.yaml").read_text()}
