"""The command line, in a process of its own where it serves."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
runner = CliRunner()


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["serve"],
        ["sessions"],
        ["replay"],
        ["settings"],
        ["verify"],
        ["capacity"],
        ["generate"],
        ["train"],
        ["train", "codec"],
        ["train", "decoder"],
        ["train", "world"],
    ],
)
def test_each_command_explains_itself(command: list[str]) -> None:
    shown = runner.invoke(cli, [*command, "--help"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    assert "Usage" in shown.output and len(shown.output.splitlines()) > 5
    assert not re.search(r"…|\w\.\.\.$", shown.output, re.MULTILINE)  # nothing is cut


def test_serve_has_the_options_that_it_promises() -> None:
    shown = runner.invoke(cli, ["serve", "--help"], env={"COLUMNS": "80"}).output
    for option in ("host", "port", "data", "engine", "model", "served-model-name", "threads", "log-level"):
        assert f"--{option}" in shown
        assert f"WORLDLINE_{option.upper().replace('-', '_')}" in shown


def test_every_setting_is_listed_with_its_variable() -> None:
    shown = runner.invoke(cli, ["settings"]).output
    for name, info in Settings.model_fields.items():
        assert f"WORLDLINE_{name.upper()}" in shown
        assert info.description and info.description in shown


def test_a_setting_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDLINE_PENDING_EVENTS", "7")
    monkeypatch.setenv("WORLDLINE_API_KEYS", '["a", "b"]')
    settings = Settings()
    assert settings.pending_events == 7
    assert [key.get_secret_value() for key in settings.api_keys] == ["a", "b"]
    assert "'a'" not in repr(settings)


def test_an_empty_key_protects_nothing_and_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDLINE_API_KEYS", '["long and random", ""]')
    refused = runner.invoke(cli, ["serve", "--host", "0.0.0.0"], terminal_width=200)
    assert refused.exit_code == 2
    assert "api_keys.1" in refused.output and "got a secret" in refused.output
    assert "long and random" not in refused.output


def test_an_open_address_needs_a_key_or_an_explicit_wish() -> None:
    refused = runner.invoke(cli, ["serve", "--host", "0.0.0.0"])
    assert refused.exit_code == 2
    assert "WORLDLINE_API_KEYS" in refused.output


@pytest.mark.parametrize(
    ("options", "variables", "told"),
    [
        (["--threads", "0"], {}, "threads: input should be greater than or equal to 1, got 0"),
        (["--port", "99999"], {}, "port: input should be less than or equal to 65535, got 99999"),
        ([], {"WORLDLINE_MAX_SESSIONS": "no"}, "max_sessions: "),
        ([], {"WORLDLINE_API_KEYS": "bare"}, "WORLDLINE_API_KEYS: expected JSON"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(
    options: list[str], variables: dict[str, str], told: str
) -> None:
    refused = runner.invoke(cli, ["serve", *options], env={"COLUMNS": "200", **variables})
    assert refused.exit_code == 2
    assert told in refused.output
    assert "pydantic" not in refused.output


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    refused = runner.invoke(cli, ["serve", "--engine", "pattern", "--data", str(file)])
    assert refused.exit_code == 1
    assert str(file) in refused.output and "--data" in refused.output


def test_a_taken_port_is_named_and_ends_the_server(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        command = [sys.executable, "-m", "app.cli", "serve", "--engine", "pattern", "--port", port]
        ended = subprocess.run(
            [*command, "--data", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
    assert ended.returncode == 1
    assert f"can't listen on 127.0.0.1 port {port}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "ready" not in ended.stdout


@pytest.mark.parametrize("arguments", [["--port", "99999"], ["--engine", "steam"], ["--threads", "0"]])
def test_a_bad_option_is_refused_by_name(arguments: list[str]) -> None:
    refused = runner.invoke(cli, ["serve", *arguments])
    assert refused.exit_code == 2
    assert arguments[0].strip("-") in refused.output


def test_verify_without_a_file_says_what_to_give() -> None:
    refused = runner.invoke(cli, ["verify"])
    assert refused.exit_code == 2
    assert "--golden" in refused.output


def test_verify_of_a_file_that_is_not_there_says_which() -> None:
    refused = runner.invoke(cli, ["verify", "--golden", "no/such/golden"])
    assert refused.exit_code == 2
    assert "no/such/golden" in refused.output


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "app.cli",
        "serve",
        "--engine",
        "pattern",
        "--port",
        "0",
        "--data",
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield process
        process.kill()


def test_serve_prints_the_demo_s_address_when_it_is_ready_and_ends_on_a_signal(
    serving: subprocess.Popen[str],
) -> None:
    assert serving.stdout is not None
    line = serving.stdout.readline()
    assert line.startswith("Worldline is ready: open http://127.0.0.1:")
    url = line.split()[-1]
    assert httpx.get(f"{url}readyz", trust_env=False).json()["status"] == "ready"
    assert httpx.get(url, trust_env=False).headers["content-type"].startswith("text/html")
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(20) == 0


def test_a_model_that_is_not_there_ends_serve_with_the_reason(tmp_path: Path) -> None:
    missing = tmp_path / "no-such-checkpoint"
    command = [
        sys.executable,
        "-m",
        "app.cli",
        "serve",
        "--model",
        str(missing),
        "--port",
        "0",
        "--data",
        str(tmp_path),
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    (told,) = [line for line in ended.stderr.splitlines() if "no-such-checkpoint" in line]
    assert told.endswith(
        f"the model could not be loaded: {missing}: no such folder, and no OWNER/NAME@COMMIT of a hub"
    )
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("option", "name", "keys"),
    [
        ("--golden", "lingbot_a", {"flow_max_abs", "x0_max_abs"}),
        ("--camera", "camera", {"pose_max_abs", "rays_max_abs"}),
    ],
)
def test_verify_prints_one_json_line(option: str, name: str, keys: set[str]) -> None:
    command = [sys.executable, "-m", "app.cli", "verify", option, f"tests/data/{name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert set(json.loads(line)) >= keys
