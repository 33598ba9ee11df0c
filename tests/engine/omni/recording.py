"""Stands between `InstalledOmni` and `AsyncOmni`: passes every call on, and notes it with its answer."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final

import torch
from PIL.Image import Image
from torch import Tensor

LEFT_OUT: Final = ("metrics", "stage_durations", "peak_memory_mb", "prompt", "is_pipeline_output")
"""Attributes of an output that are measured, or that repeat what was asked."""


@dataclass(slots=True)
class Notes:
    """Calls in their order as plain values, and the tensors among them by name."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)  # of an output, and what their values are
    case: str = ""
    asked: threading.Event = field(default_factory=threading.Event)  # a tick was sent since it was cleared


class Recording:
    """The client that `InstalledOmni` and vLLM-Omni's own consumer and lifecycle are given."""

    def __init__(self, client: Any, notes: Notes) -> None:
        self.client = client
        self.engine = client.engine
        self._notes = notes

    async def generate(
        self, prompt: Any, *, request_id: str, sampling_params_list: Sequence[Any], **rest: Any
    ) -> AsyncIterator[Any]:
        """As `AsyncOmni.generate`."""
        call = self._call("generate", request(prompt, request_id, sampling_params_list, rest))
        outputs = call["outputs"] = []
        self._notes.asked.set()
        try:
            async for output in self.client.generate(
                prompt, request_id=request_id, sampling_params_list=sampling_params_list, **rest
            ):
                outputs.append(self._output(output, request_id))
                yield output
        except BaseException as error:  # a cancel too
            call["raised"] = told(error)
            raise

    async def collective_rpc(self, method: str, **rest: Any) -> Any:
        """As `AsyncOmni.collective_rpc`."""
        call = self._call("collective_rpc", {"method": method, **plain(rest)})
        try:
            answer = await self.client.collective_rpc(method, **rest)
        except BaseException as error:
            call["raised"] = told(error)
            raise
        call["answer"] = plain(answer)
        return answer

    async def check_health(self) -> None:
        """As `AsyncOmni.check_health`."""
        call = self._call("check_health", {})
        try:
            await self.client.check_health()
        except BaseException as error:
            call["raised"] = told(error)
            raise

    def shutdown(self) -> None:
        """As `AsyncOmni.shutdown`."""
        self.client.shutdown()

    def _call(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        call = {"call": name, "asked": asked}
        self._notes.calls.append(call)
        return call

    def _output(self, output: Any, name: str) -> dict[str, Any]:
        names = [one for one in sorted(dir(output)) if not one.startswith("_")]
        values = {one: getattr(output, one) for one in names if not callable(getattr(output, one))}
        self._notes.attributes |= {one: kind(value) for one, value in values.items()}
        told = {one: value for one, value in values.items() if one not in LEFT_OUT and not _empty(value)}
        return {one: self._named(value, name) for one, value in told.items()}

    def _named(self, value: Any, name: str) -> Any:
        if isinstance(value, Tensor):
            form: dict[str, Any] = {
                "shape": list(value.shape),
                "dtype": str(value.dtype),
                "device": str(value.device),
            }
            form["tensor"] = self._kept(value.detach().float().contiguous(), name)
            return form
        if isinstance(value, list):
            return [self._named(one, name) for one in value]
        return plain(value)

    def _kept(self, tensor: Tensor, name: str) -> str:
        """Under its request's id; the name of the first one where the same was answered before."""
        for known, other in self._notes.tensors.items():
            if torch.equal(other, tensor):
                return known
        if name in self._notes.tensors:
            name = f"{name} of {self._notes.case}"
        self._notes.tensors[name] = tensor
        return name


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, (list, dict)) and not value)


def plain(value: Any) -> Any:
    """In JSON's types; a picture by its size and digest, anything else that JSON lacks by its type."""
    if isinstance(value, Image):
        digest = hashlib.sha256(value.tobytes()).hexdigest()[:16]
        return {"type": "PIL.Image", "mode": value.mode, "size": list(value.size), "sha256": digest}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, BaseException):
        return told(value)
    if isinstance(value, str):
        return brief(value)
    if value is None or isinstance(value, (int, bool)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else repr(value)  # NaN too: JSON has neither
    return {"type": kind(value)}


def told(error: BaseException) -> dict[str, str]:
    """An exception's type and text, without the traceback of another process that may follow."""
    return {"type": kind(error), "text": brief(str(error))}


def brief(text: str) -> str:
    """What stands before a traceback, which names this machine's folders."""
    return text.split("traceback:")[0].rsplit("\n", 1)[0].strip() if "traceback:" in text else text


def kind(value: object) -> str:
    """The name of a value's class with its module's."""
    name = type(value).__qualname__
    return name if type(value).__module__ == "builtins" else f"{type(value).__module__}.{name}"


def request(prompt: Any, request_id: str, sampling: Sequence[Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    """What `AsyncOmni.generate` is called with, as it is noted."""
    return {
        "request_id": request_id,
        "prompt": plain(prompt),
        "sampling_params_list": [changed(one) for one in sampling],
        **plain(rest),
    }


def same(one: Any, other: Any) -> bool:
    """Whether plain values are equal; numbers but for the last digits, which differ among processors."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def changed(sampling: Any) -> dict[str, Any]:
    """Of sampling parameters, those that aren't the class's defaults."""
    given = {}
    for one in fields(sampling):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if getattr(sampling, one.name) != default:
            given[one.name] = plain(getattr(sampling, one.name))
    return given
