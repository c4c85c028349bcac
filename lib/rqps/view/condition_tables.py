"""Tables of what stood around the numbers: builds, settings, conditions, warnings."""

import re
from collections.abc import Sequence
from html import escape

import polars as pl
from great_tables import GT

from rqps.view.tables import plain_table, styled
from rqps.view.text import Sentences
from rqps.view.theme import by_host

LONGEST_VALUE = 24
MANY_ALIKE = 3
"""Steps of a dbms with the same warning but for its numbers, above which they share a row."""
_NUMBER = r"\d[\d,]*(?:\.\d+)?"


def builds_table(builds: pl.DataFrame) -> GT:
    """The servers that answered."""
    named = {"version_comment": "calls itself", "build_source": "source", "options": "options that differ"}
    note = "sha256: the first 12 digits of the digest of the mysqld file. Options: those with two values."
    return plain_table(builds, "builds", note, **named)


def differences_table(differences: pl.DataFrame) -> GT | Sentences:
    """One row a setting, one column a dbms; where a dbms has the base's value its cell is empty."""
    if differences.is_empty():
        return Sentences(["None: all settings that no config asks for are alike."])
    rows = by_host(differences).with_columns(pl.col("base_value", "value").map_elements(_short, pl.String))
    base = str(rows["base"][0])
    wide = rows.pivot("dbms", index=["name", "base_value"], values="value", maintain_order=True).sort("name")
    shown = [name for name in wide.columns if name != "name"]
    note = f"An empty cell: the same as {base}. Hover over a value that is cut off."
    return (
        styled(wide, "differences")
        .cols_label({"base_value": base})
        .fmt(_as_told, columns=shown)
        .tab_source_note(note)
    )


def warnings_table(warnings: pl.DataFrame) -> GT:
    """One row a warning: what is the matter, and whom it concerns; the same thing is said once.

    Where many steps of a dbms say the same but for its numbers, one row has their reach.
    """
    if warnings.is_empty():
        return styled(pl.DataFrame({"kind": ["none"], "text": ["No run gave a warning."]}), "warnings")
    form = pl.col("text").str.replace_all(_NUMBER, "#")
    steps = pl.col("step").n_unique().over("kind", "host", "dbms", form)
    many = steps > MANY_ALIKE
    rows = (
        warnings.with_columns(
            pl.when(many).then(pl.format("{} steps", steps)).otherwise("step").fill_null("all").alias("step"),
            pl.when(many).then(form).otherwise("text").alias("said"),
            pl.col("dbms").fill_null("all"),
        )
        .group_by("kind", "host", "dbms", "step", "said", maintain_order=True)
        .agg("text", pl.col("round").drop_nulls().unique().sort())
        .sort("kind", maintain_order=True)
    )
    rounds = pl.col("round").cast(pl.List(pl.String)).list.join(", ").replace("", "all")
    text = pl.col("text").map_elements(_with_reach, pl.String)
    return styled(rows.select("kind", "host", "dbms", "step", text, rounds.alias("rounds")), "warnings")


def _with_reach(texts: Sequence[str]) -> str:
    """Texts that are the same but for their numbers as one, with each number from lowest to highest.

    >>> _with_reach(["others kept 16% of a CPU", "others kept 101% of a CPU", "others kept 42% of a CPU"])
    'others kept 16 to 101% of a CPU'
    """
    numbers = zip(*(re.findall(_NUMBER, text) for text in texts), strict=True)
    reach = iter([sorted(set(each), key=lambda number: float(number.replace(",", ""))) for each in numbers])

    def told(_: re.Match[str]) -> str:
        found = next(reach)
        return " to ".join(dict.fromkeys((found[0], found[-1])))

    return re.sub(_NUMBER, told, texts[0])


def conditions_table(conditions: pl.DataFrame) -> GT:
    """What all runs of a host had in common, grouped by what it is about."""
    rows = conditions.with_columns(pl.col("value").fill_null("not known"))
    if rows["host"].n_unique() < 2:
        rows = rows.drop("host")
    return styled(rows, "conditions", groupname_col="kind", rowname_col="name")


def _as_told(value: str | None) -> str:
    return value or ""


def _short(value: str) -> str:
    """A value as text, cut where it is longer than a cell should be."""
    if len(value) <= LONGEST_VALUE:
        return escape(value) or "(empty)"
    return f'<span title="{escape(value)}">{escape(value[:LONGEST_VALUE])}…</span>'
