"""What the chart does not install, and what it says then."""

from __future__ import annotations

import re

import helm_python
import pytest
from chart import CHART, Object, merged, render, values

# What is wrong, the values it starts from, what is changed in them, and the message.
GUARDS: dict[str, tuple[str, Object, str]] = {
    "no image": (
        "minimal",
        {"image": {"repository": ""}},
        "image.repository is not set: push the image that deploy/Containerfile makes to your registry and name it",
    ),
    "no way to reach it": (
        "minimal",
        {"tls": {"secretName": ""}},
        "how callers reach hookd is not said: set tls.secretName, tls.certManager.enabled, or plaintext: true",
    ),
    "both ways to reach it": (
        "minimal",
        {"plaintext": True},
        "plaintext: true and tls exclude each other: drop one of them",
    ),
    "no issuer of certificates": (
        "full",
        {"tls": {"certManager": {"issuerRef": {"name": ""}}}},
        "tls.certManager.issuerRef.name is not set: name the issuer of cert-manager that signs hookd's certificate",
    ),
    "two places of the callers' authority": (
        "full",
        {"tls": {"clientCA": {"secretName": "callers-ca"}}},
        "tls.clientCA.secretName and tls.clientCA.configMap exclude each other: drop one of them",
    ),
    "certificates of callers in the clear": (
        "plaintext",
        {"tls": {"clientCA": {"secretName": "callers-ca"}}},
        "tls.clientCA needs TLS: set tls.secretName or tls.certManager.enabled",
    ),
    "nobody could call": (
        "minimal",
        {"identity": {"cluster": {"enabled": False}}},
        "nobody could call: set identity.cluster.enabled, identity.issuers, identity.tokensSecret, tls.clientCA, or "
        "identity.anonymous: allow",
    ),
    "nobody but the pod itself could call": (
        "minimal",
        {"identity": {"anonymous": "loopback", "cluster": {"enabled": False}}},
        "nobody could call: set identity.cluster.enabled, identity.issuers, identity.tokensSecret, tls.clientCA, or "
        "identity.anonymous: allow",
    ),
    "no keys of the cluster": (
        "minimal",
        {"identity": {"cluster": {"jwksConfigMap": ""}}},
        "identity.cluster needs its keys from one place: set one of jwksUrl, jwksConfigMap and jwksFromApiServer",
    ),
    "two places of the cluster's keys": (
        "minimal",
        {"identity": {"cluster": {"jwksFromApiServer": True}}},
        "identity.cluster needs its keys from one place: set one of jwksUrl, jwksConfigMap and jwksFromApiServer",
    ),
    "no managed rules": (
        "minimal",
        {"rules": {"managed": {"configMaps": []}}},
        "there are no managed rules: set rules.managed.files or rules.managed.configMaps",
    ),
    "rules twice": (
        "minimal",
        {"rules": {"managed": {"configMaps": ["a", "b", "a"]}}},
        "rules.managed names a ConfigMap twice: a, b, a",
    ),
    "rules of a team twice": (
        "minimal",
        {"rules": {"team": [{"configMap": "a"}, {"configMap": "a"}]}},
        "rules.team names a ConfigMap twice: a, a",
    ),
    "a misspelt ending": (
        "plaintext",
        {"rules": {"managed": {"files": {"guard.yalm": "hooks: []"}}}},
        'rules.managed.files has "guard.yalm", which hookd would pass over: rules end in .json, .yaml or .yml, their '
        "scripts in .sh, .py or .js",
    ),
    "a grace period too short": (
        "minimal",
        {"terminationGracePeriodSeconds": 44},
        "terminationGracePeriodSeconds is 44, expected at least 45: drain.minDelaySeconds, drain.limitSeconds and 5 "
        "seconds to write out the audit trail",
    ),
    "a drain too long": (
        "minimal",
        {"drain": {"limitSeconds": 60}},
        "terminationGracePeriodSeconds is 50, expected at least 75: drain.minDelaySeconds, drain.limitSeconds and 5 "
        "seconds to write out the audit trail",
    ),
    "a scaled DaemonSet": (
        "daemonset",
        {"autoscaling": {"enabled": True}},
        "autoscaling is for mode: Deployment, a DaemonSet has as many pods as there are nodes",
    ),
    "more at least than at most": (
        "full",
        {"autoscaling": {"minReplicas": 13}},
        "autoscaling.minReplicas (13) is more than autoscaling.maxReplicas (12)",
    ),
    "calls that scale nothing": (
        "minimal",
        {"autoscaling": {"inFlightCalls": {"enabled": True}}},
        "autoscaling.inFlightCalls.enabled does nothing without autoscaling.enabled",
    ),
    "a share of nothing": (
        "full",
        {"resources": {"requests": {"cpu": None}}},
        "autoscaling goes by the share of resources.requests.cpu that is used: set it",
    ),
    "a budget that holds nodes": (
        "minimal",
        {"podDisruptionBudget": {"maxUnavailable": 0}},
        "podDisruptionBudget.maxUnavailable: 0 would keep nodes from ever being drained: expected 1 or more",
    ),
    "a budget of no percent": (
        "minimal",
        {"podDisruptionBudget": {"maxUnavailable": "0%"}},
        "podDisruptionBudget.maxUnavailable: 0 would keep nodes from ever being drained: expected 1 or more",
    ),
    "rules by another way": (
        "minimal",
        {"extraVolumeMounts": [{"name": "mine", "mountPath": "/etc/hookd/rules/managed/mine"}]},
        "extraVolumeMounts has /etc/hookd/rules/managed/mine: rules are mounted by rules.managed and rules.team, as "
        "directories that are updated in place",
    ),
    "the mode in two places": (
        "minimal",
        {"settings": {"tiers": {"managed": {"mode": "shadow"}}}},
        "settings.tiers.managed.mode is the chart's to write: set rules.managed.mode",
    ),
    **{
        f"settings.{key}": ("minimal", {"settings": {key: {}}}, f"settings.{key} is the chart's to write: set {instead}")
        for key, instead in {
            "listen": "listenHost",
            "admin_listen": "listenHost",
            "hosts": "service.hosts",
            "tls": "tls",
            "plaintext": "plaintext",
            "identity": "identity",
            "permissions": "permissions",
            "drain": "drain",
        }.items()
    },
    **{
        f"sources of {tier}": (
            "minimal",
            {"settings": {"tiers": {tier: {"sources": []}}}},
            f"settings.tiers.{tier}.sources is the chart's to write: set rules.{tier}",
        )
        for tier in ("managed", "team")
    },
}


