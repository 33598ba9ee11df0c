"""Causality of a sequence that lies over several ranks: a mask, so that it can be cut."""

from __future__ import annotations

from torch import Tensor

from attention.masks import Mask, build_mask


class CausalMasks:
    """The causal masks of one layer, built once per geometry."""

    def __init__(self) -> None:
        self._masks: dict[tuple[object, ...], Mask] = {}

    def mask(self, q: Tensor, query_length: int, kv_length: int) -> Mask:
        """That of whole sequences of these lengths, for requests like `q` [B, ...]."""
        key = (q.shape[0], query_length, kv_length, q.device)
        if key not in self._masks:
            self._masks[key] = build_mask(
                batch=q.shape[0],
                query_length=query_length,
                kv_length=kv_length,
                causal=True,
                device=q.device,
            )
        return self._masks[key]
