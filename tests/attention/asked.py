"""Requests that are right until a test changes one thing."""

import pytest
import torch

from attention.declaration import Computation, Declaration
from attention.errors import AttentionError
from attention.layer import Attention
from attention.masks import Mask, build_mask


def declare(**changes) -> Declaration:
    fields = {"computation": Computation.SELF, "role": "world.self", "heads": 4, "kv_heads": 2, "head_dim": 8}
    return Declaration(**{**fields, **changes})


def tensors(batch=2, queries=3, keys=5, heads=4, kv_heads=2, head_dim=8, **kind):
    q = torch.zeros(batch, queries, heads, head_dim, **kind)
    return (
        q,
        torch.zeros(batch, keys, kv_heads, head_dim, **kind),
        torch.zeros(batch, keys, kv_heads, head_dim, **kind),
    )


def call(q=None, k=None, v=None, mask=None, layout=None, declaration=None, policy=None):
    ready = tensors()
    attend = Attention(declaration or declare(), policy)
    return attend(
        ready[0] if q is None else q,
        ready[1] if k is None else k,
        ready[2] if v is None else v,
        mask,
        layout,
    )


def mask_of(**changes) -> Mask:
    return build_mask(**{"batch": 2, "query_length": 3, "kv_length": 5, **changes})


def refused(error, request, message) -> None:
    """`request` raises exactly `error` and says exactly `message`."""
    with pytest.raises(AttentionError) as refusal:
        request()
    assert type(refusal.value) is error
    assert str(refusal.value) == message
