"""A PostgreSQL server of the tests' own, in a folder of its own and on a socket in it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

USER = "worldline"


def find_programs() -> Path | None:
    """The folder of `initdb` and `postgres`; None where there is none."""
    for program in ("initdb", "pg_config"):
        if (found := shutil.which(program)) is None:
            continue
        if program == "initdb":
            return Path(found).resolve().parent
        told = subprocess.run([found, "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        if (Path(told) / "initdb").exists():
            return Path(told)
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None


class PostgresServer:
    """Started with `start`, and gone with `stop`. Nothing is flushed to disk: it is for tests."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="wlpg-"))  # short: a socket's path has 107 bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._user = _unprivileged()  # PostgreSQL refuses to run as root

    def start(self) -> None:
        """Make the cluster and return once it answers."""
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        self._call("initdb", "-D", f"{self._folder}/data", "-U", USER, "-A", "trust", "-N", "-E", "UTF8")
        options = ["-k", str(self._folder), "-c", "listen_addresses=", "-c", "fsync=off"]
        command = [str(self._programs / "postgres"), "-D", f"{self._folder}/data", *options]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **self._as_user())
        until = time.monotonic() + 60
        while self._query("SELECT 1").returncode:
            assert self._process.poll() is None and time.monotonic() < until, "PostgreSQL did not start"
            time.sleep(0.05)

    def stop(self) -> None:
        """End it at once, and leave nothing behind."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def new_database(self) -> str:
        """The URL of an empty one: a schema, which costs less than a database."""
        self._databases += 1
        name = f"journal_{self._databases}"
        self._query(f"CREATE SCHEMA {name}").check_returncode()
        where = f"host={self._folder}&options=-csearch_path%3D{name}&application_name={name}"
        return f"postgresql://{USER}@/postgres?{where}"

    def cut_connections(self, url: str) -> int:
        """End every connection to a database from the server's side; how many there were."""
        name = url.rpartition("=")[2]
        cut = f"pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"
        return self._query(f"SELECT {cut}").stdout.count("t")

    def change(self, url: str, statement: str) -> None:
        """Do something in a database behind its owner's back."""
        schema = url.rpartition("=")[2]
        self._query(f"SET search_path = {schema}; {statement}").check_returncode()

    def _query(self, query: str) -> subprocess.CompletedProcess[str]:
        command = ["psql", "-h", str(self._folder), "-U", USER, "-d", "postgres", "-Atqc", query]
        command[0] = str(self._programs / command[0])
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder, **self._as_user())

    def _as_user(self) -> dict[str, object]:
        user = self._user
        return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _unprivileged() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")
