"""From an encoded chunk to the one binary message that carries it."""

from app.packaging.packager import Package, Packager

__all__ = ["Package", "Packager"]
