"""The workload of a user's own statements and tables, run by sysbench with the Lua scripts of rqps."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Unpack

from rqps.engines.sources.programs import sysbench
from rqps.errors import RqpsError
from rqps.workloads import Answer, Checked, How, Workload
from rqps.workloads.load_generator import DATABASE
from rqps.workloads.own import generated_tables, tables_file
from rqps.workloads.own.generator import Generator, described, explained
from rqps.workloads.own.parameters import OwnParameters

PATIENCE_S = 3600.0
EXPLAINED = re.compile(r"[\s(]*(?:SELECT|WITH|UPDATE|DELETE|INSERT|REPLACE|VALUES|TABLE)\b", re.IGNORECASE)


class Own(Workload):
    def data_name(self, parameters: OwnParameters) -> str:
        return f"own-{parameters.digest}"

    def load(self, server: Any, parameters: OwnParameters) -> None:
        if isinstance(parameters.tables, str):
            tables_file.load(server, DATABASE, tables_file.unchanged(parameters.tables, str(parameters.digest)))
        else:
            generated_tables.load(server, DATABASE, parameters.tables)

    def prepare(self, server: Any, parameters: OwnParameters) -> None:
        """Read every page of all tables, so that a round does not begin with an empty buffer pool."""
        with closing(server.connect(patience_s=PATIENCE_S)) as connection:
            sql = connection.dialect
            sql.check_connections(connection, parameters.connections)
            for schema, table in tables_file.tables_of(connection, DATABASE):
                _, columns, indexes = sql.described(connection, schema, table)
                leads_to = {index: parts[0] for index, parts in indexes.items() if parts and parts[0] in columns}
                sql.read_whole(connection, f"{sql.quoted(schema)}.{sql.quoted(table)}", leads_to)

    def steps(self, parameters: OwnParameters) -> Sequence[str]:
        return list(parameters.every)

    def clients(self, step: str, parameters: OwnParameters) -> int:  # noqa: ARG002 the same in all steps
        return parameters.threads

    def places_connections(self, servers: int) -> bool:  # noqa: ARG002
        return True

    def check(self, server: Any, step: str, parameters: OwnParameters) -> Checked:
        """The plans of a step's statements. Plans may differ between servers, which is a finding and not an error."""
        plans: list[dict[str, Any]] = []
        with closing(server.connect(DATABASE)) as connection:
            sql = connection.dialect
            for member, statement in explained(connection, step, parameters):
                if EXPLAINED.match(statement):
                    try:
                        # Means leave out a step if its plan uses none of its possible keys. For the user's own
                        # statements a full scan may be right: `possible_keys` is null, so means include the step.
                        rows = sql.plan(connection, step, statement)
                        plans += [
                            row | {"possible_keys": None, "statement": _readable(row["statement"])} for row in rows
                        ]
                    except sql.REFUSALS as error:
                        words = ": ".join(map(str, error.args))[:300]
                        of_log = parameters.step(step).file
                        place, shown = (step, member) if of_log else (member, statement)
                        raise RqpsError(
                            f"steps.{place}: {server.name} refuses {shown[:200]!r}: {words}",
                            fix="correct the statement or its values; tables are those of the dump",
                        ) from None
        return Checked(plans=tuple(plans))

    @contextmanager
    def generating(
        self, servers: Sequence[Any], step: str, parameters: OwnParameters, **how: Unpack[How]
    ) -> Iterator[Generator]:
        with Generator(servers, step, parameters, **how) as load:
            yield load

    def answers(self, step: str, parameters: OwnParameters, load: Generator) -> Sequence[Answer]:
        as_sysbench = described(step, parameters, {})
        columns = {
            "kind": step,
            "group": as_sysbench.group,
            "table_position": list(parameters.every).index(step),
            "writes": parameters.writes(step),
            "unit": as_sysbench.unit,
        }
        return load.answers(step, columns)

    def tools(self, parameters: OwnParameters, servers: int) -> dict[str, str]:  # noqa: ARG002 always sysbench
        return {"sysbench": sysbench().version}


def _readable(text: str) -> str:
    """The text with a question mark in a diamond for each byte of a log that is not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


WORKLOAD = Own
