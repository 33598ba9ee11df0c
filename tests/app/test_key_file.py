"""Keys in a file: made, listed and revoked by the command, and read again while the server runs."""

import fcntl
import json
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.client import Client, ServerError
from app.key_file import KeyList, added, change_keys, read_keys

Start = Callable[..., Awaitable[Any]]
MEADOW = {"prompt": "a meadow"}
runner = CliRunner()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def keys(file: Path, *arguments: str) -> str:
    done = runner.invoke(cli, ["keys", *arguments, "--file", str(file)], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.output.strip()


def spoil(file: Path, content: str | None) -> None:
    """Write something else into the file, or remove it."""
    if content is None:
        file.unlink()
    else:
        file.write_text(content)


def change_unseen(file: Path) -> None:
    """Another key, and yet the same size and time."""
    before, data = file.stat(), json.loads(file.read_text())
    data["keys"][0]["sha256"] = "0" * 64
    file.write_text(json.dumps(data, indent=1) + "\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_stays_whose_it_was_and_a_link_a_link(file: Path, tmp_path: Path) -> None:
    keys(file, "add", "ci")
    file.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(file)
    keys(link, "add", "another")
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert "another" in keys(file, "list")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_key_that_root_adds_leaves_the_file_to_the_server_s_user(file: Path) -> None:
    keys(file, "add", "ci")
    os.chown(file, 1234, 1235)
    keys(file, "add", "another")
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 1235)


async def allowed(server: Any, key: str) -> bool:
    async with Client(server.url, api_key=key) as client:
        return (await client.http.get("/v1/models")).status_code == 200


def test_a_key_is_shown_once_and_kept_as_its_digest(file: Path) -> None:
    key = keys(file, "add", "ci")
    assert len(key) >= 43
    assert key not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    listed = keys(file, "list")
    assert "ci" in listed and "active" in listed and key not in listed
    keys(file, "revoke", "ci")
    assert "revoked" in keys(file, "list")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["add", "ci"], "there is a key 'ci' already"),
        (["add", "no spaces"], "got 'no spaces'"),
        (["revoke", "nobody"], "there is no key 'nobody'"),
        (["revoke", "ci", "--file", "nowhere.json"], "nowhere.json can't be read: No such file"),
    ],
)
def test_a_wrong_wish_changes_nothing(file: Path, arguments: list[str], told: str) -> None:
    keys(file, "add", "ci")
    before = file.read_bytes()
    refused = runner.invoke(
        cli, ["keys", arguments[0], "--file", str(file), *arguments[1:]], env={"COLUMNS": "200"}
    )
    assert refused.exit_code == 2
    assert told in refused.output
    assert file.read_bytes() == before


def test_whoever_changes_the_file_keeps_others_out_from_reading_to_writing(file: Path) -> None:
    def change(known: KeyList) -> KeyList:
        folder = os.open(file.parent, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)
        return added(known, "second", "0" * 64)

    keys(file, "add", "first")
    change_keys(file, change)
    assert [key.name for key in read_keys(file).keys] == ["first", "second"]
    keys(file, "add", "third")


async def test_keys_come_and_go_while_the_server_runs(start_server: Start, file: Path) -> None:
    first = keys(file, "add", "first")
    server = await start_server(api_keys_file=file, api_keys=["fixed"])
    second = keys(file, "add", "second")
    assert await allowed(server, first) and await allowed(server, second) and await allowed(server, "fixed")
    assert not await allowed(server, "another")
    async with Client(server.url, api_key=first) as client, client.stream(**MEADOW) as playing:
        keys(file, "revoke", "first")
        assert not await allowed(server, first) and await allowed(server, second)
        await playing.chunk()  # what it plays goes on
        async with client.socket() as again:
            with pytest.raises(ServerError) as refused:
                await again.resume(playing.video["session_id"], playing.video["token"], -1)
            assert (refused.value.code, refused.value.close_code) == ("unauthorized", 1008)


async def test_a_file_without_keys_lets_nobody_in(start_server: Start, file: Path) -> None:
    key = keys(file, "add", "only")
    keys(file, "revoke", "only")
    server = await start_server(api_keys_file=file)
    assert not await allowed(server, key)
    answer = await server.client.http.get("/v1/models")
    assert answer.status_code == 401


@pytest.mark.parametrize("broken", ["{", '{"keys": [{"name": "x"}]}', None])
async def test_a_file_that_breaks_changes_nothing_and_is_logged(
    start_server: Start, file: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    key = keys(file, "add", "kept")
    server = await start_server(api_keys_file=file)
    spoil(file, broken)
    with caplog.at_level(logging.ERROR, "worldline"):
        assert await allowed(server, key)
        assert await allowed(server, key)
    assert [str(file) in record.message for record in caplog.records] == [True]  # once
    spoil(file, '{"keys": []}')
    assert not await allowed(server, key)


async def test_a_hangup_reads_the_file_again_even_where_it_looks_the_same(
    start_server: Start, file: Path
) -> None:
    key = keys(file, "add", "only")
    server = await start_server(api_keys_file=file)
    assert await allowed(server, key)
    change_unseen(file)
    server.edge.keys.reload()
    assert not await allowed(server, key)


@pytest.mark.parametrize("content", [None, "{"])
def test_a_server_does_not_start_with_a_broken_file(file: Path, content: str | None, tmp_path: Path) -> None:
    if content is not None:
        file.write_text(content)
    options = ["serve", "--engine", "pattern", "--data", str(tmp_path)]
    refused = runner.invoke(cli, options, env={"COLUMNS": "300", "WORLDLINE_API_KEYS_FILE": str(file)})
    assert refused.exit_code == 2
    assert "worldline keys add NAME" in refused.output
