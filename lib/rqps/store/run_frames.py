"""Turns manifests into frames: the runs, their conditions and their warnings."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from rqps.numbers import memory
from rqps.store.manifest import Manifest, leaves
from rqps.store.schemas import IDENTITY, Columns
from rqps.study import Mode

Runs = Sequence[tuple[Path, Manifest]]
"""Folders of runs, each with its manifest."""

_OF_MANIFEST: Columns = {
    "unit": pl.String,
    "side": pl.String,  # null for a dbms that was measured alone
    "twin": pl.Boolean,
    "engine": pl.String,
    "mode": pl.String,
    "occasion": pl.Int32,
    "position": pl.Int32,
    "seed": pl.Int64,
    **dict.fromkeys(("workload", "identity", "version", "version_comment"), pl.String),
    **dict.fromkeys(("build_source", "build_digest", "rqps_version", "git_revision"), pl.String),
    **dict.fromkeys(("started_at", "ended_at"), pl.Datetime("ms", "UTC")),
    "layout": pl.Int32,  # null if the build was not linked again
    "elapsed_s": pl.Float64,
    "measured_s": pl.Float64,
    "outcome": pl.String,
    "error": pl.String,
}
RUNS: Columns = {
    **IDENTITY,
    **_OF_MANIFEST,
    "placement": pl.String,
    "machine": pl.String,
    "parameters": pl.String,  # JSON with sorted keys: equal parameters are equal texts
    "folder": pl.String,  # the path of the run's folder; for a packed study, relative to the study
}
OF_MODE: Columns = {name: RUNS[name] for name in ("mode", "twin", "host", "unit", "dbms")}
CPU_FACTS = {
    **{"family": "cpu_family", "model": "cpu_model_number", "stepping": "cpu_stepping"},
    **{"microcode": "microcode", "flags": "cpu_flags_sha256"},
}
"""Facts about a CPU that `machine_of` adds to the CPU's name, by the word that it writes before each.
Machines whose CPUs have the same name, but differ in such a fact, are different machines."""
FACT: Columns = dict.fromkeys(("kind", "name", "value"), pl.String)
WARNING: Columns = dict.fromkeys(("kind", "step", "text"), pl.String)


def runs_frame(runs: Runs) -> pl.DataFrame:
    """One row per run, sorted by host and by the run's position in the study."""
    rows = [
        {
            **{name: getattr(manifest, name) for name in (*IDENTITY, *_OF_MANIFEST)},
            "placement": manifest.placement.kind,
            "machine": machine_of(manifest.machine),
            "parameters": json.dumps(manifest.parameters, sort_keys=True),
            "folder": str(folder),
        }
        for folder, manifest in runs
    ]
    return in_order(pl.DataFrame(rows, schema=RUNS))


def of_mode(mode: Mode | None) -> pl.Expr:
    """An expression that is true for the runs of a mode, or for all runs if `mode` is None. `health` selects each
    twin and the base of its duet, and older duets of the base with itself; `throughput` excludes twins."""
    if mode is None:
        return pl.lit(True)
    if mode != "health":
        return (pl.col("mode") == mode) & ~pl.col("twin")
    twin_of = pl.when("twin").then("dbms").max().over("host", "unit")
    return (pl.col("mode") == mode) | ((pl.col("mode") == "throughput") & (pl.col("dbms") == twin_of))


def by_machine(runs: Runs) -> Runs:
    """The runs; if several machines have the same host name, the `host` of their runs is the name followed by
    `machine_of`."""
    several = Counter(host for host, _ in {(manifest.host, machine_of(manifest.machine)) for _, manifest in runs})
    return [
        (path, manifest.model_copy(update={"host": f"{manifest.host} ({machine_of(manifest.machine)})"}))
        if several[manifest.host] > 1
        else (path, manifest)
        for path, manifest in runs
    ]


def machine_of(facts: Mapping[str, Any]) -> str:
    """CPU, memory and kernel, which identify a host whatever its name. Virtual machines may give CPUs of several
    generations one name, so the numbers of family and model, the microcode and a digest of the CPU's flags are added
    if they are known.

    >>> machine_of({"cpu_model": "AMD EPYC", "memory_kb": 24684084, "kernel": "6.1", "load_1min": 0.7})
    'AMD EPYC, 24 GB, kernel 6.1'
    >>> machine_of({"cpu_model": "AMD EPYC", "cpu_family": "25", "cpu_model_number": "17", "microcode": "0xa101144"})
    'AMD EPYC (family 25, model 17, microcode 0xa101144)'
    """
    memory_kb, kernel, cpu = facts.get("memory_kb"), facts.get("kernel"), facts.get("cpu_model")
    numbers = [f"{word} {facts[name]}" for word, name in CPU_FACTS.items() if name in facts]
    cpu = f"{cpu} ({', '.join(numbers)})" if cpu and numbers else cpu
    known = (cpu, memory_kb and memory(memory_kb), kernel and f"kernel {kernel}")
    return ", ".join(str(value) for value in known if value)


def in_order(runs: pl.DataFrame) -> pl.DataFrame:
    return runs.sort("host", "position", "run")


def conditions_frame(runs: Runs) -> pl.DataFrame:
    """One row per run and fact. The name of a nested fact is its path: `cpu.model`."""
    whose = pl.DataFrame([identity(manifest) for _, manifest in runs], schema=IDENTITY)
    facts = [
        [(kind, name, _text(value)) for kind, of in _facts(manifest).items() for name, value in leaves(of)]
        for _, manifest in runs
    ]
    rows = pl.DataFrame(list(chain.from_iterable(facts)), schema=FACT, orient="row")
    counts = pl.Series([len(run_facts) for run_facts in facts], dtype=pl.UInt32)
    return whose.select(pl.all().repeat_by(counts).explode()).hstack(rows)


def warnings_frame(runs: Runs) -> pl.DataFrame:
    rows = [{**identity(manifest), **warning.model_dump()} for _, manifest in runs for warning in manifest.warnings]
    return pl.DataFrame(rows, schema={**IDENTITY, **WARNING})


def identity(manifest: Manifest) -> dict[str, Any]:
    """The columns that identify a run; `load` adds them to each row of the run's tables."""
    return {name: getattr(manifest, name) for name in IDENTITY}


def _facts(manifest: Manifest) -> dict[str, dict[str, Any]]:
    by_clients = {
        f"with {number} client{'' if number == 1 else 's'}": placed.model_dump()
        for number, placed in manifest.placements.items()
    }
    return {
        "option": manifest.options,
        "compiled": manifest.compiled,
        "parameter": manifest.parameters,
        "placement": manifest.placement.model_dump() | by_clients,
        "machine": manifest.machine,
        "tool": {"rqps": manifest.rqps_version, "revision": manifest.git_revision, **manifest.tools},
    }


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return None if value is None else str(value)
