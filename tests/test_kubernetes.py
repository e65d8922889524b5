"""deploy/kubernetes names what Conch has: flags, ports, paths, metrics and times."""

import functools
import inspect
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import tritonclient.http
import yaml
from http_server import Asked, http_server
from subprocesses import output_of

from conch.cli import build_parser
from conch.gateway.app import make_app
from conch.launcher import ServerConfig
from scripts import check_kubernetes

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "kubernetes"
DRAIN = FOLDER / "base" / "drain.py"


@functools.cache
def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def the(kind: str, folder: str = "base") -> list[Any]:
    """Return the manifests of a kind."""
    files = [path for path in (FOLDER / folder).glob("*.yaml") if "kustomization" not in path.name]
    found = [item for path in files for item in documents(str(path)) if item.get("kind") == kind]
    assert found
    return found


@pytest.fixture(params=["base", "kserve"])
def container(request: pytest.FixtureRequest) -> Any:
    if request.param == "base":
        (deployment,) = the("Deployment")
        return deployment["spec"]["template"]["spec"]["containers"][0]
    (runtime,) = the("ServingRuntime", "overlays/kserve")
    return runtime["spec"]["containers"][0]


def ports_of(container: Any) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def test_the_server_takes_the_flags_and_listens_on_the_ports(container) -> None:
    args = build_parser().parse_args(container["args"])
    assert args.command == "serve"
    assert args.host == "0.0.0.0" and args.trust_network
    listened = {args.http_port, args.grpc_port, args.metrics_port}
    if not args.no_gateway:
        assert args.gateway_address[0] == "0.0.0.0"
        listened.add(args.gateway_address[1])
    ports = set(ports_of(container).values())
    # Prometheus finds the port of the metrics by an annotation.
    assert ports == listened or ports == listened - {args.metrics_port}
    defaults = build_parser().parse_args(["serve"])
    assert args.metrics_port == defaults.metrics_port == 8002


def test_probes_ask_what_is_there(container) -> None:
    gateway = {route.resource.canonical for route in make_app(cast(Any, None)).router.routes()}
    client = tritonclient.http.InferenceServerClient
    asked = inspect.getsource(client.is_server_live) + inspect.getsource(client.is_server_ready)
    triton = {f"/{path}" for path in re.findall(r'"(v2/health/\w+)"', asked)}
    assert len(triton) == 2
    ports = ports_of(container)
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        request = container[kind]["httpGet"]
        port = ports.get(request["port"], request["port"])
        assert request["path"] in {9000: gateway, 8000: triton}[port]


def test_a_first_start_may_take_as_long_as_conch_allows(container) -> None:
    args = build_parser().parse_args(container["args"])
    probe = container["startupProbe"]
    # Besides, Python starts and each component answers once.
    assert probe["periodSeconds"] * probe["failureThreshold"] >= args.startup_timeout + 30


