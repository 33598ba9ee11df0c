"""The folder that belongs to one server."""

from pathlib import Path

import pytest

from app.data_lock import DataInUse, DataLock


def test_one_server_has_a_data_folder(tmp_path: Path) -> None:
    first, second = DataLock(tmp_path), DataLock(tmp_path)
    first.acquire()
    with pytest.raises(DataInUse, match="in use by another server"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()
