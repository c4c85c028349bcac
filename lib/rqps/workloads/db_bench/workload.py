"""The db-bench workload: the steps of db_bench on each set-up of a database."""

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from typing import Any, Unpack

from rqps.engines.rocksdb.build import locate
from rqps.engines.rocksdb.engine import Database, PreparedLibrary
from rqps.errors import RqpsError
from rqps.numbers import megabytes, sized
from rqps.store.manifest import Warning_
from rqps.store.schemas import STEPS
from rqps.study import BuildSpec
from rqps.workloads import Answer, How, Workload
from rqps.workloads.answers import by_second, interval_rows, latency_rows, read_seconds, step_columns, total
from rqps.workloads.db_bench import db_bench_output
from rqps.workloads.db_bench.generator import DbBench, Driver, folder_of, statuses
from rqps.workloads.db_bench.parameters import BYTES_OF_A_ROW, DbBenchParameters
from rqps.workloads.db_bench.steps import Step, find, setups, steps

CLIENT, WRITER = "client", "writer"
WRITES = "writes"
"""The value of `kind` for a background writer in the per-second tables."""
RATE_HELD = 0.95
WRITER_SEED = 20_240_229
"""The random seed for a database that one release writes for all others."""
WRITTEN_FOR_ALL = {"format_version": "4", "checksum_type": "3", "max_background_jobs": "2"}
"""Options of a database that every release from 6.0 on can read. A config may choose another format_version."""
SMALLEST_FILE_BYTES = 65536
NOT_OURS = tuple(name for name in STEPS if name.startswith("client_"))
"""Columns for the client, which stay null: load and engine are one process, whose counters are in the columns for
the server."""


