"""What a step's own numbers tell against it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rqps.store.manifest import Warning_
from rqps.workloads.insert_benchmark.answer import Second, total
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.steps import Step

RETRIES_WORTH_TELLING = 0.001
"""Of all that was begun."""
FEWEST_FOUND = 0.9
"""Of the rows that queries ask for: fewer, and most asked for rows that were deleted."""


def warnings_of(
    step: Step,
    parameters: InsertBenchmarkParameters,
    seconds: Sequence[Second],
    columns: Mapping[str, Any],
    deleted: int,
) -> Iterator[Warning_]:
    """The warnings of a step that came to its end; `deleted` are the rows that the server says it deleted."""
    if columns["target_held"] is False:
        yield Warning_(kind="rate not held", text=_not_held(step, parameters, seconds, columns), step=step.name)
    statements = sum(each.transactions for each in seconds if not each.kind.endswith("due"))
    share = columns["retries"] / max(1, columns["retries"] + statements)
    if share > RETRIES_WORTH_TELLING:
        text = (
            f"{share:.1%} of statements were refused, for a deadlock or a lock that was waited for too long, and "
            f"done again: {columns['retries']:,} beside {statements:,} that came to their end"
        )
        yield Warning_(kind="retries", text=text, step=step.name)
    if deleted < (due := total(seconds, "delete").operations):  # more may be: those of the server's own tables
        text = f"deletes found {deleted:,} rows, and {due:,} were to be deleted: the tables have grown"
        yield Warning_(kind="rows", text=text, step=step.name)
    asked = total(seconds, "query")
    if asked.transactions and (each := asked.found / asked.transactions) < FEWEST_FOUND * parameters.query_rows:
        text = f"a query found {each:.1f} rows on average, and asked for {parameters.query_rows}"
        yield Warning_(kind="rows", text=text, step=step.name)


def _not_held(
    step: Step, parameters: InsertBenchmarkParameters, seconds: Sequence[Second], columns: Mapping[str, Any]
) -> str:
    inserted, due = total(seconds, "insert").operations, parameters.clients * parameters.rows(step)
    text = (
        f"{inserted / columns['elapsed_s']:,.0f} rows were inserted in a second, and "
        f"{columns['target_per_s']:,.0f} were asked for"
    )
    if inserted < due:
        text += (
            f"; the step was ended after {columns['elapsed_s']:.1f} s, the limit being {parameters.limit_s:.0f} s, "
            f"with {inserted:,} of {due:,} rows"
        )
    return text
