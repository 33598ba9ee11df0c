"""What all tests share."""

import importlib.util
import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from postgres_server import PostgresServer, find_programs

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # a loaded machine is no reason to fail


@pytest.fixture(autouse=True)
def logging_stays_as_it_was() -> Iterator[None]:
    """A command that sets up logging in this process does so for its own test alone."""
    root = logging.getLogger()
    loggers = [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
    handlers, levels = list(root.handlers), [each.level for each in loggers]
    yield
    root.handlers[:] = handlers
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL server; where `WORLDLINE_REQUIRE_POSTGRES` is set it may not be missing."""
    programs = find_programs()
    driver = importlib.util.find_spec("psycopg")
    if programs is None or driver is None:
        missing = (
            "server is installed (Debian: postgresql)" if driver else "driver: install worldline[postgres]"
        )
        reason = f"no PostgreSQL {missing}"
        if os.environ.get("WORLDLINE_REQUIRE_POSTGRES"):
            pytest.fail(reason)
        pytest.skip(reason)
    server = PostgresServer(programs)
    try:
        server.start()
        yield server
    finally:
        server.stop()
