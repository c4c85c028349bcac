"""Written bytes by purpose, and reads, syncs and flushed pages: as each engine counts them, on real servers against
the kernel, and on the page."""

import os
import random
import re
import resource
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import psutil
import pytest
import rqps
from live_server import run_of
from rqps import stats
from rqps.engines import PROCESS_BYTES, CountOf, Start
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.data import reread_redo_files
from rqps.engines.mysql.engine import MeasuredServer, prepare
from rqps.engines.mysql.instance import query
from rqps.engines.mysql.written_bytes import FILE_BYTES
from rqps.engines.postgres.dialect import STATISTICS_LATE_S
from rqps.measure.job import loaded_data
from rqps.pages import writes_explained
from rqps.report.site import NOTEBOOKS, analysis_notebooks, applies
from rqps.show import claims_of
from rqps.stats.writes import counted, growth, written
from test_live_postgres import asking, opened
from test_live_servers import QUICK

STUDY = "writes-of-inserts"
KB = 1024.0
BEFORE = {
    "redo_lsn": 100.0,
    "innodb_page_size": 16 * KB,
    "innodb_pages_written": 1.0,
    "innodb_dblwr_pages_written": 0.0,
}
AFTER = {**BEFORE, "redo_lsn": 100 + 5 * KB, "innodb_pages_written": 3.0, "innodb_dblwr_pages_written": 2.0}
DATA, DOUBLEWRITE = (CountOf(FILE_BYTES, f"innodb/innodb_{kind}_file") for kind in ("data", "dblwr"))
MOST_UNEXPLAINED = 0.05


def test_a_server_that_watches_no_files_has_its_log_and_its_pages() -> None:
    assert growth("mysql", BEFORE, AFTER) == {"redo log": 5, "data pages": 32, "doublewrite": 32}


def test_what_data_files_have_beside_pages_is_their_growth() -> None:
    in_data_files = growth("mysql", {**BEFORE, DATA: 0.0}, {**AFTER, DATA: 100 * KB})
    assert (in_data_files["doublewrite"], in_data_files["growing files"]) == (32, 36)
    files = {DATA: 0.0, DOUBLEWRITE: 0.0}
    apart = growth("mysql", BEFORE | files, {**AFTER, DATA: 100 * KB, DOUBLEWRITE: 40 * KB})
    assert (apart["doublewrite"], apart["growing files"]) == (40, 68)


def test_a_release_that_does_not_count_the_filling_of_files_has_their_growth() -> None:
    sizes = {DATA: 0.0, "data_files_bytes": 10 * KB}
    parts = growth("mysql", BEFORE | sizes, {**AFTER, DATA: 64 * KB, "data_files_bytes": 18 * KB})
    assert parts["growing files"] == 8


def test_the_kernel_counts_a_page_of_a_log_that_was_read_again(tmp_path: Path) -> None:
    (log := tmp_path / "ib_logfile0").write_bytes(content := random.Random(1).randbytes(4 << 20))
    reread_redo_files(tmp_path)
    page, appends = resource.getpagesize(), 5
    with log.open("r+b", buffering=0) as file:
        before = psutil.Process().io_counters().write_bytes
        for _ in range(appends):
            file.write(b"x" * 512)
            os.fsync(file)
        assert psutil.Process().io_counters().write_bytes - before <= appends * page
    assert log.read_bytes() == b"x" * 512 * appends + content[512 * appends :]


def test_other_files_are_named_by_what_they_are_for() -> None:
    files = {"innodb/innodb_temp_file": 7, "sql/binlog": 3, "sql/slow_log": 1, "innodb/innodb_log_file": 9}
    after = {**AFTER, DATA: 64 * KB, **{CountOf(FILE_BYTES, name): value * KB for name, value in files.items()}}
    parts = growth("mysql", {**BEFORE, DATA: 0.0}, after)
    assert [parts[name] for name in ("temporary files", "binary log", "other files")] == [7, 3, 1]