def given(start: str, changes: Object) -> Object:
    """Values with a change. The null that takes a default of the chart away has to get to Helm."""
    result = merged(values(start), changes)
    if "resources" in changes:
        result["resources"] = changes["resources"]
    return result


@pytest.mark.parametrize("guard", GUARDS)
def test_guards_refuse(guard: str) -> None:
    start, changes, message = GUARDS[guard]
    render(values(start))
    with pytest.raises(helm_python.HelmRenderError) as refused:
        render(given(start, changes))
    assert str(refused.value) == f"execution error at (hookd/templates/workload.yaml:1:4): {message}"


def test_every_guard_has_a_test() -> None:
    text = (CHART / "templates/_guards.tpl").read_text()
    said = re.findall(r'fail (?:\(printf )?"((?:[^"\\]|\\.)*)"', text)
    patterns = [re.sub(r"%[sdq]", ".*", re.escape(it.replace("\\", "")).replace("%", "%")) for it in said]
    messages = [message for _, _, message in GUARDS.values()]
    untested = [it for it in patterns if not any(re.fullmatch(it, message) for message in messages)]
    assert (len(said), untested) == (text.count("fail "), [])


# What the schema refuses before a template runs: what is changed in the least values, and where the message points.
SCHEMA: dict[str, tuple[Object, str]] = {
    "an unknown key": ({"replicaCount": 3}, "replicaCount"),
    "an unknown key within": ({"tls": {"secret": "a"}}, "secret"),
    "an unknown mode": ({"mode": "StatefulSet"}, "/mode"),
    "no replicas": ({"replicas": 0}, "/replicas"),
    "an unknown mode of rules": ({"rules": {"managed": {"mode": "observe"}}}, "/rules/managed/mode"),
    "no name of a ConfigMap": ({"rules": {"managed": {"configMaps": [""]}}}, "/rules/managed/configMaps/0"),
    "team rules from nowhere": ({"rules": {"team": [{"selector": {}}]}}, "/rules/team/0"),
    "who may call": ({"identity": {"anonymous": "yes"}}, "/identity/anonymous"),
    "a shared secret": ({"identity": {"cluster": {"algorithms": ["HS256"]}}}, "/identity/cluster/algorithms/0"),
    "keys in the clear": ({"identity": {"cluster": {"jwksUrl": "http://keys"}}}, "/identity/cluster/jwksUrl"),
    "a permission": ({"permissions": [{"may": ["admin"]}]}, "/permissions/0/may/0"),
    "seconds with a unit": ({"drain": {"minDelaySeconds": "10s"}}, "/drain/minDelaySeconds"),
    "a port": ({"service": {"port": 70000}}, "/service/port"),
    "a name with a port": ({"service": {"hosts": ["hooks.example.com:443"]}}, "/service/hosts/0"),
    "a digest": ({"image": {"digest": "latest"}}, "/image/digest"),
    "root": ({"runAsUser": 0}, "/runAsUser"),
    "an address": ({"listenHost": "localhost"}, "/listenHost"),
}


@pytest.mark.parametrize("wrong", SCHEMA)
def test_the_schema_refuses(wrong: str) -> None:
    changes, where = SCHEMA[wrong]
    with pytest.raises(helm_python.HelmValuesError) as refused:
        render(merged(values("minimal"), changes))
    assert where in str(refused.value)
