"""Instructions per operation beside throughput and CPU time."""

from typing import Any

import altair as alt
import polars as pl
from great_tables import GT

from rqps.view.rows import height_of, row_axis, slim, with_rows
from rqps.view.tables import plain_table
from rqps.view.theme import MUTED, by_host, coverage_of, rounds_of, titled

COLOURS = {"instructions": "#d55e00", "server CPU": "#0072b2"}
SHAPES = {"instructions": "diamond", "server CPU": "circle"}
NOT_COUNTED = (
    "Instructions are those of the server's own code while it works on a statement. What they do not show: what an "
    "instruction costs (caches missed, memory waited for), waits for a lock or a disk, clients that hinder each "
    "other, and the kernel's work. CPU time is the whole server's: it also holds the kernel's work for it "
    "and that of its threads in the background, which flush, purge and write the redo log."
)
_SMALL = f"font-size:11px;color:{MUTED};white-space:nowrap"
_SIGNS = {"agree": "= agree", "CPU grew more": "▲ CPU grew more", "CPU grew less": "▼ CPU grew less"}
_OF_ROW = ("row", "what", "ratio", "low", "high", "told")
_FEW = alt.Axis(tickCount=8)


def instructions_table(beside: pl.DataFrame) -> GT:
    """One row a step and dbms: instructions an operation, and their ratio to the base's beside that of CPU time."""
    rows = by_host(beside)
    cells = {
        "counted": pl.struct("me_instructions", "base_instructions").map_elements(_counts, pl.String),
        "instructions_ratio": pl.struct("instructions", "spread", "counted_rounds").map_elements(_exact, pl.String),
        **{f"{name}_ratio": _ratio(name) for name in ("cpu", "user_cpu", "per_instruction", "throughput")},
        "together": pl.col("agreement").replace(_SIGNS).fill_null("–"),
    }
    base = rows["base"][0]
    shown = rows.select("step", "dbms", *(cell.alias(name) for name, cell in cells.items()))
    table = plain_table(shown, "instructions", f"Relative to: {base}. {_rounds(rows)} {NOT_COUNTED}")
    return (
        table.tab_stub(rowname_col="dbms", groupname_col="step")
        .fmt(_as_it_is, columns=list(cells))
        .cols_align("right", columns=[name for name in cells if name != "together"])
        .cols_label(
            counted="instructions/o",
            instructions_ratio="instructions",
            cpu_ratio="server CPU",
            user_cpu_ratio="without kernel",
            per_instruction_ratio="CPU per instruction",
            throughput_ratio="rQPS",
            together="together",
        )
    )


def instructions_chart(beside: pl.DataFrame) -> Any:
    """One row a step and dbms: the ratio of instructions, and that of CPU time with its interval."""
    marks = with_rows(by_host(_marks(beside)))
    axis, height = row_axis(marks), height_of(marks)
    base = str(beside["base"][0])
    marks = slim(marks, *_OF_ROW)
    x = alt.X("ratio:Q", title=f"relative to {base}", scale=alt.Scale(zero=False, padding=14), axis=_FEW)
    domain = list(COLOURS)
    colour = alt.Color("what:N", title=None, scale=alt.Scale(domain=domain, range=list(COLOURS.values())))
    shape = alt.Shape("what:N", title=None, scale=alt.Scale(domain=domain, range=list(SHAPES.values())))
    told: list[Any] = ["row:N", "what:N", alt.Tooltip("ratio:Q", format=".3f"), alt.Tooltip("told:N", title="from")]
    one = alt.Chart(pl.DataFrame({"ratio": [1.0]})).mark_rule(color="#8a949c", strokeDash=[4, 3]).encode(x="ratio:Q")
    all_marks = alt.Chart(marks).encode(y=axis, tooltip=told)
    chart = alt.layer(
        one,
        all_marks.mark_rule(strokeWidth=5, opacity=0.4).encode(x="low:Q", x2="high:Q", color=colour),
        all_marks.mark_point(filled=True, size=75, opacity=1).encode(x=x, color=colour, shape=shape),
    ).properties(width="container", height=height)
    how = (
        f"Per operation, relative to {base}. A diamond is the ratio of counted instructions, a dot the median ratio "
        f"of the server's CPU time, the bar its interval. {_rounds(beside)}"
    )
    return titled(chart, _claim(beside), how, min_width_px=330)


