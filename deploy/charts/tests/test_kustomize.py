"""`deploy/kustomize/base` is what the chart renders."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from chart import ROOT, Object, render, values

BASE = ROOT / "deploy/kustomize/base"
HELM = re.compile(r"^ *(helm\.sh/chart: .*|app\.kubernetes\.io/managed-by: Helm)\n", re.MULTILINE)
HEAD = """\
# Rendered from deploy/charts/hookd with ci/minimal-values.yaml: deploy/charts/test --update writes it.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: hookd
resources:
"""


def base() -> dict[str, str]:
    """The files of the base."""
    texts = render(values("minimal")).texts
    files = {Path(path).name: HELM.sub("", text).strip() + "\n" for path, text in sorted(texts.items())}
    return {"kustomization.yaml": HEAD + "".join(f"  - {name}\n" for name in files), **files}


def build(directory: Path) -> list[Object]:
    """What kustomize makes of a directory."""
    program = ["kustomize", "build"] if shutil.which("kustomize") else ["kubectl", "kustomize"]
    done = subprocess.run([*program, directory], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


needs_kustomize = pytest.mark.skipif(
    not (shutil.which("kustomize") or shutil.which("kubectl")), reason="neither kustomize nor kubectl is here"
)


def by_name(objects: list[Object]) -> dict[tuple[str, str], str]:
    """Objects by kind and name, as text."""
    return {(it["kind"], it["metadata"]["name"]): json.dumps(it, sort_keys=True) for it in objects}


def test_the_base_is_what_the_chart_renders(same) -> None:
    for name, text in base().items():
        same(BASE / name, text)
    assert {path.name for path in BASE.iterdir()} == set(base())
    assert "Helm" not in "".join(base().values())


@needs_kustomize
def test_kustomize_builds_the_base() -> None:
    files = [text for name, text in base().items() if name != "kustomization.yaml"]
    rendered = [it for text in files for it in yaml.safe_load_all(text)]
    assert by_name(build(BASE)) == by_name(rendered)


@needs_kustomize
def test_kustomize_builds_the_overlay_of_the_page(tmp_path: Path) -> None:
    [overlay] = re.findall(r"```yaml\n(.*?)```", (BASE.parent / "README.md").read_text(), re.DOTALL)
    shutil.copytree(BASE.parent, tmp_path / "kustomize")
    place = tmp_path / "overlays/prod"
    place.mkdir(parents=True)
    (place / "kustomization.yaml").write_text(overlay)
    (place / "no-force-push.yaml").write_text("hooks: []\n")
    (place / "jwks.json").write_text("{}\n")
    built = {(it["kind"], it["metadata"]["name"]): it for it in build(place)}
    assert built["ConfigMap", "hookd-managed"]["data"] == {"no-force-push.yaml": "hooks: []\n"}
    assert built["ConfigMap", "hookd-jwks"]["data"] == {"jwks.json": "{}\n"}
    spec = built["Deployment", "hookd"]["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == "registry.example.org/platform/hookd:0.1.0"
    named = {it["configMap"]["name"] for it in spec["volumes"] if "configMap" in it}
    assert named == {"hookd", "hookd-managed", "hookd-jwks"}
