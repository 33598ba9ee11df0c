"""What all tests share."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

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
