"""What pytest needs of the tests' own layout."""

from collections import Counter
from pathlib import Path


def test_the_readme_says_how_every_figure_was_taken() -> None:
    benchmarks = Path(__file__).parent / "bench"
    table = (Path(__file__).parents[1] / "README.md").read_text().partition("## Figures")[2]
    names = [path.stem for path in benchmarks.glob("*.py") if not path.stem.startswith("_")]
    assert [name for name in names if f"`{name}`" not in table] == []


def test_every_test_file_has_a_name_of_its_own() -> None:
    """They are imported by base name, as no test folder is a package."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
