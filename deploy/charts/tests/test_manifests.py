"""The manifests: against the schemas of Kubernetes, against snapshots, and what has to hold of them whatever is said."""

from __future__ import annotations

import functools
import re

import helm_python
import kubernetes_validate.utils
import pytest
from chart import CHART, HERE, Object, merged, render, value_sets, values

# The oldest that Chart.yaml permits, one between, and the newest that there is a schema for.
KUBERNETES = ["1.31", "1.34", "1.37"]
# Kinds of others, of which Kubernetes has no schema.
FOREIGN = {"Certificate", "PodMonitor"}

# Schemas are read once, not once for each object.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", value_sets())
def test_manifests_are_valid_kubernetes(name: str, version: str) -> None:
    objects = render(values(name)).objects
    checked = [it for it in objects if it["kind"] not in FOREIGN]
    assert {kubernetes_validate.utils.validate(it, version, strict=True) for it in checked} == {version}
    identities = [(it["kind"], it["metadata"]["namespace"], it["metadata"]["name"]) for it in objects]
    assert len(identities) == len(set(identities))


@pytest.mark.parametrize("version", KUBERNETES)
def test_a_misspelt_key_is_not_valid(version: str) -> None:
    deployment = render(values("minimal")).one("Deployment")
    deployment["spec"]["template"]["spec"]["terminationGraceSeconds"] = 5
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGraceSeconds"):
        kubernetes_validate.utils.validate(deployment, version, strict=True)


@pytest.mark.parametrize("name", value_sets())
def test_manifests_are_as_before(name: str, same) -> None:
    rendered = render(values(name))
    parts = [f"# Source: {path}\n{text.strip()}\n" for path, text in sorted(rendered.texts.items())]
    parts.append("# " + rendered.notes.strip().replace("\n", "\n# ").replace("# \n", "#\n") + "\n")
    same(HERE / f"snapshots/{name}.yaml", "---\n".join(parts))


def test_helm_has_nothing_to_say_against_the_chart() -> None:
    for name in value_sets():
        report = helm_python.lint(CHART, values(name), strict=True)
        said = [it["error"] for it in report["messages"]]
        assert (said, report["errors"]) == (["icon is recommended"], [])


@pytest.mark.parametrize("name", value_sets())
def test_pods_are_of_the_restricted_level_and_hold_no_token(name: str) -> None:
    rendered = render(values(name))
    spec = rendered.pod()["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"initContainers", "hostNetwork", "hostPID", "hostIPC", "hostUsers"}.isdisjoint(spec)
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"configMap", "secret", "projected", "emptyDir"}
    assert spec["automountServiceAccountToken"] is False
    assert rendered.one("ServiceAccount")["automountServiceAccountToken"] is False
    # Only who asks for the API server's keys gets a token, and that one is for nothing but the API server.
    tokens = [
        source["serviceAccountToken"]
        for volume in spec["volumes"]
        for source in volume.get("projected", {}).get("sources", [])
        if "serviceAccountToken" in source
    ]
    assert tokens == ([{"path": "token", "expirationSeconds": 3600}] if name == "full" else [])


@pytest.mark.parametrize("name", value_sets())
def test_volumes_are_whole_directories_that_have_to_be_there(name: str) -> None:
    spec = render(values(name)).pod()["spec"]
    mounts = spec["containers"][0]["volumeMounts"]
    assert not [mount for mount in mounts if "subPath" in mount or "subPathExpr" in mount]
    assert sorted(mount["name"] for mount in mounts) == sorted(volume["name"] for volume in spec["volumes"])
    writable = {mount["mountPath"] for mount in mounts if not mount.get("readOnly")}
    assert writable == {"/tmp", "/var/lib/hookd"}
    assert "optional" not in str(spec["volumes"])


@pytest.mark.parametrize("name", value_sets())
def test_resources_probes_and_time_to_leave(name: str) -> None:
    rendered = render(values(name))
    spec = rendered.pod()["spec"]
    [container] = spec["containers"]
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"memory": "512Mi"}}
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")}
    assert probes == {
        "startup": {"path": "/readyz", "port": "admin"},
        "readiness": {"path": "/readyz", "port": "admin"},
        "liveness": {"path": "/livez", "port": "admin"},
    }
    assert rendered.settings()["drain"] == {"min_delay": "10s", "limit": "30s"}
    assert spec["terminationGracePeriodSeconds"] >= 10 + 30 + 5