def test_pages_of_temporary_tables_count_once() -> None:
    temporary = CountOf(FILE_BYTES, "innodb/innodb_temp_file")
    files = dict.fromkeys((DATA, DOUBLEWRITE, temporary), 0.0)
    after = AFTER | dict.fromkeys(files, 16 * KB)
    parts = growth("mysql", BEFORE | files, after)
    assert [parts[name] for name in ("data pages", "temporary files", "growing files")] == [16, 16, 0]


def test_a_counter_that_fell_is_one_that_the_release_lacks() -> None:
    assert growth("mysql", {**BEFORE, DATA: 50.0}, {**AFTER, DATA: 3.0}) == growth("mysql", BEFORE, AFTER)
    assert growth("mysql", BEFORE, {**AFTER, "redo_lsn": 1.0}) == {}


def test_each_engine_counts_what_its_release_has() -> None:
    gb = {"wal_written_gb": 1.0, "flushed_gb": 0.5, "compactions": 9.0}
    assert growth("rocksdb", {}, gb) == {"write-ahead log": 2**20, "flush": 2**19}
    old = {"bgwriter.buffers_checkpoint": 4.0, "bgwriter.buffers_clean": 1.0, "bgwriter.buffers_backend": 2.0}
    assert growth("postgres", {}, old) == {"checkpoints": 32, "background writer": 8, "backends and vacuum": 16}
    new = {"checkpointer.buffers_written": 4.0, "bgwriter.buffers_clean": 1.0, "wal.wal_bytes": 5 * KB}
    assert growth("postgres", {}, new) == {"checkpoints": 32, "background writer": 8, "WAL": 5}


def test_before_16_backends_have_one_number_that_includes_growing_files() -> None:
    grew = {"wal_lsn": 100 * KB, "bgwriter.buffers_backend": 10.0, "data_files_bytes": 64 * KB}
    parts = growth("postgres", {}, grew | {"wal_files_bytes": 2048 * KB, "database.temp_bytes": 3 * KB})
    assert parts == {
        "WAL": 100,
        "new WAL files": 2048,
        "temporary files": 3,
        "backends and vacuum": 16,
        "growing files": 64,
    }
    index = growth("postgres", {}, {**grew, "data_files_bytes": 800 * KB})
    assert (index["backends and vacuum"], index["growing files"]) == (0, 800), "index creation bypasses the counter"


@pytest.mark.parametrize(("compressed", "images"), [(0.0, 80), (1.0, None)])
def test_full_page_images_are_a_part_of_the_wal_if_their_size_is_known(compressed: float, images: int | None) -> None:
    now = {"wal_lsn": 100 * KB, "wal.wal_fpi": 10.0, "wal_images_compressed": compressed}
    parts = growth("postgres", {"wal_images_compressed": compressed}, now)
    assert (parts["WAL"], parts.get("full-page images")) == (100 - (images or 0), images)
    many = growth("postgres", {}, {"wal_lsn": 100 * KB, "wal.wal_fpi": 20.0, "wal_images_compressed": 0.0})
    assert (many["WAL"], many["full-page images"]) == (0, 100), "pages have free space, which is not logged"


def test_since_16_each_kind_of_process_has_its_own_pages() -> None:
    counts = {
        "io.client backend.relation.normal.writes": 4.0,
        "io.client backend.relation.vacuum.writes": 1.0,
        "io.autovacuum worker.relation.normal.writes": 2.0,
        "io.client backend.temp relation.normal.writes": 3.0,
        "io.checkpointer.relation.normal.writes": 9.0,  # those of the checkpointer's own counter
        "checkpointer.buffers_written": 9.0,
        "io.client backend.relation.normal.extends": 5.0,
        "io.client backend.relation.bulkread.reads": 6.0,
        "io.client backend.relation.normal.reads": 7.0,
        "io.client backend.wal.normal.fsyncs": 8.0,
        "io.checkpointer.relation.normal.fsyncs": 2.0,
    }
    pages = {"checkpoints": 9, "backends": 4, "vacuum": 3, "temporary tables": 3, "growing files": 5}
    assert growth("postgres", {}, counts) == {purpose: 8 * number for purpose, number in pages.items()}
    assert growth("postgres", {}, counts, "read") == {"scans": 48, "backends": 56}
    assert growth("postgres", {}, counts, "syncs") == {"WAL": 8, "data files": 2}
    several = counts | {"io.client backend.relation.normal.write_bytes": 16 * 8 * KB}
    assert growth("postgres", {}, several)["backends"] == 128, "since 18, an operation may have several pages"


