"""One attention out of its parts over disjoint keys."""

from __future__ import annotations

import torch
from torch import Tensor


def combine(outputs: Tensor, logsums: Tensor) -> Tensor:
    """Weigh partial outputs by the share of the softmax that they make up.

    outputs [R, B, Sq, H, D] and the log-sum-exp of their logits [R, B, H, Sq] -> [B, Sq, H, D]. A row that
    sees no key in any part is zero. The order of the parts is that of the sum, so that all ranks round alike.
    """
    top = logsums.amax(dim=0)
    top = top.masked_fill(top == -torch.inf, 0.0)
    weights = torch.exp(logsums - top)  # a part that sees nothing weighs exp(-inf) = 0
    total = weights.sum(dim=0)
    weights = weights / total.masked_fill(total == 0, 1.0)
    return (outputs * weights.transpose(-1, -2).unsqueeze(-1)).sum(dim=0)