def test_services_say_what_they_speak() -> None:
    tables = {
        "plaintext": ("kubernetes.io/h2c", None),
        "minimal": ("https", None),
        "full": ("https", None),
        "daemonset": ("https", "Local"),
    }
    for name, (protocol, policy) in tables.items():
        rendered = render(values(name))
        full = rendered.workload()["metadata"]["name"]
        service, headless = rendered.one("Service", full), rendered.one("Service", f"{full}-headless")
        assert {it["appProtocol"] for it in service["spec"]["ports"]} == {protocol}
        assert {it["name"]: it["appProtocol"] for it in headless["spec"]["ports"]} == {"grpc": protocol, "admin": "http"}
        assert service["spec"].get("internalTrafficPolicy") == policy
        assert headless["spec"]["clusterIP"] == "None"
    chosen = merged(values("minimal"), {"service": {"appProtocol": "grpc"}})
    assert {it["appProtocol"] for it in render(chosen).one("Service", "hookd")["spec"]["ports"]} == {"grpc"}


def test_the_certificate_has_the_names_that_hookd_goes_by() -> None:
    rendered = render(values("full"))
    names = rendered.one("Certificate")["spec"]["dnsNames"]
    assert names == rendered.settings()["hosts"]
    assert [it for it in names if "." not in it or it.startswith("hooks")] == [
        "policy",
        "policy-headless",
        "localhost",
        "hooks.example.com",
    ]


def test_every_selector_finds_the_pods_and_no_other_release() -> None:
    rendered = render(values("full"), name="one")
    labels = rendered.pod()["metadata"]["labels"]
    spec = rendered.pod()["spec"]
    selectors = [
        rendered.workload()["spec"]["selector"]["matchLabels"],
        rendered.one("Service", "policy")["spec"]["selector"],
        rendered.one("Service", "policy-headless")["spec"]["selector"],
        rendered.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        rendered.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        rendered.one("PodMonitor")["spec"]["selector"]["matchLabels"],
        *[it["labelSelector"]["matchLabels"] for it in spec["topologySpreadConstraints"]],
    ]
    expected = {"app.kubernetes.io/name": "hookd", "app.kubernetes.io/instance": "one"}
    assert selectors == [expected] * len(selectors)
    assert expected.items() <= labels.items()


def test_what_hookd_reads_again_by_itself_replaces_no_pod() -> None:
    before = render(values("full")).pod()
    hot: list[Object] = [
        {"rules": {"managed": {"mode": "enforce"}}},
        {"rules": {"managed": {"files": {"more.yaml": "hooks: []"}}}},
        {"settings": {"fallbacks": {"ask": "block"}}},
        {"settings": {"tiers": {"managed": {"on_error": "allow"}}}},
    ]
    assert [render(merged(values("full"), change)).pod() for change in hot] == [before] * len(hot)
    cold: list[Object] = [
        {"settings": {"limits": {"max_deadline": "50s"}}},
        {"permissions": []},
        {"identity": {"anonymous": "loopback"}},
        {"drain": {"minDelaySeconds": 11}},
    ]
    for change in cold:
        after = render(merged(values("full"), change)).pod()
        assert after["metadata"]["annotations"] != before["metadata"]["annotations"], change


def test_numbers_keep_their_digits_on_the_way_to_the_settings() -> None:
    settings = {"limits": {"message_bytes": 4194304}, "audit": {"keep": 0.25}}
    rendered = render(merged(values("minimal"), {"settings": settings}))
    text = rendered.one("ConfigMap")["data"]["hookd.yaml"]
    assert re.findall(r"(?:message_bytes|keep): (.*)", text) == ["0.25", "4194304"]


def test_nobody_is_let_through_by_an_empty_list() -> None:
    closed = merged(values("minimal"), {"networkPolicy": {"callers": [], "metrics": []}})
    assert "ingress" not in render(closed).one("NetworkPolicy")["spec"]
    callers = merged(values("minimal"), {"networkPolicy": {"metrics": []}})
    assert [it["ports"] for it in render(callers).one("NetworkPolicy")["spec"]["ingress"]] == [
        [{"port": "grpc", "protocol": "TCP"}]
    ]


def test_user_and_group_can_be_left_to_the_platform() -> None:
    rendered = render(merged(values("minimal"), {}) | {"runAsUser": None, "fsGroup": None})
    assert rendered.pod()["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_long_names_stay_names() -> None:
    rendered = render(values("minimal"), name="a" * 53)
    assert {len(it["metadata"]["name"]) <= 63 for it in rendered.objects} == {True}