def test_a_release_without_a_counter_lacks_its_purpose() -> None:
    assert growth("postgres", {}, {"database.blks_read": 2.0}, "read") == {"pages": 16}
    assert growth("postgres", {}, {"wal.wal_sync": 2.0}, "syncs") == {"WAL": 2}
    for engine in ("mysql", "postgres", "rocksdb"):
        for kind in ("written", "read", "syncs", "pages"):
            assert growth(engine, {}, {}, kind) == {}


def test_a_postgres_counter_that_fell_is_left_out() -> None:
    before = {"wal_lsn": 9 * KB, "bgwriter.buffers_clean": 5.0, "data_files_bytes": 99 * KB}
    after = {"wal_lsn": 10 * KB, "bgwriter.buffers_clean": 1.0, "data_files_bytes": 8 * KB}
    assert growth("postgres", before, after) == {"WAL": 1}


def test_reads_and_syncs_of_mysql_and_rocksdb() -> None:
    reads = {"innodb_pages_read": 10.0, "innodb_buffer_pool_reads": 6.0, "innodb_buffer_pool_read_ahead": 3.0}
    assert growth("mysql", {}, {**BEFORE, **reads}, "read") == {
        "single pages": 96,
        "read-ahead": 48,
        "other pages": 16,
    }
    fsyncs = {"innodb_data_fsyncs": 7.0, "innodb_os_log_fsyncs": 5.0}
    assert growth("mysql", {}, fsyncs, "syncs") == {"redo log": 5, "data files": 2}
    assert growth("rocksdb", {}, {"wal_syncs": 3.0}, "syncs") == {"write-ahead log": 3}
    assert growth("rocksdb", {}, {"compaction_read_gb": 0.5}, "read") == {"compaction": 2**19}


def test_pages_made_dirty_are_those_flushed_and_those_that_are_left() -> None:
    flushed, dirty = "innodb_buffer_pool_pages_flushed", "innodb_buffer_pool_pages_dirty"
    more = growth("mysql", {flushed: 10.0, dirty: 5.0}, {flushed: 30.0, dirty: 45.0}, "pages")
    assert more == {"flushed": 20, "made dirty": 60}
    fewer = growth("mysql", {flushed: 10.0, dirty: 45.0}, {flushed: 60.0, dirty: 5.0}, "pages")
    assert fewer == {"flushed": 50, "made dirty": 10}, "a gauge may fall, and still is known"


def update(server: MeasuredServer, table: str) -> int:
    """Updates of an indexed column; returns the statements."""
    number = random.Random(1)
    with closing(server.connect("rqps")) as connection:
        for _ in range(3000):
            query(connection, f"UPDATE {table} SET k = k + 1 WHERE id = {number.randint(1, 5000)}")
    return 3000


def insert(server: MeasuredServer, table: str) -> int:
    """Random inserts into a new table of three indexes, and one more index; returns the statements."""
    number = random.Random(1)
    with closing(server.connect("rqps")) as connection:
        columns = "id INT AUTO_INCREMENT PRIMARY KEY, a INT, b INT, pad CHAR(150), KEY (a), KEY (b)"
        query(connection, f"CREATE TABLE {table} ({columns})")
        for _ in range(300):
            rows = (f"({number.randrange(10**8)}, {number.randrange(10**8)}, 'x')" for _ in range(50))
            query(connection, f"INSERT INTO {table} (a, b, pad) VALUES {','.join(rows)}")
        query(connection, f"ALTER TABLE {table} ADD INDEX padded (pad, a)")
    return 302


