"""A user's own step as runs.yaml describes it: its statements, their values, and the number of rows they return."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from rqps.engines import Strict
from rqps.errors import RqpsError
from rqps.study import Count
from rqps.workloads.own.sql_text import Statement, parse
from rqps.workloads.own.statement_log import StatementLog, log_of
from rqps.workloads.own.tables_file import digest_of, find, unchanged

Scalar = str | int | float
_RANGE = re.compile(r"\s*(-?\d+)\s*\.\.\s*(-?\d+)\s*")
_ROWS = re.compile(r"(\d+)(?:\.\.(\d*))?")
_COLUMN = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
LARGEST = 2**53
"""The largest whole number that is allowed: LuaJIT can't represent every larger one exactly."""
WIDEST = 2**32 - 1
"""Maximum number of values from which sysbench can take one at random."""
MOST_LOGGED, MOST_ALONE = 10_000, 8


def limits(text: str) -> tuple[int, int]:
    """
    >>> limits("1..100000")
    (1, 100000)
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no range; write one such as 1..100000")
    low, high = int(match[1]), int(match[2])
    if low > high or max(-low, high) > LARGEST or high - low >= WIDEST:
        raise ValueError(f"{text!r} is no range: write the smaller number first; up to 2^53, and 2^32 wide")
    return low, high


def _of_range(text: str) -> str:
    limits(text)
    return text


def _column(text: str) -> str:
    if not _COLUMN.fullmatch(text):
        raise ValueError(f"{text!r} is no column; write TABLE.COLUMN, such as orders.customer_id")
    return text


def values(given: Any) -> Any:
    """Expands the short form of a range, a column or a list."""
    if isinstance(given, list):
        return {"list": given}
    if isinstance(given, str):
        return {"range" if _RANGE.fullmatch(given) else "column": given}
    return given


class _Given(Strict):
    """A step or a part of one. Keys that are not given are not stored, so a key that a later rqps adds does not
    change the stored parameters of older studies."""

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value not in (None, {})}


class ValuesSpec(_Given):
    """The possible values for a placeholder: each transaction takes one at random, from a range, list or column."""

    range: Annotated[str, AfterValidator(_of_range)] | None = None
    """The smallest and the largest whole number, such as 1..100000."""
    list: Annotated[tuple[Scalar, ...], Field(strict=False, min_length=1)] | None = None
    """The numbers or texts; a text is sent as a string value, never as SQL."""
    column: Annotated[str, AfterValidator(_column)] | None = None
    """A column, such as orders.customer_id, whose value is taken from a random row: a value in more rows is taken
    more often."""
    same_row_as: str | None = None
    """The name of another value: both come from the same row of a table, or from the same position of two lists."""
    zipf: Annotated[float, Field(gt=0, le=4)] | None = None
    """Exponent s of Zipf's law: the nth value is taken with a probability proportional to 1/n^s. If not given, all
    values are equally likely."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in ("range", "list", "column") if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError("values are a range, a list or a column: write one of them, such as 1..100000")
        if self.zipf == 1:
            raise ValueError("zipf: 1 has no such sampler here; write 0.99 or 1.01")
        if self.same_row_as and (self.zipf or self.range):
            raise ValueError("same_row_as takes the row of the other value: no range, and no zipf beside it")
        return self


def _rows(text: Any) -> str:
    match = _ROWS.fullmatch(str(text))
    if match is None or (match[2] and int(match[2]) < int(match[1])):
        raise ValueError(f"{text!r} is no number of rows; write 1, or 0..10, or 1.. for one or more")
    return str(text)


_PLAIN = {"type": ["string", "array"], "items": {"type": ["string", "number"]}}
Values = Annotated[ValuesSpec, BeforeValidator(values)]
Rows = Annotated[
    str, BeforeValidator(_rows), WithJsonSchema({"type": ["integer", "string"], "pattern": r"^\d+(\.\.\d*)?$"})
]