def test_a_pod_has_the_time_that_its_stop_takes() -> None:
    (deployment,) = the("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    args = build_parser().parse_args(pod["containers"][0]["args"])
    command = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    (at_most,) = (int(word.partition("=")[2]) for word in command if word.startswith("--at-most"))
    stop_s = args.drain_s + ServerConfig().stop_timeout_s
    assert pod["terminationGracePeriodSeconds"] >= at_most + stop_s + 5
    (service,) = the("InferenceService", "overlays/kserve")
    grace_s = service["spec"]["predictor"]["terminationGracePeriodSeconds"]
    assert grace_s >= ServerConfig().stop_timeout_s + 5


def test_selectors_and_ports_are_those_of_the_pods() -> None:
    (deployment,) = the("Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = ports_of(container)
    selectors = [service["spec"]["selector"] for service in the("Service")]
    (budget,), (policy,) = the("PodDisruptionBudget"), the("NetworkPolicy")
    of_others = (deployment["spec"]["selector"], budget["spec"]["selector"])
    selectors += [item["matchLabels"] for item in (*of_others, policy["spec"]["podSelector"])]
    assert len(selectors) == 6
    assert all(selector == labels for selector in selectors)
    for service in the("Service"):
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    allowed = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    assert allowed == set(ports.values())
    (scaler,) = the("HorizontalPodAutoscaler")
    target = scaler["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])


def test_only_metrics_and_the_gateway_are_open_to_other_namespaces() -> None:
    for policy in (*the("NetworkPolicy"), *the("NetworkPolicy", "overlays/kserve")):
        assert policy["spec"]["egress"] == []
        for rule in policy["spec"]["ingress"]:
            assert rule["from"], "an empty list lets everybody in"
            if any("namespaceSelector" in source for source in rule["from"]):
                assert not {port["port"] for port in rule["ports"]} & {8000, 8001}


def test_what_is_mounted_is_there(container) -> None:
    (deployment,) = the("Deployment")
    (kustomization,) = documents("base/kustomization.yaml")
    made = {item["name"]: item for item in kustomization["configMapGenerator"]}
    volumes = {item["name"]: item for item in deployment["spec"]["template"]["spec"]["volumes"]}
    assert volumes["drain"]["configMap"]["name"] in made
    assert made["conch-drain"]["files"] == [DRAIN.name] and DRAIN.is_file()
    mounts = {item["name"]: item["mountPath"] for item in container["volumeMounts"]}
    assert set(mounts) <= set(volumes)
    # All that the server writes to, as its root is read-only.
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert mounts["shm"] == "/dev/shm" and mounts["tmp"] == "/tmp"
    (cache,) = (item.partition("=")[2] for item in made["conch-settings"]["literals"])
    assert mounts["cache"] == f"{cache}/conch"


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_the_image_is_what_the_pods_expect(name: str) -> None:
    path = ROOT / "deploy" / name
    if not path.is_file():
        pytest.skip(f"deploy/{name} is missing")
    text = path.read_text(encoding="utf-8")
    (deployment,) = the("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    user = pod["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}\n" in text
    # `args` of a pod come after the entry point.
    assert re.search(r'^ENTRYPOINT \[.*"conch"\]$', text, re.MULTILINE)
    (settings,) = (
        item["literals"]
        for item in documents("base/kustomization.yaml")[0]["configMapGenerator"]
        if "literals" in item
    )
    assert all(setting in text for setting in settings)
    # Where the gateway looks for keys, below XDG_CONFIG_HOME.
    (keys,) = (m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "keys")
    assert f"XDG_CONFIG_HOME={keys['mountPath'].removesuffix('/conch')} " in text


def test_the_autoscaler_reads_metrics_that_conch_has() -> None:
    (adapter,) = documents("prometheus-adapter.yaml")
    rules = adapter["rules"]["custom"]
    (scaler,) = the("HorizontalPodAutoscaler")
    wanted = {item["pods"]["metric"]["name"] for item in scaler["spec"]["metrics"]}
    assert {rule["name"]["as"] for rule in rules} == wanted
    tables = (ROOT / "docs/guide" / name for name in ("operating.md", "gateway.md"))
    documented = set(
        re.findall(r"^\| `(conch_\w+)` \|", "".join(p.read_text() for p in tables), re.M)
    )
    queries = "".join(rule["metricsQuery"] + rule["seriesQuery"] for rule in rules)
    asked = set(re.findall(r"conch_\w+", queries))
    assert len(asked) == 3 and asked <= documented


def test_the_gpu_overlay_asks_for_configs_that_there_are() -> None:
    (kustomization,) = documents("overlays/gpu/kustomization.yaml")
    added = [
        operation["value"]
        for patch in kustomization["patches"]
        for operation in yaml.safe_load(patch.get("patch", "[]"))
    ]
    args = build_parser().parse_args(["serve", *added])
    assert list(ROOT.glob(f"component_models/*/configs/{args.model_config}.pbtxt"))
    (patch,) = documents("overlays/gpu/gpu.yaml")
    (deployment,) = the("Deployment")
    assert patch["metadata"] == {"name": deployment["metadata"]["name"]}
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "conch"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_the_check_finds_a_misspelled_field() -> None:
    (budget,) = the("PodDisruptionBudget")
    assert list(check_kubernetes.problems(budget)) == []
    wrong = {**budget, "spec": {**budget["spec"], "maxUnavailabel": 1}}
    found = list(check_kubernetes.problems(wrong))
    assert len(found) == 2
    assert all("maxUnavailabel" in problem for problem in found)


def test_without_kubectl_the_files_are_checked(monkeypatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None)
    assert check_kubernetes.builder() is None
    base, gpu, kserve = (
        list(check_kubernetes.resources(folder)) for folder in check_kubernetes.folders()
    )
    assert [item["kind"] for item in base] == [item["kind"] for item in gpu]
    assert {item["kind"] for item in kserve} == {
        *("ServingRuntime", "InferenceService", "NetworkPolicy")
    }


@pytest.mark.nightly
def test_the_overlays_are_built() -> None:
    command = check_kubernetes.builder()
    if command is None:
        pytest.skip("kubectl 1.27 or kustomize 5 is missing")
    built = {
        folder.name: check_kubernetes.built(folder, command)
        for folder in check_kubernetes.folders()
    }
    assert len(built["base"]) == len(built["gpu"]) > len(built["kserve"])
    for name, kind in (("base", "Deployment"), ("gpu", "Deployment"), ("kserve", "ServingRuntime")):
        (found,) = (item["spec"] for item in built[name] if item["kind"] == kind)
        (container,) = found.get("template", {"spec": found})["spec"]["containers"]
        tag = "0.1.0-gpu" if name == "gpu" else "0.1.0"
        assert container["image"] == f"registry.example.org/conch:{tag}"
        args = build_parser().parse_args(container["args"])
        assert args.model_config == ("gpu" if name == "gpu" else "")
        assert container["resources"]["limits"].get("nvidia.com/gpu") == (
            "1" if name == "gpu" else None
        )


@pytest.mark.nightly
def test_prometheus_computes_what_the_autoscaler_reads(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    (adapter,) = documents("prometheus-adapter.yaml")
    filled = {"<<.LabelMatchers>>": 'namespace="speech",pod=~"busy|new"', "<<.GroupBy>>": "pod"}
    rules = []
    for rule in adapter["rules"]["custom"]:
        query = rule["metricsQuery"]
        for place, text in filled.items():
            query = query.replace(place, text)
        rules.append({"record": f"of_pod:{rule['name']['as']}", "expr": query})
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    series = {
        'conch_open_streams{pod="busy",model="speech"': "7x40",
        'conch_open_streams{pod="busy",model="speech_stream"': "0x40",
        'conch_open_streams{pod="new",model="speech"': "0x40",
        # 3600 s of audio at 100 times real time; and 100 s where nothing has been recognised yet.
        'conch_audio_in_flight_seconds{pod="busy",model="speech"': "3000x40",
        'conch_audio_in_flight_seconds{pod="busy",model="speech_stream"': "600x40",
        'conch_audio_in_flight_seconds{pod="new",model="speech"': "100x40",
        'conch_audio_seconds_total{pod="busy",model="speech",mode="offline"': "0+1500x40",
        'conch_audio_seconds_total{pod="busy",model="speech",mode="two_pass"': "0+900x40",
    }
    wanted = {"conch_open_streams": (7, 0), "conch_queue_seconds": (36, 5)}
    test = {
        "interval": "15s",
        "input_series": [
            {"series": f'{name},namespace="speech"}}', "values": values}
            for name, values in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": f"of_pod:{name}",
                "eval_time": "8m",
                "exp_samples": [
                    {"labels": f'of_pod:{name}{{pod="{pod}"}}', "value": value}
                    for pod, value in zip(("busy", "new"), values, strict=True)
                ],
            }
            for name, values in wanted.items()
        ],
    }
    tests = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [test]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(tests))
    output_of(promtool, "test", "rules", tmp_path / "test.yml")


@contextmanager
def metrics_saying(streams: Sequence[int]) -> Iterator[str]:
    """Yield the address of metrics with so many open streams, one number after the other."""
    left = list(streams)

    def answer(asked: Asked) -> tuple[int, bytes]:
        number = left.pop(0) if len(left) > 1 else left[0]
        text = "# TYPE conch_open_streams gauge\n" + "".join(
            f'conch_open_streams{{model="{model}"}} {value}\n'
            for model, value in (("speech", number), ("speech_stream", 0))
        )
        return 200, text.encode()

    with http_server(answer) as port:
        yield f"http://127.0.0.1:{port}/metrics"


def drain(url: str, *, at_most: float) -> float:
    """Run the hook, and return the seconds that it took."""
    began = time.monotonic()
    flags = ["--at-least=0", f"--at-most={at_most}", f"--metrics={url}"]
    subprocess.run([sys.executable, "-I", str(DRAIN), *flags], check=True, timeout=30)
    return time.monotonic() - began


def test_a_pod_waits_for_its_streams() -> None:
    with metrics_saying([2, 0]) as url:
        assert drain(url, at_most=25) >= 1


def test_a_pod_waits_no_longer_than_it_may() -> None:
    with metrics_saying([2]) as url:
        assert drain(url, at_most=0.5) < 20


def test_a_pod_whose_triton_is_gone_stops() -> None:
    with metrics_saying([0]) as url:
        pass
    assert drain(url, at_most=25) < 20
