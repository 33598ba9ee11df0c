"""What ships for operators agrees with the code: metric names, settings, paths, and who runs the server."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.metrics import Metrics
from app.settings import Settings
from engine.pattern.engine import PatternEngine

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = ("Dockerfile", "gpu.Dockerfile")
NAME = re.compile(r"\bworldline_[a-z0-9_]+")
MATCHERS = re.compile(r"(worldline_[a-z0-9_]+)\{([^}]*)\}")


def series() -> dict[str, set[str]]:
    """Every name that a query may use, with the labels of its metric."""
    named: dict[str, set[str]] = {}
    metrics = Metrics(PatternEngine())
    for family in metrics.registry.collect():
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        collector = metrics.registry._names_to_collectors.get(family.name)
        labels = set(getattr(collector, "_labelnames", ()))
        named |= {family.name + suffix: labels for suffix in suffixes}
    return named


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DOCKER / "grafana/dashboards/worldline.json").read_text())
    return loaded


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for group in yaml.safe_load((DOCKER / "prometheus/alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def instructions(name: str) -> list[tuple[str, str]]:
    text = (DOCKER / name).read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines.splitlines() if line.strip()]


def compose(name: str = "compose.yaml") -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text())
    return loaded


def test_every_metric_in_the_dashboard_and_the_alerts_is_one_that_the_server_exports() -> None:
    known = set(series())
    used = {name for expression in expressions() for name in NAME.findall(expression)}
    assert used and used <= known, used - known


def test_every_metric_that_the_server_exports_is_shown_somewhere() -> None:
    used = {re.sub("_(bucket|sum|count)$", "", name) for text in expressions() for name in NAME.findall(text)}
    exported = {re.sub("_(bucket|sum|count)$", "", name) for name in series()}
    assert exported <= used, exported - used


def test_queries_select_and_group_by_labels_that_their_metrics_have() -> None:
    known = series()
    for expression in expressions():
        for name, matchers in MATCHERS.findall(expression):
            assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= known[name], expression
        grouped = {word for group in re.findall(r"by \(([^)]*)\)", expression) for word in group.split(", ")}
        used = [known[name] | {"le"} for name in NAME.findall(expression)]
        assert all(grouped <= labels for labels in used), expression


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


def test_the_dashboard_asks_the_source_that_is_provisioned() -> None:
    sources = yaml.safe_load((DOCKER / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    assert {panel["datasource"]["uid"] for panel in dashboard()["panels"]} == {
        source["uid"] for source in sources["datasources"]
    }
    services = compose()["services"]
    assert sources["datasources"][0]["url"].split("//")[1].split(":")[0] in services
    scraped = yaml.safe_load((DOCKER / "prometheus/prometheus.yml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["worldline:8000"] and "worldline" in services


def test_compose_mounts_what_exists_and_listens_on_the_loopback_alone() -> None:
    for name, service in compose()["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in compose()["volumes"] or (DOCKER / source).is_dir(), volume
    provider = yaml.safe_load((DOCKER / "grafana/provisioning/dashboards/worldline.yaml").read_text())
    mounts = [volume.split(":")[1] for volume in compose()["services"]["grafana"]["volumes"]]
    assert provider["providers"][0]["options"]["path"] in mounts


def test_images_by_others_have_a_version() -> None:
    for service in compose()["services"].values():
        if "image" in service:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_compose_builds_a_dockerfile_and_sets_settings_that_exist(name: str) -> None:
    service = compose(name)["services"]["worldline"]
    assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    settings = {f"WORLDLINE_{field.upper()}" for field in Settings.model_fields}
    assert set(service["environment"]) <= settings


def test_what_compose_sets_by_default_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in compose()["services"]["worldline"]["environment"].items():
        monkeypatch.setenv(variable, re.sub(r"\$\{\w+:-(.*)\}", r"\1", value))
    settings = Settings()
    assert settings.api_keys == () and settings.allow_unauthenticated


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_server_does_not_run_as_root_and_its_health_is_watched(name: str) -> None:
    steps = instructions(name)
    users = [argument for step, argument in steps if step == "USER"]
    assert users and users[-1] not in ("root", "0")
    order = [step for step, _ in steps]
    assert order.index("USER") > max(place for place, step in enumerate(order) if step == "RUN")
    assert any(step == "HEALTHCHECK" and "/health'" in argument for step, argument in steps)
    assert steps[-1] == ("CMD", '["worldline", "serve"]')


@pytest.mark.parametrize("name", DOCKERFILES)
def test_what_is_copied_into_the_image_exists_and_is_not_ignored(name: str) -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for step, argument in instructions(name):
        for source in argument.split()[:-1] if step == "COPY" else ():
            assert (ROOT / source).exists() and source in kept, source


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_image_sets_settings_that_exist(name: str) -> None:
    settings = {f"WORLDLINE_{field.upper()}" for field in Settings.model_fields}
    for step, argument in instructions(name):
        if step == "ENV":
            assert set(re.findall(r"(WORLDLINE_\w+)=", argument)) <= settings


def test_the_images_install_what_the_project_declares() -> None:
    space: dict[str, Any] = {"__name__": "requirements"}
    exec((DOCKER / "requirements.py").read_text(), space)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = space["requirements"](project, ["trace"])
    assert set(project["dependencies"]) < set(listed)
    assert any(line.startswith("opentelemetry-sdk") for line in listed)
