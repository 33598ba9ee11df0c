from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkpoint in the published layout; not to be changed."""
    from tests.engine.lingbot.published_layout import write_published

    return write_published(tmp_path_factory.mktemp("published") / "checkpoint")


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may spoil."""
    return Path(shutil.copytree(published, tmp_path / "checkpoint"))
