"""Runs the load of a user's own step: writes its statements and values into a Lua file that sysbench executes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Unpack

from rqps.errors import RqpsError
from rqps.store.manifest import Warning_
from rqps.workloads import Answer, How
from rqps.workloads.answers import total
from rqps.workloads.load_generator import DATABASE
from rqps.workloads.own.parameters import OwnParameters
from rqps.workloads.own.sql_text import Statement
from rqps.workloads.own.statement_log import StatementLog
from rqps.workloads.own.steps import LARGEST, Scalar, StepSpec, ValuesSpec, limits
from rqps.workloads.sysbench import generator as sysbench
from rqps.workloads.sysbench.generator import read_seconds
from rqps.workloads.sysbench.steps import Step

GROUP = "Own statements"
MOST_VALUES = 100_000
"""Maximum number of values that are read from a column to fill in statements. If the column has more values, evenly
spaced ones are read."""
MOST_EXPLAINED = 100
"""Maximum number of statement shapes of a log that are explained. Statements of one shape differ only in values."""
ITEMS_AT_ONCE = 10_000
"""Maximum number of items in one function of the Lua file: LuaJIT allows 65,536 constants per function."""
_INTEGER = re.compile(r"(?:tiny|small|medium|big)?int\b")
"""Matches the type of a column of whole numbers."""


class Generator(sysbench.Generator):
    """A running sysbench that executes the transactions of a user's own step."""

    script = sysbench.LUA / "program.lua"

    def __init__(self, servers: Sequence[Any], name: str, parameters: OwnParameters, **how: Unpack[How]) -> None:
        program = how["log"].with_suffix(".lua")
        with closing(servers[0].connect(DATABASE)) as connection:
            program.write_bytes(program_of(connection, name, parameters))
        self.reads = not parameters.writes(name)
        self.statements = parameters.step(name).log
        self.slice_patience_s = 2.0 * len(servers) * parameters.patience_seconds
        super().__init__(
            servers, described(name, parameters, {"program": str(program)}), parameters.in_sysbench, **how
        )
        self.per_transaction = 1

    def _answer(self, step: str, columns: Mapping[str, Any], side: int) -> Answer:
        answer = super()._answer(step, columns, side)
        measured = total(read_seconds(self.lines, self.threads, step, 1, self.whole_within_s, side), step)
        if not measured.transactions:
            raise RqpsError(
                f"steps.{step}: {self.servers[side].name} completed no transaction within {self.seconds} s",
                fix="measure for more `seconds`, or see what the statement waits for",
            )
        warnings = [*answer.warnings]
        if self.reads and not measured.rows_found:
            text = f"none of {measured.transactions:,} transactions returned a row: do the values fit the tables?"
            warnings.append(Warning_(kind="no rows", text=text, step=step))
        if self.statements:
            warnings += _of_log(self.statements, step, measured.transactions if self.begins_by_itself else None)
        return replace(answer, warnings=tuple(warnings))


def _of_log(log: StatementLog, step: str, done: int | None) -> Iterator[Warning_]:
    """Warns of statements of a log that can't be replayed, or that the step did not reach."""
    if log.left_out:
        of = ", ".join(f"{count:,} {reason}" for reason, count in log.left_out.items())
        yield Warning_(kind="log", text=f"statements of {log.form} that are not replayed: {of}", step=step)
    if done is not None and done < len(log.statements):
        text = (
            f"{done:,} of the log's {len(log.statements):,} statements were replayed, a faster server replays more; "
        )
        yield Warning_(kind="log", text=f"{text}measure for more `seconds`, or take fewer by `most`", step=step)


def described(name: str, parameters: OwnParameters, options: dict[str, str | int | float]) -> Step:
    """Describes a user's own step as a step of the sysbench workload, whose generator runs the user's step, too."""
    of = [parameters.step(member) for member in parameters.members(name)]
    return Step(
        name=name,
        kind=name,
        group=GROUP,
        label=name,
        range_size=1,
        statements=("SELECT 1",) * max(len(step.statements) or 1 for step in of),
        options=options,
        unit="query" if all(len(step.statements) <= 1 for step in of) else "transaction",
    )


def program_of(connection: Any, name: str, parameters: OwnParameters) -> bytes:
    """The Lua file with the transactions of a step."""
    values, transactions = list[str](), list[str]()
    if log := parameters.step(name).log:
        listed = _list(_text(one.text) for one in log.statements)
        return f"{_JOIN}return {{values = {{}}, transactions = {{}}, log = {listed}}}\n".encode(
            "utf-8", "surrogateescape"
        )
    for member, weight in parameters.members(name).items():
        step, statements = parameters.step(member), list[str]()
        first = len(values)
        places = {value: first + number for number, value in enumerate(step.values, 1)}
        items = items_of(connection, step)
        values += [_value(connection, spec, items.get(value), places) for value, spec in step.values.items()]
        rows = step.least_and_most_rows
        for statement in step.statements:
            checked = ""
            if rows and statement.reads:
                most = "math.huge" if rows[1] is None else rows[1]
                checked = f", least = {rows[0]}, most = {most}, asked = {_text(str(step.rows))}"
            texts = ", ".join(map(_text, statement.texts))
            used = ", ".join(str(places[value]) for value in statement.names)
            prepared = str(step.prepared and _prepares(statement)).lower()
            statements.append(f"{{text = {{{texts}}}, values = {{{used}}}, prepared = {prepared}{checked}}}")
        draws = ", ".join(
            str(places[value]) for value in sorted(step.values, key=lambda one: bool(step.values[one].same_row_as))
        )
        transactions.append(f"{{weight = {weight}, draws = {{{draws}}}, statements = {{{', '.join(statements)}}}}}")
    body = f"return {{values = {{{', '.join(values)}}},\ntransactions = {{{', '.join(transactions)}}}}}\n"
    return (_JOIN + body).encode("utf-8", "surrogateescape")