@pytest.mark.live
@pytest.mark.parametrize("dbms", ["my5722.common", "my8033.common", "my97.common"])
def test_the_parts_are_what_the_kernel_counts_for_the_server(dbms: str, tmp_path: Path) -> None:
    """The first work after a start has the largest remainder if the log is cached in large folios."""
    run = run_of(dbms, QUICK)
    prepared = prepare(run, print)
    copy_folder(loaded_data(run, prepared, print), tmp_path / "data")
    with (
        closing(prepared.open(tmp_path / "data", Start(tmp_path / "mysqld.err"))) as server,
        server.watching("work") as watch,
    ):
        readings = [(watch.begin(), watch.end(update(server, "sbtest1")))]
        readings += [(watch.begin(), watch.end(insert(server, "ib")))]

    for reading in readings:
        first, last = (
            {name: float(value) for name, value in status.items() if value.isdigit()} for status in reading
        )
        parts = dict(growth("mysql", first, last))
        sent = parts.pop(PROCESS_BYTES)
        assert abs(sent - sum(parts.values())) <= MOST_UNEXPLAINED * sent, (sent, parts)
        assert parts["redo log"] > 1000
    assert parts["temporary files"] > 0


@pytest.mark.live
@pytest.mark.parametrize("version", ["9.6.10", "12.3", "14.0", "16.0", "18.6"])
def test_postgres_counts_what_the_kernel_counts_for_its_processes(version: str, short: Path) -> None:
    """A data page that is written again before the kernel wrote it back counts once there, and twice in the parts."""
    options = {"shared_buffers": "16MB", "synchronous_commit": False, "autovacuum": False}
    with closing(opened(short, asking(version, **options))) as server, server.watching("work") as watch:
        with server.connect() as connection:
            connection.query("CREATE TABLE ib (id serial PRIMARY KEY, a int, pad text); CREATE INDEX ON ib (a)")
            rows = "SELECT i % 997, repeat('x', 200) FROM generate_series(1, 50000) i"
            connection.query(f"INSERT INTO ib (a, pad) {rows}")
            connection.query("CHECKPOINT")
        time.sleep(STATISTICS_LATE_S)
        before = watch.begin()
        with server.connect() as connection:
            connection.query("UPDATE ib SET a = a + 1 WHERE id % 3 = 0")
            connection.query("CREATE INDEX padded ON ib (pad, a)")
            connection.query("SELECT count(*) FROM (SELECT DISTINCT id, pad FROM ib ORDER BY pad, id) AS sorted")
            connection.query("CHECKPOINT")
        time.sleep(STATISTICS_LATE_S)
        after = watch.end(4)
        data = sum(file.stat().st_size for file in (server.directory / "base").rglob("*") if file.is_file())
    first, last = ({name: float(value) for name, value in status.items()} for status in (before, after))
    parts = dict(growth("postgres", first, last))
    sent = parts.pop(PROCESS_BYTES)
    assert 1000 < parts["growing files"] < data / 1024
    assert parts["WAL"] > 1000
    assert parts["temporary files"] > 1000
    assert parts["checkpoints"] > 1000
    assert ("full-page images" in parts) == (version in ("14.0", "16.0", "18.6")), "by pg_stat_wal"
    assert ("backends" in parts) == (version in ("16.0", "18.6")), "by pg_stat_io"
    once = sum(parts.get(name, 0) for name in ("WAL", "full-page images", "new WAL files", "temporary files"))
    assert 0.9 * once <= sent <= 1.1 * sum(parts.values()), (sent, parts)


