"""What routes ask for: the edge, who calls, and the session in the path if they may see it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.edge import Edge, edge_of
from sessions.info import SessionInfo
from sessions.session import Session

_bearer = HTTPBearer(auto_error=False, description="An API key, where the server requires one.")


def owner_of(
    request: Request, shown: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> str | None:
    """The API key's id. Raises `Unauthorized`, `HostRefused`."""
    edge = edge_of(request)
    edge.require_host(request)
    return edge.keys.owner(None if shown is None else shown.credentials)


SessionIdInPath = Annotated[str, Path(max_length=64, description="The session's name.", examples=["my-walk"])]


async def session_of(
    request: Request,
    session_id: SessionIdInPath,
    owner: Annotated[str | None, Depends(owner_of)],
) -> Session:
    """The session in the path. Raises `UnknownSession`, `SessionClosed`."""
    return await edge_of(request).owned(session_id, owner)


async def info_of(
    request: Request,
    session_id: SessionIdInPath,
    owner: Annotated[str | None, Depends(owner_of)],
) -> SessionInfo:
    """Where the session in the path stands. Raises `UnknownSession`, `SessionClosed`."""
    return await edge_of(request).seen(session_id, owner)


async def world_of(
    request: Request,
    session_id: SessionIdInPath,
    owner: Annotated[str | None, Depends(owner_of)],
) -> str:
    """The newest instance of the session in the path, closed or not. Raises `UnknownSession`."""
    return await edge_of(request).world_of(session_id, owner)


EdgeNow = Annotated[Edge, Depends(edge_of)]
Owner = Annotated[str | None, Depends(owner_of)]
TheSession = Annotated[Session, Depends(session_of)]
TheInfo = Annotated[SessionInfo, Depends(info_of)]
TheWorld = Annotated[str, Depends(world_of)]
