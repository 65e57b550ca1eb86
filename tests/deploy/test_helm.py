"""deploy/helm/raftflow: linted and rendered by Helm, valid for Kubernetes, and three nodes as the
kubelet would start the pods."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from needs import need_module

from tests.deploy.image import image
from tests.deploy.machines import ROOT, Machine, Mount
from tests.deploy.stage import Plan, check, need_a_stage, play

helm = need_module("helm_python")
kubernetes = need_module("kubernetes_validate")

CHART = ROOT / "deploy" / "helm" / "raftflow"
README = (CHART / "README.md").read_text()
OLDEST = "1.27"

EVERYTHING: dict[str, Any] = {
    "settings": {"RAFTFLOW_LOG_LEVEL": "debug"},
    "podLabels": {"team": "platform"},
    "podAnnotations": {"note": "x"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "raftflow", "operator": "Exists"}],
    "priorityClassName": "high",
    "image": {"pullSecrets": [{"name": "registry"}]},
    "storage": {"className": "fast"},
    "service": {"type": "LoadBalancer", "annotations": {"internal": "true"}},
    "antiAffinity": "preferred",
    "networkPolicy": {
        "clients": [{"namespaceSelector": {"matchLabels": {"team": "shop"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 4318}]}],
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "backup": {
        "enabled": True,
        "place": "s3://backups/raftflow",
        "environment": {"AWS_REGION": "eu-central-1"},
        "environmentSecretName": "store",
    },
}
CERT_MANAGER: dict[str, Any] = {
    **EVERYTHING,
    "tls": {
        "certManager": {"enabled": True, "issuerRef": {"kind": "Issuer", "name": "raftflow"}},
        "extraHosts": ["raftflow.example.com"],
    },
}
CASES = {"defaults": {}, "everything": EVERYTHING, "cert-manager": CERT_MANAGER}


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    with helm.Chart.load(CHART) as chart:
        files = chart.render(values=values, name="raftflow", namespace="default")
    return [
        document
        for name, text in files.items()
        if name.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]


def the(documents: list[dict[str, Any]], kind: str, name: str = "raftflow") -> dict[str, Any]:
    [found] = [d for d in documents if (d["kind"], d["metadata"]["name"]) == (kind, name)]
    return found


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_helm_finds_nothing_to_complain_of(values: dict[str, Any]) -> None:
    report = helm.lint(CHART, values, strict=True)
    told = [each["error"] for each in report["messages"]]
    assert report["errors"] == []
    assert told == ["icon is recommended"]


@pytest.mark.parametrize("version", [OLDEST, "latest"])
@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_kubernetes_would_take_it(values: dict[str, Any], version: str) -> None:
    if version == "latest":
        version = kubernetes.latest_version()
    ours = 0
    for document in rendered(values):
        if ".k8s.io" in document["apiVersion"] or "." not in document["apiVersion"]:
            kubernetes.validate(document, version, strict=True)
            ours += 1
    assert ours >= 6


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": 12},
        {"bootstrapNodes": 2},
        {"settings": {"LIMIT": "1"}},
        {"antiAffinity": "never"},
        {"clusterID": "x"},
        {"backup": {"enabled": True}},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(helm.HelmError):
        rendered(wrong)


def test_pods_have_no_rights() -> None:
    documents = rendered(EVERYTHING)
    pods = [
        the(documents, "StatefulSet")["spec"]["template"]["spec"],
        the(documents, "CronJob", "raftflow-backup")["spec"]["jobTemplate"]["spec"]["template"][
            "spec"
        ],
    ]
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == image().user
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_nodes_stand_apart_and_only_one_may_be_taken_down() -> None:
    documents = rendered({})
    budget = the(documents, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    spec = the(documents, "StatefulSet")["spec"]
    [rule] = spec["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = spec["selector"]["matchLabels"]
    assert rule["labelSelector"]["matchLabels"] == labels == budget["selector"]["matchLabels"]
    assert labels.items() <= spec["template"]["metadata"]["labels"].items()


def test_only_nodes_reach_the_raft_port() -> None:
    spec = the(rendered(EVERYTHING), "NetworkPolicy")["spec"]
    labels = spec["podSelector"]["matchLabels"]
    allowed = {port["port"]: rule["from"] for rule in spec["ingress"] for port in rule["ports"]}
    assert allowed["raft"] == [{"podSelector": {"matchLabels": labels}}]
    assert set(allowed) == {"raft", "http", "grpc", "metrics"}
    # The backup, too, is a client.
    components = re.findall(r"'app.kubernetes.io/component': '(\w+)'", str(allowed["http"]))
    assert components == ["backup"]


def test_prometheus_finds_the_metrics_and_the_alerts() -> None:
    documents = rendered(EVERYTHING)
    monitor = the(documents, "ServiceMonitor")
    selected = [
        service
        for service in documents
        if service["kind"] == "Service"
        and monitor["spec"]["selector"]["matchLabels"].items()
        <= service["metadata"]["labels"].items()
        and "raftflow/service" not in service["metadata"]["labels"]
    ]
    [service] = selected
    assert service["metadata"]["name"] == "raftflow-nodes"
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    rules = the(documents, "PrometheusRule")["spec"]
    assert rules == yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())


def test_cert_manager_names_each_node() -> None:
    documents = rendered(CERT_MANAGER)
    for number in range(3):
        spec = the(documents, "Certificate", f"raftflow-{number}")["spec"]
        assert spec["uris"] == [f"raftflow:raftflow/raftflow-{number}"]
        assert f"raftflow-{number}.raftflow-nodes.default.svc" in spec["dnsNames"]
        assert "raftflow.default.svc" in spec["dnsNames"]
    pod = the(documents, "StatefulSet")["spec"]["template"]["spec"]
    [projected] = [each["projected"] for each in pod["volumes"] if each["name"] == "tls"]
    paths = [item["path"] for each in projected["sources"] for item in each["secret"]["items"]]
    wanted = {f"raftflow-{n}.{kind}" for n in range(3) for kind in ("crt", "key")}
    assert set(paths) == wanted | {"ca.crt"}


def test_nodes_that_come_later_join() -> None:
    documents = rendered({"nodes": 5})
    [container] = the(documents, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    script = container["args"][0].replace(
        "exec raftflow serve", 'echo "$RAFTFLOW_PEERS|$RAFTFLOW_JOIN"'
    )
    said = [
        subprocess.run(
            [*container["command"], script],
            capture_output=True,
            text=True,
            check=True,
            env={"RAFTFLOW_NODE_ID": node, "BORN_WITH": "the three"},
        ).stdout.strip()
        for node in ("raftflow-0", "raftflow-2", "raftflow-3", "raftflow-10")
    ]
    assert said == ["the three|", "the three|", "|the three", "|the three"]


# ---- as the kubelet starts them -----------------------------------------------------------------


def commands() -> Iterator[list[str]]:
    """Those of the README, with lines that go on joined."""
    for block in re.findall(r"```\n(.*?)```", README, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            yield shlex.split(line)


def made_secrets(directory: Path) -> dict[str, Path]:
    """Run the README's first command, then do as `kubectl create secret generic` would."""
    shutil.copy(ROOT / "deploy" / "secrets.sh", directory)
    known = list(commands())
    [make] = [each for each in known if each[:2] == ["sh", "secrets.sh"]]
    # For the node that comes later, too, as "More nodes" says.
    make.append(make[-1].replace("raftflow-2", "raftflow-3"))
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(make, check=True, cwd=directory, env={"PATH": programs}, timeout=60)
    secrets: dict[str, Path] = {}
    for words in known:
        if words[:4] != ["kubectl", "create", "secret", "generic"]:
            continue
        place = secrets[words[4]] = directory / "volumes" / words[4]
        place.mkdir(parents=True)
        later = [word.replace("raftflow-2", "raftflow-3") for word in words if "raftflow-2" in word]
        for word in (*words[5:], *later):
            key, _, file = word.removeprefix("--from-file=").rpartition("=")
            shutil.copy(directory / file, place / (key or Path(file).name))
    return secrets


