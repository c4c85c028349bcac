"""Sentences in a notebook, shown as a list."""

from collections.abc import Sequence
from html import escape


class Sentences:
    """Shown as a list in a notebook and on a page, as lines elsewhere. Names in them stay text."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self.sentences = tuple(sentences)

    def __repr__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self.sentences)

    def _repr_html_(self) -> str:
        return f"<ul class='findings'>{''.join(f'<li>{escape(each)}</li>' for each in self.sentences)}</ul>"
