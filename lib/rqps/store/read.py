"""Reads studies as plain polars frames; the first columns of each frame identify the run of a row."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

from rqps.errors import RqpsError
from rqps.store.manifest import (
    CARD,
    LEVELS,
    MANIFEST,
    StudyCard,
    check_files,
    finished,
    finished_runs,
    read_manifest,
    read_study_card,
    study_folder,
)
from rqps.store.packed import SUFFIX, packed_at
from rqps.store.run_frames import OF_MODE, Runs, by_machine, conditions_frame, of_mode, runs_frame, warnings_frame
from rqps.store.run_tables import manifests, run_table
from rqps.store.schemas import TABLES
from rqps.study import Mode


@dataclass(frozen=True, eq=False)
class Study:
    """The runs of a study in one mode. Small frames are read at once; big ones are lazy: call `.collect()`."""

    card: StudyCard
    place: str
    """The study's folder, file or URL, which `load` accepts."""
    runs: pl.DataFrame
    """One row per finished run. `looks` and `smallest_effect` are the study's settings for verdicts; `listed` is the
    position of the dbms in the study's list."""
    failed: pl.DataFrame
    """One row per failed attempt, with its error."""
    conditions: pl.DataFrame
    """One row per run and fact: options, parameters, placement, machine, tools."""
    warnings: pl.DataFrame
    """The warnings of the runs."""
    manifests: pl.LazyFrame
    """The manifest of each run as it was written."""
    steps: pl.DataFrame
    slices: pl.LazyFrame
    """The slices of a duet's servers; empty without duets."""
    cycles: pl.LazyFrame
    """For each cycle of a duet, the CPU time that went to other processes. Empty in older runs, and if the kernel
    does not count idle time."""
    intervals: pl.LazyFrame
    latencies: pl.LazyFrame
    counters: pl.LazyFrame
    machine_state: pl.LazyFrame
    """The time of a CPU cycle and the latency of memory, before and after each step; empty in older runs."""
    status: pl.LazyFrame
    settings: pl.LazyFrame
    plans: pl.LazyFrame
    """The query plans that EXPLAIN gave before each step."""
    stacks: pl.LazyFrame
    """Call stacks: of samples in mode `stacks`, of waits in mode `waits`; empty in other modes."""
    threads: pl.LazyFrame
    """Running and waiting time of the server's threads; only runs in modes `stacks` and `waits` have this table."""
    instructions: pl.LazyFrame
    """Instructions by call stack; only runs in mode `instructions` have this table."""
    cache_misses: pl.LazyFrame
    """Simulated cache misses by call stack; only runs in mode `instructions` of a study with `caches` have this
    table."""
    clients: pl.LazyFrame
    """Operations of each client in each second; only the insert benchmark has this table."""
    engine: pl.LazyFrame
    """Deferred work of the storage engine before and after each step; only the insert benchmark has this table."""

    def __post_init__(self) -> None:
        judged_by = {"looks": pl.lit(self.card.looks, pl.Int32), "smallest_effect": pl.lit(self.card.smallest_effect)}
        order = {dbms: place for place, dbms in enumerate(self.card.dbms)}
        listed = pl.col("dbms").replace_strict(order, default=len(order), return_dtype=pl.Int32)
        object.__setattr__(self, "runs", self.runs.with_columns(**judged_by, listed=listed))
        engines = self.runs.select("run", "engine")
        steps = self.steps.join(engines, on="run", how="left", maintain_order="left")
        object.__setattr__(self, "steps", steps)
        # Tables of functions get the column `engine`, since each engine assigns its functions to components.
        for name in ("stacks", "instructions", "cache_misses"):
            table = getattr(self, name).join(engines.lazy(), on="run", how="left", maintain_order="left")
            object.__setattr__(self, name, table)

    @property
    def configs(self) -> dict[str, str]:
        """Maps each dbms that has runs to its config."""
        return dict(self.runs.select("dbms", "config").iter_rows())


def load(study: str | Path, data: str | Path | None = None, mode: Mode | None = "throughput") -> Study:
    """Read a study. `study` is its name in `data` (or $RQPS_DATA, or the nearest data folder), in raw/ or else in
    sample/; or a folder, a packed file (`releases.rqps`), or the URL of a packed folder (`s3://…/study=releases`).

    `mode` selects the runs: `throughput`; `health` for the base and its twin; `stacks`, `waits` or `instructions` for
    profiled runs, which are slower; None for all. A study with 0 rounds only counts instructions: `throughput` then
    reads these runs.
    """
    return _load(place := place_of(study, data), mode, _state_of(place))