def operator(directory: Path) -> Machine:
    """Who adds the node, by the README's command."""
    [command] = re.findall(r"`(raftflow node add raftflow-3=\S+)`", README)
    token = (directory / "secrets" / "client" / "token").read_text()
    return Machine(
        name="operator",
        user=0,
        argv=tuple(shlex.split(command)),
        environment=image().environment
        | {
            "RAFTFLOW_ADDRESS": "https://raftflow.default.svc:8233",
            "RAFTFLOW_CA_FILE": "/files/ca.crt",
            "RAFTFLOW_TOKEN": token,
        },
        mounts=(Mount("/files", str(directory / "secrets" / "client")),),
    )


def pod(number: int, document: dict[str, Any], secrets: dict[str, Path], data: Path) -> Machine:
    spec = document["spec"]["template"]["spec"]
    [container] = spec["containers"]
    group = spec["securityContext"]["fsGroup"]
    name = f"{document['metadata']['name']}-{number}"
    sources = {"data": data / name, **_volumes(spec, secrets, group)}
    sources["data"].mkdir(parents=True)
    sources["data"].chmod(0o2775)
    os.chown(sources["data"], 0, group)
    mounts = [
        Mount(each["mountPath"], str(sources[each["name"]] or ""), each.get("readOnly", False))
        for each in container["volumeMounts"]
    ]
    host = f"{name}.{document['spec']['serviceName']}.default.svc"
    return Machine(
        name=name,
        # The service, too, leads to a node.
        names=(host, "raftflow", "raftflow.default.svc") if number == 0 else (host,),
        argv=(*container["command"], *container["args"]),
        environment=image().environment | _environment(name, container["env"]),
        mounts=tuple(mounts),
        user=spec["securityContext"]["runAsUser"],
        groups=(group,),
        read_only=container["securityContext"]["readOnlyRootFilesystem"],
        beside=image().files,
    )