def test_parts_and_remainder_are_the_process(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    rows = written(study)
    sums = (
        rows.filter(pl.col("role").is_in(["part", "rest"])).group_by("step", "dbms", "round").agg(pl.col("kb").sum())
    )
    both = sums.join(rows.filter(role="whole"), on=["step", "dbms", "round"], how="inner")
    assert both.height == sums.height > 0
    assert both["kb"].to_list() == pytest.approx(both["kb_right"].to_list())


def test_the_page_is_for_studies_whose_engines_count(samples: Path) -> None:
    page = next(path for path in analysis_notebooks(NOTEBOOKS) if path.stem == "writes_explained")
    study = rqps.load(STUDY, samples)
    assert counted(study)
    assert applies(page, study.runs, study)
    older = replace(study, status=study.status.head(0))
    assert not applies(page, older.runs, older)


def test_findings_claim_what_the_frame_has(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    sentences = writes_explained.findings(study, stats.by_purpose(study)).sentences
    frame = writes_explained.frame(study)
    claims = claims_of(*sentences)
    assert len(claims) > 10
    assert all(claim.recomputed(frame) == pytest.approx(claim.number) for claim in claims)
    assert stats.by_purpose(study).filter(role="rest").height > 0


def test_parts_that_come_to_more_than_the_process_are_shown_with_a_negative_remainder(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    more = pl.when(name="innodb_pages_written", moment="after").then(10**6).otherwise(0)
    value = (pl.col("value").cast(pl.Float64, strict=False) + more).cast(pl.String)
    counted_twice = replace(study, status=study.status.with_columns(pl.coalesce(value, "value").alias("value")))
    rest = written(counted_twice).filter(role="rest")
    assert rest.height > 0
    assert (rest["kb"] < 0).all()
    sums = stats.by_purpose(counted_twice).filter(pl.col("role").is_in(["part", "rest"]))
    complete = stats.by_purpose(counted_twice).filter(role="whole")
    total = sums.group_by("step", "dbms", maintain_order=True).agg(pl.col("kb").sum())
    assert total["kb"].to_list() == pytest.approx(complete["kb"].to_list())
    sentences = writes_explained.findings(counted_twice, stats.by_purpose(counted_twice)).sentences
    (of_rest,) = [one for one in map(str, sentences) if "unexplained" in one]
    assert re.fullmatch(r"[-−][\d,.]+ % to [-−][\d,.]+ % of a process's bytes are unexplained, most .*", of_rest)


@pytest.mark.parametrize(("times", "is_said"), [(3.0, True), (1.05, False)])
def test_a_device_that_others_use_is_said(times: float, is_said: bool, samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    device = {"host_cpu_user_s": pl.lit(1.0), "host_write_kb": times * pl.col("server_write_kb")}
    busy = replace(study, steps=study.steps.with_columns(**device))
    sentences = writes_explained.findings(busy, stats.by_purpose(busy)).sentences
    assert any(str(sentence).startswith("The device is shared: it wrote ") for sentence in sentences) == is_said
    frame = writes_explained.frame(busy)
    assert all(claim.recomputed(frame) == pytest.approx(claim.number) for claim in claims_of(*sentences))


def test_reads_syncs_and_pages_are_those_of_the_counters(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    amounts = stats.other_io(study)
    assert amounts["quantity"].unique().sort().to_list() == [
        "KB read per operation",
        "pages per operation",
        "syncs per transaction",
    ]
    cell = {"step": "l.i1", "dbms": "my8033.common"}
    name, value = "innodb_os_log_fsyncs", pl.col("value").cast(pl.Float64)
    signed = value * pl.when(moment="after").then(1).otherwise(-1)
    grew = study.status.filter(name=name, **cell).group_by("run").agg(signed.sum()).collect()
    steps = study.steps.filter(**cell).join(grew, on="run")
    by_hand = (steps["value"] / steps["transactions"]).mean()
    (syncs,) = amounts.filter(quantity="syncs per transaction", purpose="redo log", **cell)["amount"]
    assert syncs == pytest.approx(by_hand)
    assert amounts["rounds"].unique().to_list() == [study.card.rounds]


def test_rocksdb_has_the_page(samples: Path) -> None:
    study = rqps.load("rocksdb-releases", samples)
    page = next(path for path in analysis_notebooks(NOTEBOOKS) if path.stem == "writes_explained")
    assert applies(page, study.runs, study)
    purposes = {"write-ahead log", "flush", "compaction", "not explained", "the process"}
    assert set(stats.by_purpose(study)["purpose"]) == purposes
