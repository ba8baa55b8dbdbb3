"""The table of the paper's parts names lines that are there."""

from __future__ import annotations

import re

import pytest

from tests import paper

README = (paper.TOP / "README.md").read_text(encoding="utf-8")


def test_the_table_is_as_the_sources_are() -> None:
    stored = paper.TABLE.read_text(encoding="utf-8")
    assert stored == paper.write(), "lines have moved: run python -m tests.paper"
    assert "examples/THE_PAPER.md" in README


def test_all_of_the_papers_model_and_training_is_in_it() -> None:
    places = " ".join(at for at, _, _ in paper.PAPER)
    sections = ("3.1", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "4", "5.1", "5.3", "5.4", "6.1", "6.2")
    named = (*sections, *(f"equation {n}" for n in (1, 2, 3)), "table 1", "table 3", "figure 1", "figure 2")
    assert not [name for name in named if not re.search(rf"(^|[ ,]){re.escape(name)}($|[ ,])", places)]


def test_links_lead_to_the_lines_that_they_name() -> None:
    links = re.findall(r"\[\S+:(\d+)\]\((\S+)#L(\d+)\) ([\w.]+)", paper.TABLE.read_text(encoding="utf-8"))
    assert len(links) == sum(len(places) for _, _, places in paper.PAPER + paper.WORDS)
    for shown, path, line, name in links:
        lines = (paper.TABLE.parent / path).read_text(encoding="utf-8").splitlines()
        assert shown == line and any(name.split(".")[-1] in text for text in lines[: int(line)])


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nn/nowhere.py:Block", "there is no tinygrad_tf/nn/nowhere.py"),
        ("nn/blocks.py:Block.backward", "tinygrad_tf/nn/blocks.py has no Block.backward"),
        ("nn/blocks.py:Block.forward|self.norm3(", "0 lines of Block.forward"),
        ("nn/blocks.py:Block.forward|return", "2 lines of Block.forward"),
    ],
)
def test_what_is_not_there_is_told(place: str, message: str) -> None:
    with pytest.raises(LookupError, match=re.escape(message)):
        paper.resolve(place)