def _volumes(spec: dict[str, Any], secrets: dict[str, Path], group: int) -> dict[str, Path | None]:
    """Secrets belong to root and the pod's group."""
    found: dict[str, Path | None] = {}
    for volume in spec["volumes"]:
        if "secret" not in volume:
            found[volume["name"]] = None
            continue
        place = found[volume["name"]] = secrets[volume["secret"]["secretName"]]
        assert place is not None
        place.chmod(0o755)
        for file in place.iterdir():
            os.chown(file, 0, group)
            file.chmod(volume["secret"]["defaultMode"])
    return found


def _environment(pod_name: str, variables: list[dict[str, Any]]) -> dict[str, str]:
    """In order; `$(NAME)` is one that stands before."""
    known: dict[str, str] = {}
    for each in variables:
        if "valueFrom" in each:
            assert each["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
            known[each["name"]] = pod_name
        else:
            known[each["name"]] = re.sub(
                r"\$\((\w+)\)", lambda match: known[match.group(1)], each["value"]
            )
    return known


@pytest.mark.cluster
def test_three_pods_and_one_more(tmp_path: Path) -> None:
    need_a_stage()
    document = the(rendered({"nodes": 4}), "StatefulSet")
    [container] = document["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    # What the stage waits for, over TLS, is what the probe asks.
    asked = container["readinessProbe"]["httpGet"]
    assert asked == {"path": "/api/ready", "port": "http", "scheme": "HTTPS"}
    secrets = made_secrets(tmp_path)
    *pods, fourth = (pod(n, document, secrets, tmp_path / "data") for n in range(4))
    alive = tuple(container["livenessProbe"]["exec"]["command"])
    plan = Plan(
        directory=str(tmp_path),
        nodes=tuple(pods),
        probes=tuple(replace(each, argv=alive) for each in pods),
        later=(fourth,),
        adding=(operator(tmp_path),),
        client_files=str(tmp_path / "secrets" / "client"),
        http_port=ports["http"],
        metrics_port=ports["metrics"],
    )
    check(plan, play(plan))
