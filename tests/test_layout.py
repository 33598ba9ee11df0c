"""What pytest needs of the tests' own layout."""

from collections import Counter
from pathlib import Path


def test_every_test_file_has_a_name_of_its_own() -> None:
    """They are imported by base name, as no test folder is a package."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
