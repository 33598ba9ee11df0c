"""What was let go of is remembered for whom it was taken from, and no more than that."""

from __future__ import annotations

from sessions import pruning
from sessions.observer import Observer
from sessions.pruning import Pruning
from sessions.snapshots import Kept, Pruned


class Counting(Observer):
    def __init__(self) -> None:
        self.counted: list[tuple[str, int]] = []

    def pruned(self, kind: str, size: int) -> None:
        self.counted.append((kind, size))


def gone(world: str, size: int, for_room: bool = True) -> Pruned:
    return Pruned(Kept.RECORDING, world, "the beginning", size, "too much", for_room)


def test_only_what_a_quota_took_is_told_but_all_is_counted() -> None:
    observer = Counting()
    remembered = Pruning(observer)
    remembered.hear(gone("w", 1))
    remembered.hear(gone("w", 2, for_room=False))
    assert [one.bytes for one in remembered.of("w")] == [1]
    assert observer.counted == [("recording", 1), ("recording", 2)]
    assert remembered.of("another") == ()


def test_memory_is_bounded() -> None:
    remembered = Pruning(Observer())
    for number in range(pruning.WORLDS + 1):
        remembered.hear(gone(f"w{number}", number))
    for size in range(pruning.EACH + 1):
        remembered.hear(gone("w9", size))
    assert remembered.of("w0") == ()
    assert [one.bytes for one in remembered.of("w9")] == list(range(1, pruning.EACH + 1))
