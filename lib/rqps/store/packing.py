"""Packs a study's run folders into one file per table, and unpacks them."""

import hashlib
import json
import shutil
import zipfile
from contextlib import AbstractContextManager
from copy import copy
from pathlib import Path
from typing import Any

import polars as pl

from rqps.engines.cache import sha256
from rqps.errors import RqpsError
from rqps.store.manifest import ASKED, LEVELS, PACKED_RUNS, SCHEMA_VERSION, Manifest
from rqps.store.packed import CARD_KEY, DIGEST, FILES_KEY, PACKED_COLUMNS, SUFFIX, packed_at
from rqps.store.read import Study, load, load_levels
from rqps.store.run_frames import FACT, WARNING
from rqps.store.schemas import IDENTITY, TABLES
from rqps.store.write import VERSION_KEY, atomically, write_manifest, write_study_card, write_table

_ROWS_IN_A_GROUP = 2**19
_COMPRESSION_LEVEL = 10
_RUNS_AT_ONCE = 50
LEFT_OUT = "left out"
NO_LEVELS = f"# {LEFT_OUT}\nbuilds: {{}}\nconfigs: {{}}\nstudies: {{}}\n".encode()
"""In place of the file that defines the levels of a study, which has statements and values as runs.yaml has them."""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed time: packing the same study again gives the same bytes


def pack(study: str, to: Path | None = None, data: Path | None = None, *, with_statements: bool = True) -> list[Path]:
    """Packs a study and its levels, without notebooks and logs: into the file `to` if its name ends in .rqps,
    otherwise into one folder per study below the folder `to`. The default is the file STUDY.rqps."""
    levels = load_levels(study, data, mode=None)
    if not with_statements:
        levels = [without_statements(level) for level in levels]
    if not levels:
        name = load(study, data, mode=None).card.study
        raise RqpsError(f"{study}: no run has finished, so there is nothing to pack", fix=f"rqps run {name}")
    to = to or Path(f"{levels[0].card.study}{SUFFIX}")
    if to.suffix != SUFFIX:
        return [_pack_into(to / f"study={level.card.study}", level, with_statements) for level in levels]
    with _replacing(to) as unfinished:
        places = {unfinished.with_name(f"study={level.card.study}"): level for level in levels}
        folders = [_pack_into(place, level, with_statements) for place, level in places.items()]
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as archive:
            for path in (path for folder in folders for path in sorted(folder.iterdir())):
                info = zipfile.ZipInfo(f"{path.parent.name}/{path.name}", _EPOCH)
                with path.open("rb") as file, archive.open(info, "w", force_zip64=True) as inside:
                    shutil.copyfileobj(file, inside)
    return [to]


PRIVATE = r"^steps\..*\.(sql$|file$|digest$|values\.)|^tables\..*\.list$"
"""Matches the names of parameters that may contain private data."""


def without_statements(study: Study) -> Study:
    """A copy of the study without text that may contain private data: SQL, names of logs and lists of values of its
    steps, lists of values of generated tables, explained statements, and error messages. A digest replaces each
    statement, so equal statements stay equal."""
    plans = study.plans.collect()
    digests = {text: _left_out(text) for text in plans["statement"].drop_nulls().unique()}
    private = (pl.col("kind") == "parameter") & pl.col("name").str.contains(PRIVATE)
    as_json = {name: pl.col(name).map_elements(_json_without_statements, pl.String) for name in ("manifest", "asked")}
    parameters = pl.col("parameters").map_elements(_json_without_statements, pl.String)
    changed = copy(study)
    for name, value in {
        "card": study.card.model_copy(update={"parameters": _without_statements(study.card.parameters)}),
        "plans": plans.with_columns(pl.col("statement").replace(digests)).lazy(),
        "conditions": study.conditions.with_columns(value=pl.when(private).then(pl.lit(LEFT_OUT)).otherwise("value")),
        "runs": study.runs.with_columns(parameters),
        "failed": study.failed.with_columns(
            pl.lit(LEFT_OUT).alias(of) for of in ("error",) if of in study.failed.columns
        ),
        "manifests": study.manifests.collect().with_columns(**as_json).lazy(),
    }.items():
        object.__setattr__(changed, name, value)
    return changed


def lacks_statements(study: Study) -> bool:
    """True for a study that was packed without the text of its SQL statements."""
    explained = study.plans.select(pl.col("statement").str.starts_with(LEFT_OUT).any()).collect().item()
    return bool(explained) or LEFT_OUT in json.dumps(study.card.parameters)


def _left_out(text: str) -> str:
    return f"{LEFT_OUT} (SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:12]})"


def _json_without_statements(text: str | None) -> str | None:
    """Removes SQL, lists of values and error messages from the JSON text of a manifest, a request or parameters."""
    return json.dumps(_without_statements(json.loads(text))) if text else text


def _without_statements(value: Any) -> Any:
    """A copy of JSON data without SQL, logs, lists of values and error messages."""
    if isinstance(value, list):
        return [_without_statements(one) for one in value]
    if not isinstance(value, dict):
        return value
    without = {name: _without_statements(of) for name, of in value.items()}
    if isinstance(value.get("sql"), str):
        without["sql"] = _left_out(value["sql"])
        without["values"] = {name: {"range": of.get("range")} for name, of in (value.get("values") or {}).items()}
    if isinstance(value.get("file"), str):  # of a log
        without["file"] = _left_out(value["file"])
        without |= {"digest": LEFT_OUT} if value.get("digest") else {}
    if isinstance(value.get("list"), list):  # of a column of generated tables
        without["list"] = [LEFT_OUT]
    if isinstance(value.get("error"), str):
        without["error"] = LEFT_OUT
    return without


