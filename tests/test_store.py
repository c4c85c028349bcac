"""Everything written can be read back, whole, or is refused with a message that helps."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from polars.testing import assert_frame_equal
from rqps import stats
from rqps.errors import RqpsError
from rqps.stats import all_warnings
from rqps.store import Placement, load_run, read_manifest, write_manifest, write_study_card, write_table
from rqps.store.manifest import MANIFEST, SCHEMA_VERSION, SEAL, sealed, studies
from rqps.store.packing import pack
from rqps.store.schemas import STEPS, TABLES
from synthetic import Shape, card, manifest, write_run, write_study

ROOT = Path(__file__).parent.parent


def without_digests(manifest_file: Path) -> dict[str, Any]:
    """A manifest as it was before it had digests."""
    facts: dict[str, Any] = json.loads(manifest_file.read_text())
    return {name: value for name, value in facts.items() if name not in ("files", SEAL)}


IDENTITY = ["study", "run", "host", "dbms", "build", "config", "round"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("data"), rounds=2)


def test_a_study_is_read_with_its_identity_in_front(data: Path) -> None:
    study = rqps.load("synthetic", data=data)
    assert study.card.base == "my1.base"
    assert study.runs.height == 6
    assert study.steps.columns[:7] == IDENTITY
    assert study.steps.height == 6 * 2
    for name in ("intervals", "latencies", "counters", "status", "settings"):
        frame = getattr(study, name)
        assert frame.collect_schema().names() == [*IDENTITY, *TABLES[name].names()]
    one = study.intervals.filter(run="r01@my2.ps0@here", step="point-query").collect()
    assert one["dbms"].unique().to_list() == ["my2.ps0"]
    assert one["build"].unique().to_list() == ["my2"]


@pytest.mark.parametrize(
    "where",
    [
        pl.col("run") == "r01@my2.ps0@here",
        pl.col("second") > 1,
        (pl.col("dbms") == "my2.ps0") & (pl.col("second") > 1),
        pl.col("run") == "nobody",
        pl.col("run") > pl.col("step"),
        pl.lit(True),
    ],
)
def test_some_rows_are_those_of_all_that_are_asked_for(data: Path, where: pl.Expr) -> None:
    rows = rqps.load("synthetic", data=data).intervals
    every = rows.collect().filter(where)
    assert_frame_equal(rows.filter(where).collect(), every)
    for names in (["second", "run"], ["operations"], ["host"]):
        assert_frame_equal(rows.filter(where).select(names).collect(), every.select(names))
    assert rows.filter(where).select(pl.len()).collect().item() == every.height
    assert_frame_equal(rows.filter(where).head(3).collect(), every.head(3))


def test_what_a_run_ran_under_is_one_row_a_fact(data: Path) -> None:
    facts = rqps.load("synthetic", data=data).conditions.filter(run="r01@my2.ps0@here")
    assert facts.filter(kind="machine", name="cpu.model")["value"].to_list() == ["Synthetic CPU"]
    assert facts.filter(kind="option", name="performance_schema")["value"].to_list() == ["OFF"]
    assert facts.filter(kind="placement", name="server_cpus")["value"].to_list() == ["0"]


def test_a_run_without_a_manifest_did_not_happen(tmp_path: Path) -> None:
    data = write_study(tmp_path, rounds=2)
    (data / "raw/study=synthetic/run=r01@my2.ps0@here/manifest.json").unlink()
    study = rqps.load("synthetic", data=data)
    assert study.runs.height == 5
    assert study.steps.filter(run="r01@my2.ps0@here").is_empty()


def test_failed_runs_are_listed_with_their_error(tmp_path: Path) -> None:
    data = write_study(tmp_path, rounds=1)
    failed = data / "raw/study=synthetic/failed/run=r01@my2.base@here.1"
    write_manifest(failed, manifest("my2.base", 1, outcome="failed", error="server killed in step insert"))
    study = rqps.load("synthetic", data=data)
    assert study.failed["error"].to_list() == ["server killed in step insert"]
    assert study.runs.height == 3
    assert load_run(failed).steps.is_empty()


def test_one_run_can_be_read_by_itself(data: Path) -> None:
    run = load_run(data / "raw/study=synthetic/run=r02@my2.ps0@here")
    assert run.steps["run"].unique().to_list() == ["r02@my2.ps0@here"]
    assert (run.card.dbms, run.card.rounds) == (("my2.ps0",), 1)
    assert all_warnings(run).is_empty()


def test_duets_of_the_base_with_itself_are_read_by_themselves(tmp_path: Path) -> None:
    data = write_study(tmp_path, rounds=1)
    folder = data / "raw/study=synthetic"
    sides = [f"h01@here/my1.base{again}" for again in ("", ".again")]
    for side in sides:
        write_run(folder, manifest("my1.base", 1, run=side, mode="health"), Shape())
    assert rqps.load("synthetic", data=data).runs.height == 3
    health = rqps.load("synthetic", data=data, mode="health")
    assert health.runs.select("dbms", "run").rows() == [("my1.base", side) for side in sides]
    assert set(health.steps["run"]) == set(sides)
    assert load_run(folder / "run=h01@here").card.dbms == ("my1.base",)


def test_raw_goes_before_sample(tmp_path: Path) -> None:
    data = write_study(tmp_path, rounds=1)
    write_study_card(data / "sample/study=synthetic", card(rounds=9))
    assert rqps.load("synthetic", data=data).card.rounds == 1
    (data / "raw").rename(data / "put away")
    assert rqps.load("synthetic", data=data).card.rounds == 9


def test_the_data_folder_is_found(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQPS_DATA", str(data))
    assert rqps.load("synthetic").runs.height == 6
    monkeypatch.delenv("RQPS_DATA")
    write_study(tmp_path / "data", rounds=1)
    below = tmp_path / "notebooks/analysis"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert rqps.load("synthetic").runs.height == 3


def test_an_unknown_study_lists_what_is_there(data: Path) -> None:
    with pytest.raises(RqpsError, match="no study 'synthetik'") as caught:
        rqps.load("synthetik", data=data)
    assert "did you mean 'synthetic'" in str(caught.value)


def test_no_data_folder_is_an_error_that_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RQPS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RqpsError, match="no data folder") as caught:
        rqps.load("demo")
    assert "RQPS_DATA" in caught.value.fix


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    run = write_study(tmp_path, rounds=1) / "raw/study=synthetic/run=r01@my1.base@here"
    table = run / "steps.parquet"
    pl.read_parquet(table).write_parquet(table, metadata={"rqps_schema_version": "99"})
    of_before = read_manifest(run).model_copy(update={"files": {}})  # else the manifest's own version is that of all
    (run / MANIFEST).write_text(sealed(of_before))
    with pytest.raises(RqpsError, match=r"steps\.parquet: schema version 99"):
        rqps.load("synthetic", data=tmp_path)
    path = run / "manifest.json"
    path.write_text(
        path.read_text().replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99, "news": 1')
    )
    with pytest.raises(RqpsError, match=r"manifest\.json: schema version 99"):
        read_manifest(run)


SAMPLES = sorted(path.name.removeprefix("study=") for path in (ROOT / "data/sample").glob("study=*"))


@pytest.mark.parametrize("sample", SAMPLES)
def test_runs_of_the_version_before_say_who_was_up_together(sample: str) -> None:
    runs = rqps.load(sample, data=ROOT / "data", mode=None).runs
    in_duets, alone = runs.filter(pl.col("side").is_not_null()), runs.filter(pl.col("side").is_null())
    assert (alone["unit"] == alone["run"]).all()
    assert (in_duets["unit"] + "/" + in_duets["side"] == in_duets["run"]).all()
    assert set(in_duets["mode"]) <= {"throughput", "health"}
    assert (runs["twin"] == (runs["side"].fill_null(runs["dbms"]) != runs["dbms"])).all()
    assert set(runs.filter("twin")["mode"]) <= {"health", "throughput"}


OLD_COUNTERS = {
    "latch.os_waits.log0log.cc:775": ("os_waits", "log0log.cc:775"),
    "latch.spin_waits.all mutex": ("spin_waits", "all mutex"),
    "perf_schema/wait/io/file/sql/binlog": ("events", "wait/io/file/sql/binlog"),
    "file_bytes_written.sql/binlog": ("file_bytes_written", "sql/binlog"),
    "level7_kb": ("level_kb", "7"),
    "perf_schema/memory_bytes": ("perf_schema/memory_bytes", None),
    "questions": ("questions", None),
}


def test_older_tables_get_the_columns_that_their_names_stood_for(tmp_path: Path) -> None:
    run = write_study(tmp_path, rounds=1) / "raw/study=synthetic/run=r01@my1.base@here"
    status = {"step": "point-query", "moment": "after", "name": [*OLD_COUNTERS], "value": "1"}
    steps = pl.read_parquet(run / "steps.parquet").drop("kind_after_writes").head(1)
    steps = pl.concat([steps, steps.with_columns(step=pl.lit("scan.pre"), kind=pl.lit("scan.pre"))])
    for name, rows in (("status", pl.DataFrame(status)), ("steps", steps)):
        rows.write_parquet(run / f"{name}.parquet", metadata={"rqps_schema_version": "6"})
    (run / "manifest.json").write_text(json.dumps(without_digests(run / "manifest.json")))
    [folder] = pack("synthetic", tmp_path / "packed", tmp_path)
    for place in (tmp_path / "raw/study=synthetic", folder):
        study = rqps.load(place)
        counters = study.status.filter(pl.col("run") == "r01@my1.base@here")
        assert counters.select("name", "object").collect().rows() == list(OLD_COUNTERS.values())
        assert counters.select("object").collect()["object"].null_count() == 2
        [latch] = counters.filter(name="os_waits").select("object", "value").collect().rows()
        assert latch == ("log0log.cc:775", "1")
        [instrument] = counters.filter(object="wait/io/file/sql/binlog").select("name").collect().rows()
        assert instrument == ("events",)
        kinds = study.steps.filter(pl.col("run") == "r01@my1.base@here").select("kind", "kind_after_writes").rows()
        assert kinds == [("point-query", None), ("scan.pre", "scan")]


def test_samples_name_the_object_of_each_counter() -> None:
    of_latches = rqps.load("insert-releases-cpu", data=ROOT / "data")
    latches = stats.latch_waits(of_latches.status, of_latches.steps)
    assert {"all", "all rw-shared"} <= set(latches["latch"])
    events = rqps.load("ps-scenarios", data=ROOT / "data").status.filter(name="events").collect()
    assert events["object"].str.starts_with("wait/").any()
    names = events["name"].unique().to_list() + of_latches.status.collect()["name"].unique().to_list()
    assert [name for name in names if name.startswith(("latch.", "perf_schema/", "file_bytes_written."))] == []


@pytest.mark.parametrize("file", ["steps.parquet", "manifest.json"])
def test_a_damaged_file_is_named(tmp_path: Path, file: str) -> None:
    run = write_study(tmp_path, rounds=1) / "raw/study=synthetic/run=r01@my1.base@here"
    (run / file).write_bytes(b"PAR1 cut off")
    with pytest.raises(RqpsError, match=file):
        rqps.load("synthetic", data=tmp_path)


def test_a_damaged_or_missing_table_is_named_as_soon_as_somebody_wants_it(tmp_path: Path) -> None:
    run = write_study(tmp_path, rounds=1) / "raw/study=synthetic/run=r01@my1.base@here"
    (run / "settings.parquet").write_bytes(b"PAR1 cut off")
    (run / "counters.parquet").unlink()
    table = run / "status.parquet"
    pl.read_parquet(table).write_parquet(table, metadata={"rqps_schema_version": "99"})
    manifest_file = run / "manifest.json"
    manifest_file.write_text(json.dumps(without_digests(manifest_file)))
    study = rqps.load("synthetic", data=tmp_path)
    with pytest.raises(RqpsError, match=r"settings\.parquet: can't be read"):
        study.settings.filter(kind="variable").collect()
    with pytest.raises(RqpsError, match=r"counters\.parquet: can't be read"):
        study.counters.select("run").collect()
    with pytest.raises(RqpsError, match=r"status\.parquet: schema version 99"):
        study.status.head(1).collect()
    assert study.intervals.head(3).collect().height == 3


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (pl.DataFrame(schema=STEPS).drop("errors"), "errors"),
        (pl.DataFrame(schema=STEPS).with_columns(extra=pl.lit(1)), "extra"),
        (pl.DataFrame(schema=STEPS).cast({"operations": pl.Float64}), "Float64 != target: Int64"),
    ],
)
def test_a_frame_of_another_shape_is_refused(tmp_path: Path, change: pl.DataFrame, difference: str) -> None:
    with pytest.raises(RqpsError, match=difference):
        write_table(tmp_path, "steps", change)
    assert not any(tmp_path.iterdir())


def test_a_column_without_a_value_takes_its_type_from_the_schema(tmp_path: Path) -> None:
    frame = pl.DataFrame({"step": ["a"], "moment": ["before"], "name": ["uptime"], "object": [None], "value": [None]})
    written = pl.read_parquet(write_table(tmp_path, "status", frame))
    assert written.schema == TABLES["status"]


def test_nothing_half_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path, "steps", pl.DataFrame(schema=STEPS))
    before = (tmp_path / "steps.parquet").read_bytes()

    def no_room(_frame: pl.DataFrame, file: Path, **_options: object) -> None:
        Path(file).write_bytes(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", no_room)
    with pytest.raises(RqpsError, match="No space left"):
        write_table(tmp_path, "steps", pl.DataFrame(schema=STEPS))
    assert [path.name for path in tmp_path.iterdir()] == ["steps.parquet"]
    assert (tmp_path / "steps.parquet").read_bytes() == before


def test_a_run_whose_steps_were_placed_by_their_clients_says_so_for_each(tmp_path: Path) -> None:
    one = Placement(kind="same-cpu", server_cpus=(1,), client_cpus=(1,), observer_cpus=(0,))
    many = Placement(kind="free", server_cpus=(0, 1), client_cpus=(0, 1), observer_cpus=(0, 1))
    facts = manifest(
        "my1.base", 1, placement=many.model_copy(update={"kind": "by-clients"}), placements={1: one, 4: many}
    )
    folder = tmp_path / "raw/study=synthetic"
    write_study_card(folder, card())
    write_run(folder, facts, Shape())
    study = rqps.load("synthetic", data=tmp_path)
    assert read_manifest(Path(study.runs["folder"][0])).placements == {1: one, 4: many}
    reported = dict(study.conditions.filter(kind="placement").select("name", "value").iter_rows())
    kinds = [reported[name] for name in ("kind", "with 1 client.kind", "with 4 clients.kind")]
    assert kinds == ["by-clients", "same-cpu", "free"]
    assert (reported["with 1 client.server_cpus"], reported["with 4 clients.client_cpus"]) == ("1", "0, 1")


def test_what_was_set_aside_is_not_listed_and_can_still_be_read(tmp_path: Path) -> None:
    data = write_study(tmp_path, rounds=1)
    raw = data / "raw"
    (raw / "study=synthetic").rename(raw / "study=synthetic.until-20260105-120000")
    write_study(tmp_path, rounds=2)
    assert studies(data) == ("synthetic",)
    assert rqps.load("synthetic.until-20260105-120000", data=data).runs.height == 3


def test_rounds_on_another_machine_of_the_same_name_are_not_paired(tmp_path: Path) -> None:
    """Two virtual machines are easily called alike; CPU, memory and kernel make a host."""
    shape = Shape(rounds=2)
    folder = write_study(tmp_path, shape) / "raw/study=synthetic"
    moved = manifest(shape.dbms[1], 2, shape, machine={"cpu_model": "Another CPU", "kernel": "6.1"})
    write_run(folder, moved, shape)
    study = rqps.load("synthetic", tmp_path)
    assert set(study.runs["host"]) == {"here (0 GB)", "here (Another CPU, kernel 6.1)"}
    paired = stats.rounds(stats.measured(study), study.runs, study.card.base)
    assert set(paired.filter(dbms=shape.dbms[1])["round"]) == {1}
    assert set(paired.filter(dbms=shape.dbms[2])["round"]) == {1, 2}
