"""A forward of `tiny` without a history, compiled against the form that is served: CPU time, in turns."""

import json
import statistics
import sys
import time
from pathlib import Path

import torch

from engine.checkpoint.load import load_model
from engine.numerics import Numerics
from engine.transformer.equality import predict

FOLDER = Path(__file__).resolve().parents[2] / "checkpoints" / "tiny"
ROUNDS = 25


def main() -> None:
    """Print one JSON line. The block's own preparation is timed with it, alike on both sides."""
    torch.set_num_threads(1)
    models = [load_model(FOLDER), load_model(FOLDER, numerics=Numerics(compiled=True))]
    card, tokens = models[0].card, models[0].text_encoder.length
    size = (card.height // 8, card.width // 8)
    eager, compiled = (predict(model.transformer, size, tokens) for model in models)
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for model, taken in zip(models, times, strict=True):
            began = time.process_time()
            predict(model.transformer, size, tokens)
            taken.append((time.process_time() - began) * 1000)
    figures = {
        "bench": "compiled",
        "form": type(models[1].transformer).__name__,
        "eager_ms": round(min(times[0]), 2),
        "compiled_ms": round(min(times[1]), 2),
        "eager_median_ms": round(statistics.median(times[0]), 2),
        "compiled_median_ms": round(statistics.median(times[1]), 2),
        "difference": (eager - compiled).abs().max().item(),
        "largest": eager.abs().max().item(),
        "threads": 1,
        "rounds": ROUNDS,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