def unpack(study: str, to: Path, data: Path | None = None) -> list[Path]:
    """Unpacks a packed study and its levels into folders of runs below `to`."""
    return [_unpack_into(to / f"study={level.card.study}", level) for level in load_levels(study, data, mode=None)]


def _pack_into(folder: Path, study: Study, with_statements: bool) -> Path:
    with _replacing(folder) as unfinished:
        unfinished.mkdir()
        for name in TABLES:
            path = unfinished / f"{name}.parquet"
            rows: pl.LazyFrame = getattr(study, name).lazy().select(*IDENTITY, *TABLES[name])
            if "frames" in TABLES[name]:  # sorted, since similar stacks side by side compress to an eighth
                rows = rows.sort(pl.col("frames").list.join(";"), "step", "run", maintain_order=True)
            rows.sink_parquet(
                path,
                compression="zstd",
                compression_level=_COMPRESSION_LEVEL,
                row_group_size=_ROWS_IN_A_GROUP,
                metadata={VERSION_KEY: str(SCHEMA_VERSION)},
            )
            if not pl.scan_parquet(path).select(pl.len()).collect().item():
                path.unlink()
        write_study_card(unfinished, study.card)
        if (levels := _levels_of(study)) is not None:
            (unfinished / LEVELS).write_bytes(levels if with_statements else NO_LEVELS)
        files = {path.name: (path.stat().st_size, sha256(path)) for path in sorted(unfinished.iterdir())}
        metadata = {CARD_KEY: study.card.model_dump_json(), FILES_KEY: json.dumps(files)}
        _runs(study).write_parquet(
            unfinished / PACKED_RUNS,
            compression="zstd",
            compression_level=_COMPRESSION_LEVEL,
            metadata={VERSION_KEY: str(SCHEMA_VERSION), **metadata},
        )
        (unfinished / DIGEST).write_text(f"{sha256(unfinished / PACKED_RUNS)}  {PACKED_RUNS}\n")
    return folder


def _runs(study: Study) -> pl.DataFrame:
    """The runs with their conditions, warnings and manifests."""
    runs = study.runs
    for column, rows, values in (("conditions", study.conditions, FACT), ("warnings", study.warnings, WARNING)):
        of_run = rows.group_by("run").agg(pl.struct(*values).alias(column))
        runs = runs.join(of_run, on="run", how="left")
    every = pl.concat([runs, study.failed], how="diagonal")
    packed = study.manifests.collect().join(every, on="folder", how="left", maintain_order="left")
    in_study = pl.col("folder").str.strip_prefix(f"{study.place}/")
    return packed.with_columns(in_study, pl.col("conditions", "warnings").fill_null([])).select(*PACKED_COLUMNS)


def _unpack_into(folder: Path, study: Study) -> Path:
    packed = packed_at(study.place)
    if packed is None:
        raise RqpsError(f"{study.place}: this study is not packed", fix="leave out --unpack to pack it")
    packed.check()
    manifests = study.manifests.collect()
    names = dict(study.runs.select("folder", "run").iter_rows())
    with _replacing(folder) as unfinished:
        for some in manifests.filter(pl.col("folder").is_in(list(names))).iter_slices(_RUNS_AT_ONCE):
            for name in TABLES:
                where = some.filter(pl.col("tables").list.contains(name))["folder"].to_list()
                runs = [names[packed_run] for packed_run in where]
                rows = getattr(study, name).lazy().filter(pl.col("run").is_in(runs)).select("run", *TABLES[name])
                by_run = rows.collect().partition_by("run", as_dict=True, include_key=False)
                for run, packed_run in zip(runs, where, strict=True):
                    write_table(unfinished / packed_run, name, by_run.get((run,), pl.DataFrame(schema=TABLES[name])))
        for row in manifests.iter_rows(named=True):
            run = unfinished / row["folder"]
            run.mkdir(parents=True, exist_ok=True)
            if row["asked"]:
                (run / ASKED).write_text(row["asked"], encoding="utf-8")
            write_manifest(run, Manifest.model_validate_json(row["manifest"]))
        if (levels := _levels_of(study)) is not None:
            (unfinished / LEVELS).write_bytes(levels)
        write_study_card(unfinished, study.card)
    return folder


def _levels_of(study: Study) -> bytes | None:
    """The file that defines the levels of a study; None if the study has no levels."""
    if (packed := packed_at(study.place)) is None:
        file = Path(study.place) / LEVELS
        return file.read_bytes() if file.is_file() else None
    if LEVELS not in packed.files:
        return None
    source = packed.source(LEVELS)
    if isinstance(source, str):  # a URL
        return "".join(f"{line}\n" for line in pl.read_lines(source)["line"]).encode()
    return source if isinstance(source, bytes) else source.read_bytes()


def _replacing(target: Path) -> AbstractContextManager[Path]:
    """Yields a path to write to; the result then replaces `target`. Refuses to replace a folder of runs, which may be
    the only copy of a measurement."""
    if target.is_dir() and not (target / PACKED_RUNS).is_file():
        raise RqpsError(f"{target}: contains folders of runs already", fix="move them away, or give another --out")
    return atomically(target)