def counted_table(counted: pl.DataFrame) -> GT:
    """Instructions per operation as they were counted: one row a step, dbms and round."""
    shown = by_host(counted).select("step", "dbms", "round", "value")
    return plain_table(shown, "counted", NOT_COUNTED, value="instructions/operation").fmt_integer("value")


def most_expensive_table(functions: pl.DataFrame) -> GT:
    """Functions by their own instructions."""
    shown = functions.drop("run")
    table = plain_table(shown, "most expensive", "Own instructions, without those of the functions that it calls.")
    return (
        table.tab_stub(rowname_col="function", groupname_col="step")
        .cols_label(
            instructions_per_operation="instructions/operation", calls_per_operation="calls/operation", share="share"
        )
        .fmt_integer("instructions_per_operation")
        .fmt_percent("share", decimals=1)
        .fmt_number("calls_per_operation", decimals=1)
    )


def _marks(beside: pl.DataFrame) -> pl.DataFrame:
    keys = ["host", "step", "position", "dbms", "base"]
    nothing = pl.lit(None, pl.Float64)
    counted = beside.select(
        *keys,
        pl.lit("instructions").alias("what"),
        pl.col("instructions").alias("ratio"),
        nothing.alias("low"),
        nothing.alias("high"),
        pl.format("{} rounds", "counted_rounds").alias("told"),
    )
    timed = beside.filter(pl.col("cpu").is_not_null()).select(
        *keys,
        pl.lit("server CPU").alias("what"),
        pl.col("cpu").alias("ratio"),
        pl.col("cpu_low").alias("low"),
        pl.col("cpu_high").alias("high"),
        pl.format("{} rounds", "cpu_n").alias("told"),
    )
    return pl.concat([counted, timed]).sort("host", "position", maintain_order=True)


def _claim(beside: pl.DataFrame) -> str:
    told = beside.filter(pl.col("agreement").is_not_null())
    if told.is_empty():
        return f"Instructions of {beside.height} pairs of a step and a dbms; no CPU time was measured beside."
    count = dict(told.group_by("agreement").len().rows())
    words = {"CPU grew more": "more", "CPU grew less": "less", "agree": "alike"}
    sure = [f"{word} in {count[agreement]}" for agreement, word in words.items() if agreement in count]
    if not sure:
        return f"Of {told.height} comparisons the rounds can't tell in any whether CPU time grew as instructions did."
    rest = f"; of {count['unsure']} the rounds can't tell" if "unsure" in count else ""
    return f"Beside instructions, CPU time grew {', '.join(sure)} of {told.height} comparisons{rest}."


def _rounds(beside: pl.DataFrame) -> str:
    counted = f"Instructions: {rounds_of(beside['counted_rounds'].to_list())}."
    timed = beside.filter(pl.col("cpu").is_not_null())
    if timed.is_empty():
        return counted
    sure = coverage_of(timed["cpu_coverage"].to_list())
    return f"{counted} CPU time and rQPS: median of {rounds_of(timed['cpu_n'].to_list())}, {sure}."


def _counts(row: dict[str, Any]) -> str:
    return f'{row["me_instructions"]:,.0f}<br><span style="{_SMALL}">base {row["base_instructions"]:,.0f}</span>'


def _exact(row: dict[str, Any]) -> str:
    rounds = f"±{row['spread']:.2%}" if row["spread"] is not None else "1 round"
    return f'<b>{row["instructions"]:.3f}</b><br><span style="{_SMALL}">{rounds}</span>'


def _ratio(name: str) -> pl.Expr:
    fields = pl.struct(
        pl.col(name).alias("ratio"), pl.col(f"{name}_low").alias("low"), pl.col(f"{name}_high").alias("high")
    )
    return fields.map_elements(_with_interval, pl.String)


def _with_interval(row: dict[str, Any]) -> str:
    if row["ratio"] is None:
        return "–"
    reach = "no interval" if row["low"] is None else f"{row['low']:.2f}–{row['high']:.2f}"
    return f'{row["ratio"]:.2f}<br><span style="{_SMALL}">{reach}</span>'


def _as_it_is(value: str | None) -> str:
    return value or "–"  # made above, from numbers
