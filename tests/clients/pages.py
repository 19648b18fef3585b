"""Blocks of pages of the guide, and what stands in them for something of the reader's own."""

import re

from siltstone import ROOT


def blocks(page, heading, language):
    """All blocks of that language below the heading of a page."""
    text = (ROOT / f"src/guide/{page}.md").read_text()
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.M | re.S)


def replaced(text, words):
    """The text with each word replaced; a word that does not stand in it is a mistake of the test."""
    for word, by in words.items():
        assert word in text, f"{word!r} is not in:\n{text}"
        text = text.replace(word, str(by))
    return text