@lru_cache(maxsize=8)  # all notebooks of a report read the same study, and results are cached per Study
def _load(place: str, mode: Mode | None, _as_it_is: object) -> Study:
    if packed := packed_at(place):
        return Study(card=packed.card, place=packed.place, **packed.frames(_mode_of(packed.card, mode)))
    folder = Path(place)
    if not (folder / CARD).is_file():
        raise _nothing_at(place)
    card = read_study_card(folder)
    mode = _mode_of(card, mode)
    every = by_machine(list(finished(folder)))
    kinds = {name: [getattr(manifest, name) for _, manifest in every] for name in OF_MODE}
    asked = pl.DataFrame(kinds, schema=OF_MODE).with_row_index().filter(of_mode(mode))["index"]
    runs = [every[number] for number in asked]
    return _study(card, folder, runs, finished_runs(folder, "failed"))


def _mode_of(card: StudyCard, mode: Mode | None) -> Mode | None:
    """The mode to read: for a study with 0 rounds, `instructions` replaces `throughput`."""
    return "instructions" if card.rounds == 0 and mode == "throughput" else mode


def place_of(study: str | Path, data: str | Path | None = None) -> str:
    """The folder, file or URL of a study."""
    text = str(study)
    if "://" in text:
        return text.rstrip("/")
    if isinstance(study, Path) or "/" in text or text.endswith(SUFFIX):
        path = Path(text).absolute()
        if not any(place.exists() for place in (path, *path.parents) if place == path or place.suffix == SUFFIX):
            raise _nothing_at(str(path))
        return str(path)
    return str(study_folder(text, data))


def load_levels(study: str | Path, data: str | Path | None = None, mode: Mode | None = "throughput") -> list[Study]:
    """The study and its levels (STUDY-1, STUDY-2, …, which measure parts of a scenario), if they have runs in the
    mode."""
    levels = [load(study, data, mode)]
    beside, name = levels[0].place.rpartition("/")[0], levels[0].card.study
    packed = packed_at(levels[0].place)
    has_levels = LEVELS in packed.files if packed else (Path(levels[0].place) / LEVELS).is_file()
    while has_levels and _is_there(place := f"{beside}/study={name}-{len(levels)}"):
        levels.append(load(place, mode=mode))
    return [level for level in levels if not level.runs.is_empty()]


def check_whole(study: str | Path, data: str | Path | None = None) -> None:
    """Refuses a study if one of its files, or a file of its levels, has changed since it was written."""
    for level in load_levels(study, data, mode=None):
        if packed := packed_at(level.place):
            packed.check()
        else:
            check_files(finished(Path(level.place)), thorough=True)


def load_run(folder: str | Path) -> Study:
    """Read the folder of one run, finished or failed, as a study with that run alone."""
    folder = Path(folder)
    above = next((path for path in folder.parents if (path / CARD).is_file()), folder.parent)
    members = tuple(sorted(path.parent for path in (*folder.glob(MANIFEST), *folder.glob(f"*/{MANIFEST}"))))
    runs = [(member, read_manifest(member)) for member in members]
    dbms = tuple(dict.fromkeys(manifest.dbms for _, manifest in runs))
    card = read_study_card(above).model_copy(update={"dbms": dbms, "rounds": 1})
    return _study(card, above, runs, ())


def _state_of(place: str) -> object:
    """The names, sizes and times of a study's files, for the key of the cache. A study at a URL gets a new key each
    time, so it is never cached."""
    if "://" in place:
        return object()
    path = Path(place)
    packed = [above for above in (path, *path.parents) if above.suffix == SUFFIX]
    state = []
    for file in sorted([*packed, *path.rglob("*")]):
        with suppress(OSError):  # a file may just have been removed, since a run may be under way
            is_ = file.stat()
            state.append((str(file), is_.st_ino, is_.st_size, is_.st_ctime_ns))
    return tuple(state)


def _nothing_at(place: str) -> RqpsError:
    fix = "give a study's name, its folder, a file or folder that `rqps pack` made, or the URL of such a folder"
    return RqpsError(f"{place}: there is no study", fix=fix)


def _is_there(place: str) -> bool:
    return packed_at(place) is not None or (Path(place) / CARD).is_file()


def _study(card: StudyCard, folder: Path, runs: Runs, failed: Sequence[Path]) -> Study:
    not_ok = [(path, read_manifest(path)) for path in failed]
    return Study(
        card=card,
        place=str(folder),
        runs=runs_frame(runs),
        failed=runs_frame(not_ok),
        conditions=conditions_frame(runs),
        warnings=warnings_frame(runs),
        manifests=manifests([*runs, *not_ok]),
        steps=run_table("steps", runs).collect(),
        **{name: run_table(name, runs) for name in TABLES if name != "steps"},
    )
