"""Long texts, each below its heading, which a page folds away."""

from collections.abc import Mapping
from html import escape


class Folded:
    """Shown with its headings, each of which opens its text; as lines elsewhere. What is in it stays text."""

    def __init__(self, note: str, texts: Mapping[str, str]) -> None:
        self.note = note
        self.texts = dict(texts)

    def __repr__(self) -> str:
        return "\n\n".join([self.note, *(f"{heading}\n{text}" for heading, text in self.texts.items())])

    def _repr_html_(self) -> str:
        parts = [
            f"<details class='long' style='margin:4px 0'><summary>{escape(heading)}</summary>"
            f"<pre class='text' style='overflow-x:auto'>{escape(text)}</pre></details>"
            for heading, text in self.texts.items()
        ]
        return f"<p>{escape(self.note)}</p>{''.join(parts)}"
