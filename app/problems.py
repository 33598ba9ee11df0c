"""Errors over HTTP: `application/problem+json` (RFC 9457) with `code`, `retryable` and `field`."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException

from app.errors import INTERNAL, MAPPED, Fault, Hint, fault_of, field_of, hint_of, message_of
from app.message import refusal_of

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
NO_HINT = Hint()


class Problem(BaseModel):
    """What every answer from 400 on holds."""

    type: str = Field("about:blank", description="Always `about:blank`: `code` says what it is.")
    title: str = Field(description="The HTTP status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What came and what is allowed.")
    code: str = Field(description="Stable name of the error.", examples=["invalid_request"])
    retryable: bool = Field(description="Whether the same request may work later.")
    field: str | None = Field(None, description="Path of the field that is wrong.", examples=["width"])
    position: int | None = Field(None, description="Where all are busy: the place in line there would be.")
    depth: int | None = Field(None, description="Where all are busy: how many wait in line.")


def problem(
    fault: Fault,
    message: str,
    field: str | None = None,
    headers: dict[str, str] | None = None,
    hint: Hint = NO_HINT,
) -> JSONResponse:
    """The answer for a row of the error table."""
    content: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(fault.status).phrase,
        "status": fault.status,
        "detail": message,
        "code": fault.code,
        "retryable": fault.retryable,
    }
    if field is not None:
        content["field"] = field
    if hint.position is not None:
        content |= {"position": hint.position, "depth": hint.depth}
    more = {}
    if fault.status in (429, 503) and fault.retryable:
        seconds = RETRY_AFTER_S if hint.retry_after_s is None else max(1, math.ceil(hint.retry_after_s))
        more["Retry-After"] = str(seconds)
    if fault.status == 401:
        more["WWW-Authenticate"] = "Bearer"
    return JSONResponse(content, fault.status, {**more, **(headers or {})}, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every error of the application as a problem."""
    for base in MAPPED:
        app.add_exception_handler(base, _mapped)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _internal)


async def _mapped(_: Request, error: Exception) -> JSONResponse:
    return problem(fault_of(error), message_of(error), field_of(error), hint=hint_of(error))


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    detail = error.errors()[0]
    place = detail["loc"][1:]  # the first part says body, path or query
    refusal = refusal_of(cast(ErrorDetails, {**detail, "loc": place}))
    return problem(fault_of(refusal), message_of(refusal), field_of(refusal))


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    fault = Fault(phrase.lower().replace(" ", "_").replace("'", ""), error.status_code, INTERNAL.close)
    return problem(fault, str(error.detail), headers=dict(error.headers or {}))


async def _internal(_: Request, error: Exception) -> JSONResponse:
    return problem(INTERNAL, message_of(error))
