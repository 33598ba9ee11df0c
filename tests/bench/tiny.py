"""The tiny world's figures: the served checkpoint against its renderer.

python -m tests.bench tiny
"""

from engine.tiny.figures import main as print_figures


def main() -> None:
    """Print one JSON line per figure; takes some minutes."""
    print_figures()