class StepSpec(_Given):
    """A step: a transaction of one or more statements; or the statements of a log in their order; or a mix of other
    steps."""

    sql: Annotated[str, Field(min_length=1, examples=["SELECT * FROM orders WHERE id = ?"])] | None = None
    """One statement, or several with semicolons between them. A question mark or {name} is a placeholder for a
    value."""
    values: dict[str, Values] = Field(default_factory=dict)
    """Maps the name of each placeholder to its possible values, of which each transaction takes one at random. Each ?
    takes the next name in this order."""
    rows: Rows | None = None
    """The number of rows that each reading statement has to return, such as 1, 0..10, or 1.. for one or more. The run
    fails if a statement returns another number of rows."""
    prepared: bool = True
    """If true, statements are prepared once and executed with their values; if false, they are sent as text."""
    mix: Annotated[dict[str, Count], Field(min_length=1)] | None = None
    """Instead of sql: maps names of other steps to their weights. Each transaction runs one of these steps at
    random."""
    file: Annotated[str, Field(min_length=1, examples=["slow.log"])] | None = None
    """Instead of sql: a log whose statements are replayed in their order. MySQL's slow or general log, PostgreSQL's
    log, or SQL; gzipped or not. The path is absolute, or relative to the folder of runs.yaml."""
    digest: str | None = None
    """The first digits of the SHA-256 of `file`. rqps adds this key: results from another log are not comparable."""
    reads_only: bool | None = None
    """If true, writing statements of the log are left out."""
    most: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Maximum number of statements that are taken from the beginning of the log; 10,000 if not given."""
    alone: Annotated[int, Field(ge=0, le=100)] | None = None
    """Maximum number of the log's most frequent statement shapes that are also measured as steps of their own; 8 if
    not given. The names of these steps end with the digest of the shape: replay.select-orders-1a2b3c4d."""
    only: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")] | None = None
    """The digest of a shape: only the statements of this shape are executed."""

    @model_validator(mode="before")
    @classmethod
    def _with_the_digest(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("file"), str) and not given.get("digest"):
            return {**given, "digest": digest_of(find(given["file"]))}
        return given

    @model_validator(mode="after")
    def _can_be_done(self) -> Self:
        if [self.sql, self.mix, self.file].count(None) != 2:
            raise ValueError("a step has either sql, a file of statements, or a mix of other steps")
        if self.file and (self.values or self.rows):
            raise ValueError("a file of statements has no values and no rows: its statements are done as they are")
        if not self.file and (self.reads_only or self.only):
            raise ValueError("reads_only and only belong to a step with a file of statements")
        if self.mix and (self.values or self.rows):
            raise ValueError("a mix has no values and no rows of its own; they stand with its steps")
        if self.sql and not self.statements:
            raise ValueError("sql has no statement")
        for name, spec in self.values.items():
            other = self.values.get(spec.same_row_as or name)
            if other is None or (spec.same_row_as and other.same_row_as):
                raise ValueError(f"{name}: same_row_as: {spec.same_row_as!r} is no value that is drawn by itself")
            if spec.same_row_as and _table(other) != _table(spec):
                raise ValueError(f"{name}: same_row_as: {spec.same_row_as!r} is of another table or length")
        return self

    @property
    def statements(self) -> list[Statement]:
        return [] if self.file else parse(self.sql or "", list(self.values))

    @property
    def log(self) -> StatementLog | None:
        """The statements of the step's file; None if the step has no file."""
        return logged(self) if self.file else None

    @property
    def logged_alone(self) -> "dict[str, StepSpec]":
        """Steps for the most frequent shapes of the log, by the name of the shape."""
        if self.file is None or self.only:
            return {}
        shapes = logged(self).most_frequent(MOST_ALONE if self.alone is None else self.alone)
        return {one.name: self.model_copy(update={"only": one.digest}) for one in shapes}

    @property
    def writes(self) -> bool:
        """True if a statement may change rows."""
        if self.log:
            return not all(one.reads for one in self.log.statements)
        controls = ("BEGIN", "COMMIT", "START", "ROLLBACK", "SET", "")
        texts = (statement.texts[0].split(None, 1) for statement in self.statements if not statement.reads)
        return any((words or [""])[0].upper() not in controls for words in texts)

    @property
    def least_and_most_rows(self) -> tuple[int, int | None] | None:
        """
        >>> StepSpec(sql="SELECT 1", rows="1..").least_and_most_rows
        (1, None)
        """
        if self.rows is None or (match := _ROWS.fullmatch(self.rows)) is None:
            return None
        least = int(match[1])
        return least, least if match[2] is None else int(match[2]) if match[2] else None


def _table(spec: ValuesSpec) -> str | int:
    return len(spec.list) if spec.list else str(spec.column).split(".")[0]


def does(row: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """The statements of a step, the steps that it mixes, or the log that it replays."""
    name = row["step"]
    given = parameters["steps"].get(name) or parameters["steps"][name.partition(".")[0]]
    step: Mapping[str, Any] = {"sql": given} if isinstance(given, str) else given
    mixed = [f"{weight} x {of}" for of, weight in (step.get("mix") or {}).items()]
    return str(step.get("sql") or f"{'A mix of ' * bool(mixed)}{', '.join(mixed)}" or f"Statements of {step['file']}")


def logged(step: StepSpec) -> StatementLog:
    """The statements of a step's file; if the step has `only`, the statements of that shape."""
    path = unchanged(str(step.file), str(step.digest), "file")
    log = log_of(path, str(step.digest), step.most or MOST_LOGGED, reads_only=bool(step.reads_only))
    taken = tuple(one for one in log.statements if step.only in (None, one.digest))
    if not taken:
        reasons = "".join(f"; {count:,} {reason}" for reason, count in log.left_out.items())
        of_shape = f" of the shape {step.only}" * bool(step.only and log.statements)
        raise RqpsError(
            f"{path}: read as {log.form}, has no statement{of_shape} that can be replayed{reasons}",
            fix="give a slow log, a general log, a log of PostgreSQL with log_statement=all, or SQL",
        )
    return log._replace(statements=taken)


def _step(given: Any) -> Any:
    return {"sql": given} if isinstance(given, str) else given


Step = Annotated[StepSpec, BeforeValidator(_step)]


def work_of(_: Mapping[str, Any]) -> str:
    """Empty: a user's own statements have no kind of work."""
    return ""