_JOIN = """local function joined(...)
   local all = {}
   for _, part in ipairs({...}) do
      for _, item in ipairs(part()) do all[#all + 1] = item end
   end
   return all
end
"""


def items_of(connection: Any, step: StepSpec) -> dict[str, list[Scalar]]:
    """Maps the name of each placeholder that takes its values from a list or column to these values. Values of one
    row have the same position."""
    items: dict[str, list[Scalar]] = {}
    for name, spec in step.values.items():
        if spec.list:
            items[name] = list(spec.list)
        elif spec.column and not spec.same_row_as:
            together = [name, *(other for other, its in step.values.items() if its.same_row_as == name)]
            columns = [str(step.values[one].column) for one in together]
            rows = column_values(connection, columns)
            items |= {one: [row[place] for row in rows] for place, one in enumerate(together)}
    return items


def column_values(connection: Any, columns: Sequence[str]) -> list[tuple[Scalar, ...]]:
    """Rows of these columns of one table, at most MOST_VALUES, without rows in which a column is null."""
    sql, name = connection.dialect, columns[0].split(".")[0]
    table = sql.quoted(name)
    named = ", ".join(sql.quoted(column.split(".")[1]) for column in columns)
    some = " AND ".join(f"{sql.quoted(column.split('.')[1])} IS NOT NULL" for column in columns)
    try:
        ((count,),) = sql.query(connection, f"SELECT COUNT(*) FROM {table} WHERE {some}")
        rows = sql.query(connection, f"SELECT {named} FROM {table} WHERE {some} ORDER BY {named}")
    except sql.REFUSALS as error:
        raise RqpsError(
            f"values: column {columns[0]}: {': '.join(map(str, error.args))[:300]}",
            fix="name a table and a column that the dump has, as in orders.customer_id",
        ) from None
    if not rows:
        raise RqpsError(f"values: column {', '.join(columns)}: has no value", fix="name one that is not empty")
    described = (sql.described(connection, schema, name)[1] for schema in sql.schemas(connection, DATABASE))
    types: Mapping[str, str] = next(filter(None, described), {})
    are_integers = [bool(_INTEGER.match(types.get(column.split(".")[1], ""))) for column in columns]
    apart = max(1, -(-int(count) // MOST_VALUES))
    return [tuple(map(_scalar, row, are_integers)) for row in rows[::apart]]


def _scalar(value: Any, is_integer: bool) -> Scalar:
    """Converts a value, as a control connection returns it, to a number or a text. Some connections return integers
    as texts. A text of digits stays a text: compared with a number, it could use no index."""
    if is_integer:
        return int(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, int | float | str) and not isinstance(value, bool) else str(value)


def _value(connection: Any, spec: ValuesSpec, items: list[Scalar] | None, places: Mapping[str, int]) -> str:
    if items is None:
        low, high = limits(str(spec.range))
        words = [f"from = {low}", f"to = {high}"]
    elif all(isinstance(item, int) and abs(item) <= LARGEST for item in items):
        words = [f"items = {_list(map(str, items))}"]
    else:
        texts = list(map(str, items))
        longest = max(len(text.encode("utf-8", "surrogateescape")) for text in texts)
        literals = map(connection.dialect.literal, items)
        words = [f"items = {_list(map(_text, texts))}", f"form = ('x'):rep({longest})"]
        words += [f"literals = {_list(map(_text, literals))}"]
    words += [f"zipf = {spec.zipf}"] if spec.zipf else []
    words += [f"same_row_as = {places[spec.same_row_as]}"] if spec.same_row_as else []
    return f"{{{', '.join(words)}}}"


def _list(items: Iterable[str]) -> str:
    written = list(items)
    parts = (", ".join(written[at : at + ITEMS_AT_ONCE]) for at in range(0, len(written), ITEMS_AT_ONCE))
    return f"joined({', '.join(f'function() return {{{part}}} end' for part in parts)})"


def _text(text: str) -> str:
    r"""Quotes a text as a string literal of Lua.

    >>> print(_text("it's 5\n"))
    "it's 5\010"
    """
    escaped = "".join(f"\\{ord(sign):03}" if sign in '\\"' or ord(sign) < 32 else sign for sign in text)
    return f'"{escaped}"'


def _prepares(statement: Statement) -> bool:
    """True if a server can prepare the statement. BEGIN, COMMIT and the like are sent as text."""
    words = statement.texts[0].split(None, 1)
    return not words or words[0].upper().rstrip(";") not in {"BEGIN", "COMMIT", "ROLLBACK", "START", "SET", "CALL"}


def explained(connection: Any, name: str, parameters: OwnParameters) -> Iterator[tuple[str, str]]:
    """Yields each statement to explain, after the name of its step. Each placeholder gets the middle one of its
    possible values. For a log, yields each shape and the first statement of this shape."""
    literal = connection.dialect.literal
    for member in parameters.members(name):
        step = parameters.step(member)
        if log := step.log:
            by_shape = {one.digest: one for one in reversed(log.statements)}
            yield from ((one.shape, one.text) for one in list(by_shape.values())[:MOST_EXPLAINED])
        items = items_of(connection, step)
        middles = {value: items[value][len(items[value]) // 2] for value in items}
        middles |= {value: sum(limits(spec.range)) // 2 for value, spec in step.values.items() if spec.range}
        for statement in step.statements:
            yield member, statement.with_values({value: literal(middle) for value, middle in middles.items()})
