"""What tests of REST share."""

from collections.abc import Awaitable
from typing import Any

import pytest

from app.client import ServerError


async def refused(call: Awaitable[Any]) -> ServerError:
    """What the server says to a call that it refuses."""
    with pytest.raises(ServerError) as error:
        await call
    return error.value
