from pathlib import Path

import pytest
import torch

from engine.text.words import LENGTH, WordTable

TABLE = WordTable.create(("meadow", "desert", "night"), dim=8)


def test_a_prompt_is_its_known_words_in_order_and_zeros() -> None:
    encoded = TABLE.encode("At Night, over the meadow!")
    assert encoded.shape == (1, LENGTH, 8)
    assert torch.equal(encoded[0, 0], TABLE.table[2])
    assert torch.equal(encoded[0, 1], TABLE.table[0])
    assert not encoded[0, 2:].any()


def test_a_prompt_without_a_known_word_is_all_zeros() -> None:
    assert not TABLE.encode("submarine").any()


def test_words_beyond_the_eighth_are_passed_over() -> None:
    assert torch.equal(TABLE.encode("meadow " * 9), TABLE.encode("meadow " * 8))


def test_a_saved_table_loads_again(tmp_path: Path) -> None:
    TABLE.save(tmp_path)
    again = WordTable.load(tmp_path)
    assert again.words == TABLE.words
    assert torch.equal(again.encode("desert"), TABLE.encode("desert"))


def test_a_table_of_another_length_than_its_words_is_refused(tmp_path: Path) -> None:
    TABLE.save(tmp_path)
    (tmp_path / "words.json").write_text('["meadow"]')
    with pytest.raises(ValueError, match="1 words, the table 3 rows"):
        WordTable.load(tmp_path)
