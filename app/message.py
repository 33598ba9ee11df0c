"""What a message from a client is: a JSON object of a known shape, validated once, refused by field."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from app.refusals import InvalidField, shortened
from app.strict_json import Json

SessionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$", examples=["my-walk"])]
EventName = Annotated[str, Field(min_length=1, max_length=128)]
Text = Annotated[str, Field(max_length=65_536)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Secret = Annotated[str, Field(min_length=1, max_length=512)]
Mode = Literal["continuous", "stepped"]

_SECRET_FIELDS = frozenset({"token", "api_key"})


class Message(BaseModel):
    """A JSON object from a client: types are strict, unknown keys are refused."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        allowed = {name if info.alias is None else info.alias for name, info in cls.model_fields.items()}
        for key in data if isinstance(data, dict) else ():
            if key not in allowed:
                told = {"key": str(key), "allowed": ", ".join(sorted(allowed))}
                raise PydanticCustomError("unknown_field", "unknown field; allowed: {allowed}", told)
        return data


M = TypeVar("M", bound=Message)


def validated(model: type[M], data: Json) -> M:
    """`data` as `model`. Raises `InvalidField`, which names the first field that is wrong."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise refusal_of(error.errors(include_url=False)[0]) from None


def refusal_of(detail: ErrorDetails) -> InvalidField:
    """The refusal that says what pydantic found: the field, what came, what is allowed."""
    place: tuple[int | str, ...] = detail["loc"]
    if detail["type"] == "unknown_field":
        place = (*place, shortened(detail["ctx"]["key"]).strip("'"))
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    message = detail["msg"].replace("Input should be", "must be").replace("String should", "must")
    if detail["type"] in ("missing", "unknown_field", "empty_event", "two_events"):
        got = ""
    elif field.rpartition(".")[2] in _SECRET_FIELDS:
        got = "; got another"
    else:
        got = f"; got {shortened(detail['input'])}"
    return InvalidField(field or "message", f"{message}{got}")