class DbBenchSteps(Workload):
    stoppable = True

    def data_name(self, parameters: DbBenchParameters) -> str:
        """The name includes the release that writes the files, but not the release that reads them, since the files
        do not depend on the reading release."""
        if parameters.written_by is None:
            return "empty"
        keys = ("x".join((name, str(parameters.keys_of(setups()[name])))) for name in parameters.setups)
        usual = DbBenchParameters.model_fields["files"].default
        files = "" if parameters.files == usual else f"-in-{parameters.files}-files"
        return f"{'-'.join(keys)}{files}-by-{parameters.written_by}"

    def load(self, server: Database, parameters: DbBenchParameters) -> None:
        """Writes the databases of all set-ups if `written_by` is set; otherwise the first step of each run writes
        them."""
        if parameters.written_by is None:
            return
        build = locate("written_by", BuildSpec(rocksdb=parameters.written_by), print)
        for setup in (setups()[name] for name in parameters.setups):
            size = str(max(SMALLEST_FILE_BYTES, parameters.keys_of(setup) * BYTES_OF_A_ROW // parameters.files))
            sizes = {"write_buffer_size": size, "target_file_size_base": size}
            options = {**WRITTEN_FOR_ALL, **sizes, "max_bytes_for_level_base": str(4 * int(size))}
            if form := server.prepared.options.get("format_version"):
                options["format_version"] = form
            writer = replace(server, prepared=PreparedLibrary(f"written by {build.version}", "", build, options))
            folder_of(writer, setup).mkdir()
            for step in (steps()["fillseq"], replace(steps()["settle"], before="wait,compact,wait")):
                how: How = {"seed": WRITER_SEED, "cpus": (), "log": server.start.log}
                with Driver(writer, setup, step, parameters, **how) as load:
                    load.wait_for_all()

    def prepare(self, server: Database, parameters: DbBenchParameters) -> None:
        """Raises an error if the disk has no room for the largest database."""
        needed, free = parameters.disk_bytes, shutil.disk_usage(server.directory).free
        if needed > free:
            raise RqpsError(
                f"{server.name}: a database of this size needs about {megabytes(needed)} while it is written and "
                f"compacted, and the disk has {megabytes(free)} left",
                fix="ask for fewer keys, or set RQPS_SCRATCH to a folder on a larger disk",
            )

    def steps(self, parameters: DbBenchParameters) -> Sequence[str]:
        return parameters.measured

    def clients(self, step: str, parameters: DbBenchParameters) -> int:  # noqa: ARG002 the same in all steps
        return parameters.threads

    @contextmanager
    def generating(
        self, servers: Sequence[Database], step: str, parameters: DbBenchParameters, **how: Unpack[How]
    ) -> Iterator[Driver | DbBench]:
        """Runs the unmeasured steps that come before a step, then yields the load of the step itself."""
        (database,) = servers
        setup, described = find(step)
        if database.build.db_bench and parameters.written_by is not None:
            raise RqpsError(
                f"{database.name}: the build is a db_bench binary, so its steps can't run on a database that "
                "another build wrote",
                fix="take written_by out of the parameters, or give a library (librocksdb.so) as the build",
            )
        kind = DbBench if database.build.db_bench else Driver
        for number, earlier in enumerate(parameters.before(step)):
            log = how["log"].with_suffix(f".before{number}.log")
            preceding: How = {"seed": how["seed"] + number + 1, "cpus": how["cpus"], "log": log}
            with kind(database, setup, earlier, parameters, **preceding) as before:
                before.wait_for_all()
        if described.load == "fill":
            database.clear()
            folder_of(database, setup).mkdir()
        with kind(database, setup, described, parameters, **how) as load:
            yield load

    def answers(self, step: str, parameters: DbBenchParameters, load: Driver | DbBench) -> Sequence[Answer]:
        setup, described = find(step)
        columns: dict[str, Any] = {
            "kind": described.name,
            "clients": 1 if described.load == "fill" else parameters.threads,
            "group": setup.name,
            "table_position": parameters.measured.index(step),
            "writes": described.writes or described.writes_beside > 0,
            "unit": described.unit,
            "warmup_s": 0.0,
            **dict.fromkeys(NOT_OURS),
        }
        if isinstance(load, DbBench):
            return [db_bench_output.answer(step, columns, load)]
        return [_answer(step, described, columns, load)]

    def tools(self, parameters: DbBenchParameters, servers: int) -> dict[str, str]:  # noqa: ARG002 always the driver
        text = (files("rqps.engines.rocksdb") / "driver.c").read_bytes()
        return {"driver of RocksDB": hashlib.sha256(text).hexdigest()[:12]}


def _answer(step: str, described: Step, columns: dict[str, Any], load: Driver) -> Answer:
    seconds = read_seconds(load.lines)
    status = list(statuses(load.lines, step))
    elapsed_s = float(next(row["value"] for row in status if row["name"] == "elapsed_s"))
    stats = (line.removeprefix("stats| ") for line in load.lines if line.startswith("stats| "))
    status += [
        {"step": step, "moment": "after", "name": name, "value": value}
        for name, value in db_bench_output.read_stats(stats).items()
    ]
    main, written = total(seconds, CLIENT), total(seconds, WRITER)
    if main.rows_found != main.operations:
        raise RqpsError(
            f"{step}: {main.operations - main.rows_found:,} of {main.operations:,} keys were not found",
            fix="the database lost them: see its LOG, and report it to the maker of this release",
        )
    columns |= step_columns(main, elapsed_s, main.operations, 0)
    warnings = []
    if described.writes_beside:
        target, done = described.writes_beside / BYTES_OF_A_ROW, written.operations / elapsed_s
        columns |= {"target_per_s": target, "target_held": done >= RATE_HELD * target}
        if done < RATE_HELD * target:
            text = f"{sized(done)} rows/s were written beside it instead of {sized(target)}"
            warnings.append(Warning_(kind="target", text=text, step=step))
    kinds = {CLIENT: described.name, WRITER: WRITES}
    named = [replace(part, kind=kinds[part.kind]) for part in by_second(seconds)]
    more = {"status": status}
    return Answer(columns, interval_rows(step, named), latency_rows(step, named), tuple(warnings), more)


WORKLOAD = DbBenchSteps
