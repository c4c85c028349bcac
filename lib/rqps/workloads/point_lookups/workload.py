"""The point lookups."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, Unpack

from rqps.engines.mysql.instance import Server
from rqps.engines.mysql.reports import check_connections
from rqps.errors import RqpsError
from rqps.store.manifest import Warning_
from rqps.workloads.point_lookups import table
from rqps.workloads.point_lookups.generator import Generator, Report, ask_once, complaints, failed, read_report
from rqps.workloads.point_lookups.mysqlslap import mysqlslap
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.point_lookups.steps import VOLATILE, Step, find
from rqps.workloads.protocol import Answer, Checked, How

SHORTEST_REPORTED_S = 0.1
"""Below it, mysqlslap's milliseconds are too coarse; our own clock is taken, which counts its shell, too."""
CLOCKS_DIFFER_S, CLOCKS_DIFFER_SHARE = 0.05, 0.02
"""The two clocks may differ by that much."""


class PointLookups:
    def data_name(self, parameters: PointLookupsParameters) -> str:
        kept = "-".join(sorted(_kept(parameters))) or "none"
        return f"point-lookups-{kept}-{parameters.table_rows}"

    def load(self, server: Server, parameters: PointLookupsParameters) -> None:
        for engine in _kept(parameters):
            table.make(server, engine, parameters.table_rows)

    def prepare(self, server: Server, parameters: PointLookupsParameters) -> None:
        with closing(server.connect()) as connection:
            check_connections(connection, parameters.connections)
        slap = mysqlslap(parameters.mysqlslap)
        for engine in parameters.engines:
            if engine in VOLATILE:
                table.make(server, engine, parameters.table_rows)
            table.check_rows(server, engine, parameters.table_rows)
            first = find(f"{engine}.{parameters.kinds[0]}@1")
            ask_once(slap, server, first, queries=1, cpus=())

    def steps(self, parameters: PointLookupsParameters) -> Sequence[str]:
        return parameters.steps

    def clients(self, step: str, parameters: PointLookupsParameters) -> int:  # noqa: ARG002 the name has it
        return find(step).clients

    def check(self, server: Server, step: str, parameters: PointLookupsParameters) -> Checked:  # noqa: ARG002
        return table.check_plan(server, find(step))

    def generating(
        self, server: Server, step: str, parameters: PointLookupsParameters, **how: Unpack[How]
    ) -> AbstractContextManager[Generator]:
        return self._asking(server, find(step), parameters, parameters.queries_of, how)

    def counting(
        self, server: Server, step: str, parameters: PointLookupsParameters, **how: Unpack[How]
    ) -> AbstractContextManager[Generator]:
        return self._asking(server, find(step), parameters, parameters.counted_of, how)

    @contextmanager
    def _asking(
        self,
        server: Server,
        step: Step,
        parameters: PointLookupsParameters,
        queries_of: Callable[[int, bool], int],
        how: How,
    ) -> Iterator[Generator]:
        """The load of a step after its warm-up; how many queries it has depends on whether each reads all rows."""
        slap, scans, warmup_s = mysqlslap(parameters.mysqlslap), table.reads_whole_table(server, step), 0.0
        if parameters.warmup_queries:
            queries = 1 if scans else parameters.warmup_queries
            warmup_s = ask_once(slap, server, step, queries=queries, cpus=how["cpus"])
        with Generator(slap, server, step, queries_of(step.clients, scans), **how) as load:
            load.warmup_s = warmup_s
            yield load

    def answer(self, step: str, parameters: PointLookupsParameters, load: Generator) -> Answer:
        report, clients = read_report(load.lines), load.step.clients
        if report is None or (report.clients, report.queries) != (clients, load.queries):
            raise RqpsError(
                f"{step}: mysqlslap did not report {clients} clients with {load.queries} queries each: {report}",
                fix=f"read all that it said, {load.log.name}",
            )
        coarse = report.elapsed_s < SHORTEST_REPORTED_S
        elapsed_s = load.elapsed_s if coarse else report.elapsed_s
        asked = clients * load.queries
        done = min(asked, load.counted.selects - failed(load.lines))
        columns: dict[str, Any] = {
            "kind": load.step.kind.name,
            "clients": clients,
            "group": load.step.group,
            "table_position": parameters.steps.index(step),
            "writes": False,
            "storage_engine": load.step.engine,
            "unit": "query",
            "warmup_s": load.warmup_s,
            "elapsed_s": elapsed_s,
            "operations": done,
            "transactions": done,
            "operations_per_s": done / elapsed_s if done else None,
            "errors": asked - done + load.counted.refused,
            "client_context_switches": None,  # its threads have ended, and their counts with them
            **({"server_context_switches": None} if load.counted.threads_ended else {}),
        }
        return Answer(columns=columns, intervals=[], latencies=[], warnings=tuple(_warnings(step, report, load)))

    def tools(self, parameters: PointLookupsParameters) -> dict[str, str]:
        return {"mysqlslap": mysqlslap(parameters.mysqlslap).words}


def _kept(parameters: PointLookupsParameters) -> list[str]:
    """Engines whose rows are there again when a server starts on a copy of the loaded data."""
    return [engine for engine in parameters.engines if engine not in VOLATILE]


def _warnings(step: str, report: Report, load: Generator) -> Iterator[Warning_]:
    asked = report.clients * report.queries
    done = load.counted.selects - failed(load.lines)
    if done != asked:
        said = "; ".join(complaints(load.lines)) or "mysqlslap says nothing of it"
        text = f"{asked} queries were asked for, the server did {done}: {said}"
        yield Warning_(kind="errors", text=text, step=step)
    if load.counted.refused:
        text = f"{load.counted.refused} connections were refused and tried again 0.1 s later: the time is too long"
        yield Warning_(kind="errors", text=text, step=step)
    if report.elapsed_s < SHORTEST_REPORTED_S:
        text = (
            f"all took {report.elapsed_s:.3f} s, which mysqlslap reports in whole milliseconds only; "
            "ours are taken, with a few ms for its shell: ask for more queries"
        )
        yield Warning_(kind="short", text=text, step=step)
    elif abs(load.elapsed_s - report.elapsed_s) > CLOCKS_DIFFER_S + CLOCKS_DIFFER_SHARE * report.elapsed_s:
        text = (
            f"mysqlslap reports {report.elapsed_s:.3f} s, and {load.elapsed_s:.3f} s went by for us: "
            "its shell had to wait for a CPU, or the clock was set"
        )
        yield Warning_(kind="clock", text=text, step=step)
