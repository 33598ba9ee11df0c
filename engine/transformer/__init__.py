"""The causal world transformer.

Configuration, parts, and the module under the checkpoint's parameter names.
"""

from __future__ import annotations

from engine.transformer.config import PRESETS, TransformerConfig
from engine.transformer.model import BlockInputs, WorldTransformer

__all__ = ["PRESETS", "BlockInputs", "TransformerConfig", "WorldTransformer"]
