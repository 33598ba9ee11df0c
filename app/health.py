"""For those who watch the server: liveness, readiness, metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from app.dependencies import EdgeNow
from app.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"])


class Health(BaseModel):
    """Alive."""

    status: str = Field(description="Always `healthy`.", examples=["healthy"])


class Readiness(BaseModel):
    """Whether new sessions can be made; else `reason` says why not."""

    status: str = Field(description="ready or not ready", examples=["ready", "not ready"])
    reason: str = Field(
        description="Why it is not ready; else empty.", examples=["", "the worker is loading the model"]
    )
    waiting: int = Field(description="Clients that wait in line for room: no reason not to be ready.")


@router.get("/health", summary="Liveness", response_description="It lives.")
async def health() -> Health:
    """Answers while the server lives, whatever the model does."""
    return Health(status="healthy")


@router.get("/healthz", summary="Liveness", response_description="It lives.")
async def healthz() -> Health:
    """The same, under the name that Kubernetes' users expect."""
    return Health(status="healthy")


@router.get(
    "/readyz",
    summary="Readiness",
    response_model=Readiness,
    response_description="New sessions are taken.",
    responses={503: {"model": Readiness, "description": "No work is taken now: `reason` says why."}},
)
async def readyz(edge: EdgeNow) -> JSONResponse:
    """503 with the reason while the model loads or restarts or could not be loaded, and at the end."""
    reason = edge.reason
    answer = Readiness(
        status="not ready" if reason else "ready", reason=reason, waiting=edge.manager.line.depth
    )
    return JSONResponse(answer.model_dump(), 503 if reason else 200)


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    response_description="In Prometheus' text format.",
)
async def metrics(edge: EdgeNow) -> Response:
    """Sessions by state, stage times, latencies, queue depth, pages in use, close reasons."""
    return Response(edge.metrics.text(), media_type=CONTENT_TYPE)
