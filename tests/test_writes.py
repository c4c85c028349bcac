"""Written bytes by purpose: as each engine counts them, on real servers against the kernel, and on the page."""

import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rqps
from live_server import run_of
from rqps import stats
from rqps.engines import PROCESS_BYTES, Start
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.engine import MeasuredServer, prepare
from rqps.engines.mysql.instance import query
from rqps.measure.job import loaded_data
from rqps.pages import writes_explained
from rqps.report.site import NOTEBOOKS, analysis_notebooks, applies
from rqps.show import claims_of
from rqps.stats.writes import counted, growth, written
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
DATA, DOUBLEWRITE = "file_bytes_written.innodb/innodb_data_file", "file_bytes_written.innodb/innodb_dblwr_file"
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


def test_other_files_are_named_by_what_they_are_for() -> None:
    files = {"innodb/innodb_temp_file": 7, "sql/binlog": 3, "sql/slow_log": 1, "innodb/innodb_log_file": 9}
    after = {**AFTER, DATA: 64 * KB, **{f"file_bytes_written.{name}": value * KB for name, value in files.items()}}
    parts = growth("mysql", {**BEFORE, DATA: 0.0}, after)
    assert [parts[name] for name in ("temporary files", "binary log", "other files")] == [7, 3, 1]


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


def work(server: MeasuredServer, table: str) -> int:
    """Random inserts into a table of three indexes, updates, and one more index; returns the statements."""
    number = random.Random(1)
    with closing(server.connect("rqps")) as connection:
        columns = "id INT AUTO_INCREMENT PRIMARY KEY, a INT, b INT, pad CHAR(150), KEY (a), KEY (b)"
        query(connection, f"CREATE TABLE ib ({columns})")
        for _ in range(300):
            rows = (f"({number.randrange(10**8)}, {number.randrange(10**8)}, 'x')" for _ in range(50))
            query(connection, f"INSERT INTO ib (a, b, pad) VALUES {','.join(rows)}")
        for _ in range(2000):
            query(connection, f"UPDATE {table} SET k = k + 1 WHERE id = {number.randint(1, 5000)}")
        query(connection, "ALTER TABLE ib ADD INDEX padded (pad, a)")
    return 2302


@pytest.mark.live
@pytest.mark.parametrize("dbms", ["my5722.common", "my8033.common", "my97.common"])
def test_the_parts_are_what_the_kernel_counts_for_the_server(dbms: str, tmp_path: Path) -> None:
    run = run_of(dbms, QUICK)
    prepared = prepare(run, print)
    copy_folder(loaded_data(run, prepared, print), tmp_path / "data")
    with (
        closing(prepared.open(tmp_path / "data", Start(tmp_path / "mysqld.err"))) as server,
        server.watching("work") as watch,
    ):
        before = watch.begin()
        after = watch.end(work(server, "sbtest1"))

    numbers = (
        {name: float(value) for name, value in status.items() if value.isdigit()} for status in (before, after)
    )
    parts = dict(growth("mysql", *numbers))
    sent = parts.pop(PROCESS_BYTES)
    if dbms != "my5722.common":  # Linux counts a synced block as the MB of the log file that it is in, see the page
        assert abs(sent - sum(parts.values())) <= MOST_UNEXPLAINED * sent, (sent, parts)
    assert parts["temporary files"] > 0
    assert parts["redo log"] > 1000


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
    sentences = writes_explained.findings(study).sentences
    frame = writes_explained.frame(study)
    claims = claims_of(*sentences)
    assert len(claims) > 10
    assert all(claim.recomputed(frame) == pytest.approx(claim.number) for claim in claims)
    assert stats.by_purpose(study).filter(role="rest").height > 0
