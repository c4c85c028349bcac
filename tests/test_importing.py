"""Results of others: files in the formats that people keep, made here, read into a study like those measured here."""

import gzip
import html
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from child import rqps as command
from rqps.errors import RqpsError
from rqps.pages import imported_results
from rqps.published import read as read_published
from rqps.published.compare_published import beside, what_differs
from rqps.published.importing import Asked, import_study
from rqps.published.readers import text_of
from rqps.report import build as build_report
from rqps.report import check as check_report
from rqps.report import two_studies
from rqps.show.claims import wrong
from rqps.store import Study
from rqps.store.manifest import finished
from rqps.store.read import check_whole
from synthetic import Shape, write_study

OLD, NEW = "my5651_rel.z12a_c8r32", "my8044_rel.z12a_c8r32"
POINTS, SCAN, UPDATE = "point-query.range100", "scan.range100", "update-index.range100"


def sysbench_says(
    queries: int, *, seconds: float = 600.0, clients: int = 1, per_second: int = 0, latency_ms: float = 0.1
) -> str:
    """The output of sysbench 1.1 at its end, and with a line per second if asked for."""
    lines = [
        f"[ {second}s ] thds: {clients} tps: {per_second}.00 qps: {per_second}.00 (r/w/o: {per_second}.00/0.00/0.00) "
        "lat (ms,95%): 0.12 err/s: 0.00 reconn/s: 0.00"
        for second in range(1, int(seconds) + 1)
        if per_second
    ]
    reported = "\n".join(lines)
    return f"""sysbench 1.1.0-made-up (using bundled LuaJIT 2.1.0)

Running the test with following options:
Number of threads: {clients}

Threads started!
{reported}
SQL statistics:
    queries performed:
        read:                            {queries}
        write:                           0
        other:                           0
        total:                           {queries}
    transactions:                        {queries} ({queries / seconds:.2f} per sec.)
    queries:                             {queries} ({queries / seconds:.2f} per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

Throughput:
    events/s (eps):                      {queries / seconds:.4f}
    time elapsed:                        {seconds:.4f}s
    total number of events:              {queries}

Latency (ms):
         min:                                    0.05
         avg:                                    {latency_ms}
         max:                                   47.30
         95th percentile:                        0.14
         sum:                               {1000 * seconds * clients:.2f}
"""


def write_mytools(
    root: Path,
    dbms: str,
    steps: Mapping[str, int],
    *,
    clients: int = 1,
    cpus: int = 8,
    zipped: bool = False,
    comma: bool = False,
) -> Path:
    """A folder of mytools: of each step, sysbench's output behind its call, and the averages of iostat and vmstat."""
    folder = root / f"x.{dbms}.pk1"
    folder.mkdir(parents=True)
    call = (
        f"sysbench --db-driver=mysql --table-size=1000 --tables=1 --threads={clients} oltp.lua run --mysql-password=x"
    )
    for step, queries in steps.items():
        rate = queries / 600
        met = (
            f"iostat, vmstat normalized by operation rate\nsamp\tr/s\trMB/s\tw/s\twMB/s\tr/o\trKB/o\twKB/o\to/s\n"
            f"604\t2.0\t0.5\t10.0\t1.0\t0.001\t0.5\t0.1\t{rate:.2f}\n\n"
            f"samp\tcs/s\tcpu/s\tcs/o\tcpu/o\n648\t{4 * rate:.0f}\t25.0\t4.0\t0.001\n"
        )
        texts = {
            f"sb.o.{step}.pk1.dop{clients}": f"{call}\n{cpus} CPUs\n{sysbench_says(queries, clients=clients)}",
            f"sb.met.{step}.pk1.dop{clients}": met.replace(".", ",") if comma else met,
        }
        for name, text in texts.items():
            if zipped:
                (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
            else:
                (folder / name).write_text(text)
    (folder / "my.cnf").write_text(
        "[mysqld]\n# a comment\ninnodb-buffer-pool-size=24G\nssl=0\nadmin_password=hidden\n"
    )
    return folder


def imported(data: Path, *folders: Path, **asked: Any) -> tuple[Study, str]:
    (data / "raw").mkdir(parents=True, exist_ok=True)
    text = import_study(Asked(folders, study="theirs", **asked), data).text
    check_whole("theirs", data)
    return rqps.load("theirs", data), text


def of(study: Study, dbms: str, step: str) -> dict[str, Any]:
    [row] = study.steps.filter(dbms=dbms, step=step).to_dicts()
    return row


def test_a_folder_of_mytools_has_the_numbers_that_its_files_say(tmp_path: Path) -> None:
    root = tmp_path / "nov25"
    write_mytools(root, OLD, {POINTS: 12_000_000, SCAN: 80, UPDATE: 1_800_000})
    write_mytools(root, NEW, {POINTS: 9_000_000, SCAN: 60, UPDATE: 1_200_000}, zipped=True)
    study, text = imported(tmp_path / "data", root)
    assert text == f"theirs: 2 dbms, 3 steps, 1 round; base is {OLD}"
    assert study.steps["step"].unique(maintain_order=True).to_list() == [
        "point-query_range=100",
        "scan_range=100",
        "update-index_range=100",
    ]
    points, scan = of(study, NEW, "point-query_range=100"), of(study, OLD, "scan_range=100")
    assert (points["operations"], points["operations_per_s"], points["latency_mean_us"]) == (
        9_000_000,
        15_000.0,
        100.0,
    )
    assert (points["host_context_switches"], points["host_cpu_user_s"], points["host_write_kb"]) == (
        60_000 * 600,
        0.25 * 8 * 600,
        600 * 1024,
    )
    assert (scan["operations"], scan["unit"], scan["operations_per_s"]) == (80_000, "row", 80_000 / 600)
    assert dict(study.runs.select("dbms", "version").iter_rows()) == {OLD: "5.6.51", NEW: "8.0.44"}
    options = study.conditions.filter(kind="option", dbms=OLD)
    assert dict(options.select("name", "value").iter_rows()) == {"innodb_buffer_pool_size": "24G", "ssl": "0"}
    assert study.card.imported
    [first, _] = finished(Path(study.place))
    assert first[1].imported is not None
    assert (first[1].imported.source, first[1].imported.files) == (str(root / f"x.{OLD}.pk1"), 6)
    rates = study.steps.filter(step="point-query_range=100")["operations_per_s"].to_list()
    assert rqps.stats.relate(study)[1].filter(step="point-query_range=100")["estimate"].to_list() == [
        rates[1] / rates[0]
    ]


def test_output_of_sysbench_is_a_step_with_its_seconds_and_folders_are_rounds(tmp_path: Path) -> None:
    folders = [tmp_path / f"round{number}" for number in (1, 2)]
    for number, folder in enumerate(folders):
        for dbms, queries in (("mysql-5.6.51", 1000), ("mysql-8.0.44", 800)):
            (folder / dbms).mkdir(parents=True)
            text = sysbench_says(10 * (queries + number), seconds=10, clients=4, per_second=queries)
            (folder / dbms / "reads.txt").write_text(text)
    study, _ = imported(tmp_path / "data", *folders, engine="mysql", base="mysql-5-6-51.imported")
    assert study.runs.select("dbms", "round", "version").sort("dbms", "round").rows() == [
        ("mysql-5-6-51.imported", 1, "5.6.51"),
        ("mysql-5-6-51.imported", 2, "5.6.51"),
        ("mysql-8-0-44.imported", 1, "8.0.44"),
        ("mysql-8-0-44.imported", 2, "8.0.44"),
    ]
    assert study.steps["operations_per_s"].sort().to_list() == [800.0, 801.0, 1000.0, 1001.0]
    assert set(study.steps["clients"]) == {4}
    seconds = study.intervals.collect()
    assert seconds.group_by("run").agg(pl.col("operations").len())["operations"].to_list() == [10] * 4
    assert set(seconds["operations"]) == {1000, 800}


@pytest.mark.parametrize("form", ["comma", "semicolon and decimal comma", "parquet"])
def test_a_table_with_a_row_per_step_is_read_in_any_form(form: str, tmp_path: Path) -> None:
    rows = [
        {"dbms": dbms, "step": "q1", "clients": 8, "round": number, "operations": 1000 * number, "elapsed_s": 2.5}
        for dbms in ("a.x", "b.x")
        for number in (1, 2)
    ]
    frame, file = pl.DataFrame(rows), tmp_path / "results.csv"
    if form == "parquet":
        file = tmp_path / "results.parquet"
        frame.write_parquet(file)
    elif form == "comma":
        frame.write_csv(file)
    else:
        file.write_text("\ufeff" + frame.write_csv(separator=";", decimal_comma=True).replace("\n", "\r\n"))
    study, _ = imported(tmp_path / "data", file, engine="postgres")
    assert study.steps.select("dbms", "round", "clients", "operations_per_s").sort("dbms", "round").rows() == [
        ("a.x", 1, 8, 400.0),
        ("a.x", 2, 8, 800.0),
        ("b.x", 1, 8, 400.0),
        ("b.x", 2, 8, 800.0),
    ]
    assert set(study.runs["engine"]) == {"postgres"}


def test_a_rate_alone_is_a_number_to_compare(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("dbms,step,operations_per_s,engine\na.x,q,100,mysql\nb.x,q,50,mysql\n")
    study, _ = imported(tmp_path / "data", tmp_path / "t.csv")
    compared = rqps.stats.relate(study)[1]
    assert compared.select("estimate", "verdict").rows() == [(0.5, "unsure")]
    assert study.steps["operations"].to_list() == [None, None]


def test_rows_that_can_t_be_numbers_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    bad = ["c.x,q,ten,1", 'd.x,q,"1,234",1', "e.x,q,-5,1", "f.x,q,5,nan", ",q,5,1", "g.x,q,5,0"]
    lines = ["dbms,step,operations,elapsed_s,mood", "a.x,q,10,1,fine", "b.x,q,20,1,fine", *bad]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    study, text = imported(tmp_path / "data", tmp_path / "t.csv", engine="mysql")
    assert sorted(study.runs["dbms"]) == ["a.x", "b.x"]
    assert "operations is 'ten', which is no number: " in text
    assert "operations is '1,234', which is no number: write it with a point, without separators" in text
    assert all(f"row {number}" in text for number in range(3, 9))
    assert "unknown columns: mood" in text


def test_steps_that_failed_or_are_missing_are_named(tmp_path: Path) -> None:
    root = tmp_path / "r"
    write_mytools(root, OLD, {POINTS: 1000, UPDATE: 1000})
    folder = write_mytools(root, NEW, {POINTS: 1000, UPDATE: 1000})
    (folder / f"sb.o.{UPDATE}.pk1.dop1").write_text(
        "sysbench 1.1.0\n\nFATAL: mysql_drv_query() returned error 1205\n"
    )
    (folder / "sb.o.odd name").write_text(sysbench_says(10))
    study, text = imported(tmp_path / "data", root)
    assert "FATAL: mysql_drv_query() returned error 1205" in text
    assert f"{NEW}, round 1: lacks update-index_range=100" in text
    assert study.steps.height == 3


def test_clients_are_parts_of_steps_and_machines_are_hosts(tmp_path: Path) -> None:
    for name, clients, cpus in (("dop1", 1, 8), ("dop40", 40, 8), ("big", 1, 48)):
        for dbms in (OLD, NEW):
            write_mytools(tmp_path / name, dbms, {POINTS: 1000 * clients}, clients=clients, cpus=cpus)
    study, _ = imported(tmp_path / "data", *(tmp_path / name for name in ("dop1", "dop40", "big")))
    assert sorted(study.steps.select("host", "dbms", "step", "round").rows()) == sorted(
        (host, dbms, step, 1)
        for dbms in (OLD, NEW)
        for host, step in (
            ("elsewhere-8-cpus", "point-query_range=100@1"),
            ("elsewhere-8-cpus", "point-query_range=100@40"),
            ("elsewhere-48-cpus", "point-query_range=100@1"),
        )
    )


def test_the_same_folder_counts_once_and_imported_again_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "r"
    for dbms in (OLD, NEW):
        write_mytools(root, dbms, {POINTS: 1000})
    copy = shutil.copytree(root, tmp_path / "copy")
    study, text = imported(tmp_path / "data", root, root, copy)
    assert study.runs["round"].to_list() == [1, 1]
    assert f"the same folder as {root}" in text
    assert "has the same bytes as" in text
    before = {path: path.read_bytes() for path in Path(study.place).rglob("*") if path.is_file()}
    _, again = imported(tmp_path / "data", root)
    assert again == "theirs: these results are imported already; nothing changed"
    assert before == {path: path.read_bytes() for path in Path(study.place).rglob("*") if path.is_file()}
    file = root / f"x.{NEW}.pk1" / f"sb.o.{POINTS}.pk1.dop1"
    file.write_text(file.read_text().replace("1000", "1001"))
    with pytest.raises(RqpsError, match="was imported from other files, or from these before they changed"):
        imported(tmp_path / "data", root)


def test_links_pipes_and_hostile_names_do_no_harm(tmp_path: Path) -> None:
    root, secret = tmp_path / "r", tmp_path / "secret"
    write_mytools(secret, NEW, {POINTS: 1000})
    write_mytools(root, OLD, {POINTS: 1000})
    write_mytools(root, "my8044_rel;rm -rf ~<img src=x>\x1b[31m\n.z", {POINTS: 900})
    write_mytools(root, "..", {POINTS: 800})
    (root / "linked").symlink_to(secret)
    (root / "loop").symlink_to(root)
    (root / f"x.{OLD}.pk1" / "sb.o.passwd.range1.pk1.dop1").symlink_to("/etc/passwd")
    os.mkfifo(root / "pipe.csv")
    (root / "bomb.csv.gz").write_bytes(gzip.compress(bytes(70_000_000)))
    (root / "cut.csv.gz").write_bytes(gzip.compress(b"dbms,step\n" * 100)[:-12])
    study, text = imported(tmp_path / "data", root)
    assert study.runs.height == 3
    assert all(name.replace("-", "").replace("_", "").replace(".", "").isalnum() for name in study.runs["dbms"])
    assert sorted(path.name for path in (tmp_path / "data/raw").iterdir()) == ["study=theirs"]
    assert text.count("not opened: a link or no regular file") == 1
    assert all(name in text for name in ("linked", "loop", "passwd", "pipe.csv", "bomb.csv.gz", "cut.csv.gz"))
    with pytest.raises(ValueError, match="has more than"):
        text_of(root / "bomb.csv.gz")


def test_a_hundred_thousand_files_are_no_obstacle(tmp_path: Path) -> None:
    root = tmp_path / "r"
    for dbms in (OLD, NEW):
        write_mytools(root, dbms, {POINTS: 1000})
    for folder in range(100):
        (root / f"{folder:03}").mkdir()
        for number in range(1000):
            (root / f"{folder:03}" / f"{number}.log").touch()
    study, text = imported(tmp_path / "data", root)
    assert study.runs.height == 2
    assert "100000 files" in text.replace(",", "")


def test_names_can_be_those_of_a_study_of_one_s_own(tmp_path: Path) -> None:
    root = tmp_path / "r"
    for dbms in (OLD, NEW):
        write_mytools(root, dbms, {POINTS: 1000})
    study, _ = imported(tmp_path / "data", root, renames={NEW: "my8044.common"})
    assert sorted(study.runs["dbms"]) == [OLD, "my8044.common"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nothere", "nothere: no such file or folder"),
        ("empty", "empty: no result could be read"),
        ("t.csv", "the engine of a.x is not known"),
        ("t.csv --engine mysq", "--engine mysq: did you mean 'mysql'?"),
        ("t.csv --engine mysql --base z.x", "--base z.x: did you mean 'b.x'?"),
        ("t.csv --engine mysql --study ../up", "--study '../up' is not a valid name"),
        ("t.csv --engine mysql --as a.x", "--as a.x: a name is missing"),
        ("t.csv --engine mysql --as c.x=d.x", "--as c.x: "),
    ],
)
def test_bad_words_are_refused_with_what_to_do(words: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "data/raw").mkdir(parents=True)
    (tmp_path / "t.csv").write_text("dbms,step,operations,elapsed_s\na.x,q,10,1\nb.x,q,10,1\n")
    done = command("import", *words.split(), "--data", "data", cwd=tmp_path)
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert message in done.stderr
    assert "what to do: " in done.stderr
    assert list((tmp_path / "data/raw").iterdir()) == []


def test_near_a_a_pairs_give_one_run_an_interval_and_no_verdict(tmp_path: Path) -> None:
    """Three steps and five servers: the two of 8.0 differ by 2 %, those of 9.5 and 5.6 by much more."""
    root, speeds = tmp_path / "r", {"my5651": 1.0, "my8043": 0.70, "my8044": 0.714, "my9500": 0.5}
    for build, speed in speeds.items():
        steps = {step: round(1_000_000 * speed) for step in (POINTS, UPDATE, "point-query.pre.range100")}
        write_mytools(root, f"{build}_rel.z12a", steps)
    study, _ = imported(tmp_path / "data", root)
    pairs = imported_results.pairs(study)
    assert pairs.select("base", "dbms", "because").unique(maintain_order=True).rows() == [
        ("my8043_rel.z12a", "my8044_rel.z12a", "neighbouring patch releases"),
        *((f"{build}_rel.z12a",) * 2 + ("the same step before and after writes",) for build in speeds),
    ]
    # point-query has its neighbours and four equal pairs, the two others the neighbours alone
    square = math.log(714 / 700) ** 2
    of_all = 3 * square / 7
    spreads = {
        "point-query_range=100": math.sqrt((square + 4 * of_all) / (5 + 4) / 2),
        "update-index_range=100": math.sqrt((square + 4 * of_all) / (1 + 4) / 2),
    }
    assert set(imported_results.floors(study).filter(group="Writes")["step"]) == {"update-index_range=100"}
    for row in imported_results.floors(study).filter(pl.col("step").is_in(list(spreads))).to_dicts():
        assert row["usual_spread"] == pytest.approx(spreads[row["step"]], rel=1e-9)
        assert math.log(row["floor_1"]) == pytest.approx(2.7764 * math.sqrt(2) * row["usual_spread"], rel=1e-4)
        assert row["floor_1"] > row["floor_4"] > row["floor_10"] > 1
    compared = rqps.stats.relate(study)[1].filter(metric="operations_per_s", step="update-index_range=100")
    half = math.exp(2.7764 * math.sqrt(2) * spreads["update-index_range=100"])
    assert (compared["high"] / compared["estimate"]).to_list() == pytest.approx([half] * 3, rel=1e-4)
    assert set(compared["verdict"]) == {"unsure"}
    assert set(compared["needs"]) == {"4 rounds: there are 1"}
    sentences = imported_results.findings(study, imported_results.beyond(study)).sentences
    assert "9 of 9 differences are above the floor of their step" in sentences[0]
    assert "neighbouring patch releases (8.0.43 and 8.0.44: 2 % in the median step)" in sentences[1]
    frame_of = {"imported": imported_results.beyond(study)}.__getitem__
    assert [problem for sentence in sentences for problem in wrong(sentence, frame_of)] == []


def test_results_without_such_a_pair_say_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("dbms,step,operations,elapsed_s\na.x,q,100,1\nb.x,q,50,1\n")
    study, _ = imported(tmp_path / "data", tmp_path / "t.csv", engine="mysql")
    [sentence] = imported_results.findings(study, imported_results.beyond(study)).sentences
    assert sentence.startswith("No near-A/A pair is among these results")
    assert rqps.stats.relate(study)[1]["low"].to_list() == [None]


def test_four_rounds_have_verdicts_of_their_own(tmp_path: Path) -> None:
    rates = {"a.x": (100, 101, 99, 100), "b.x": (50, 51, 49, 50)}
    rows = [f"{dbms},q,{number},{rate},1" for dbms in rates for number, rate in enumerate(rates[dbms], start=1)]
    (tmp_path / "t.csv").write_text("\n".join(["dbms,step,round,operations,elapsed_s", *rows]))
    study, _ = imported(tmp_path / "data", tmp_path / "t.csv", engine="mysql")
    assert rqps.stats.relate(study)[1].select("n", "verdict").rows() == [(4, "slower")]


def test_tables_with_odd_values_are_named(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text('dbms,step\n"' + "x" * 200_000 + '",q\n')
    rows = {"dbms": ["a.x", "b.x", "c.x"], "step": ["q"] * 3, "operations_per_s": [5.0, 6.0, math.nan]}
    pl.DataFrame(rows).write_parquet(tmp_path / "t.parquet")
    study, text = imported(tmp_path / "data", tmp_path, engine="mysql")
    assert sorted(study.runs["dbms"]) == ["a.x", "b.x"]
    assert "field larger than field limit" in text
    assert "operations_per_s is nan, which is no number" in text


def test_rounds_may_be_counted_from_0(tmp_path: Path) -> None:
    rows = [f"{dbms},q,{number},10,1" for dbms in ("a.x", "b.x") for number in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(["dbms,step,round,operations,elapsed_s", *rows]))
    study, text = imported(tmp_path / "data", tmp_path / "t.csv", engine="mysql")
    assert sorted(set(study.runs["round"])) == [1, 2, 3, 4]
    assert "not read" not in text


def test_a_round_that_two_files_have_is_read_once_and_named(tmp_path: Path) -> None:
    for day, operations in {"monday": 10, "tuesday": 20}.items():
        rows = [f"{dbms},q,1,{operations},1,a-host" for dbms in ("a.x", "b.x")]
        (tmp_path / f"{day}.csv").write_text("\n".join(["dbms,step,round,operations,elapsed_s,host", *rows]))
    study, text = imported(tmp_path / "data", tmp_path / "monday.csv", tmp_path / "tuesday.csv", engine="mysql")
    assert set(study.steps["operations"]) == {10}
    assert f"not read, its steps of round 1 were read from {tmp_path / 'monday.csv'}: " in text


def test_an_engine_that_a_table_calls_by_another_name_is_named_by_the_option(tmp_path: Path) -> None:
    rows = [f"{dbms},q,10,1,MySQL" for dbms in ("a.x", "b.x")]
    (tmp_path / "t.csv").write_text("\n".join(["dbms,step,operations,elapsed_s,engine", *rows]))
    with pytest.raises(RqpsError, match=r"the engine of a\.x is 'MySQL', which is none of"):
        imported(tmp_path / "data", tmp_path / "t.csv")
    study, _ = imported(tmp_path / "data", tmp_path / "t.csv", engine="mysql")
    assert set(study.runs["engine"]) == {"mysql"}


def test_rounds_of_several_hosts_are_counted_for_each(tmp_path: Path) -> None:
    rows = [f"{dbms},q,10,1,{host}" for dbms in ("a.x", "b.x") for host in ("big", "small")]
    (tmp_path / "t.csv").write_text("\n".join(["dbms,step,operations,elapsed_s,host", *rows]))
    _, text = imported(tmp_path / "data", tmp_path / "t.csv", engine="mysql")
    assert "2 dbms, 1 step, 1 round; base is a.x" in text


@pytest.mark.page
@pytest.mark.usefixtures("one_kernel")
def test_the_first_page_of_an_imported_study_answers_without_a_verdict(tmp_path: Path) -> None:
    root = tmp_path / "r"
    for build, speed in {"my5651": 1.0, "my8043": 0.70, "my8044": 0.714}.items():
        steps = {POINTS: round(1_000_000 * speed), UPDATE: round(1_000_000 * speed**2)}
        write_mytools(root, f"{build}_rel.z12a", steps)
    study, _ = imported(tmp_path / "data", root)
    index = build_report("theirs", tmp_path / "data")
    text = html.unescape(re.sub(r"<[^>]+>", "", index.read_text()))
    assert "Throughput relative to MySQL 5.6.51, over 2 steps: MySQL 8.0.43 −41.4 % and MySQL 8.0.44 −39.7 %" in text
    assert "Noise floor of one run: " in text
    assert "Imported; files of elsewhere" in text
    assert {page.name for page in index.parent.glob("*.html")} >= {
        "imported_results.html",
        "relative_throughput.html",
    }
    assert check_report(index.parent, None, tmp_path / "data")[1] == []
    assert study.card.imported


def test_a_step_without_a_range_stands_beside_published_ones(tmp_path: Path) -> None:
    steps = ("mystery", "point-query")
    rows = [f"{d},{s},{r},{q},1" for d, q in (("my5744", 100), ("my8033", 80)) for s in steps for r in (1, 2)]
    (tmp_path / "t.csv").write_text("\n".join(["dbms,step,round,operations,elapsed_s", *rows]))
    study, _ = imported(tmp_path / "data", tmp_path / "t.csv", engine="mysql")
    both = beside(read_published(), study.card.study, tmp_path / "data")
    assert both.ours[0].numbers["step"].sort().to_list() == ["mystery", "point-query_range=100"]
    assert both.ours[0].conditions["column"] == "elsewhere: 8.0.33 / 5.7.44, theirs, imported"
    assert (both.ours[0].conditions["threads"], both.ours[0].conditions["seconds"]) == ("1", "1")
    assert any(sentence.endswith("imported ones too, not described.") for sentence in what_differs(both))


SUMMARY = ("point-query", "random-points", "range-covered-pk", "update-index", "update-one")


def write_summary(folder: Path, columns: Mapping[str, list[int]]) -> Path:
    """A summary of mytools: the names of the columns, and a row for each step."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"col-{number} : x.{dbms}.pk1" for number, dbms in enumerate(columns, start=1)]
    heads = "\t".join(f"col-{number}" for number in range(1, len(columns) + 1))
    rows = ["\t".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    steps = [f"{row}\t{step}_range=100" for row, step in zip(rows, SUMMARY, strict=True)]
    (folder / "qps.abs.all.tsv").write_text("\n".join([*names, "", heads, *steps, ""]))
    return folder


def test_a_summary_is_read_where_folders_are_gone(tmp_path: Path) -> None:
    rates = {OLD: [100, 200, 300, 400, 500], NEW: [90, 180, 270, 360, 450]}
    root = write_summary(tmp_path / "a" / "dop40", rates)
    study, _ = imported(tmp_path / "data", root)
    assert study.steps.filter(dbms=NEW).sort("operations_per_s")["operations_per_s"].to_list() == rates[NEW]
    assert set(study.steps["clients"]) == {40}
    assert study.steps["operations"].null_count() == 10
    assert dict(study.steps.filter(dbms=OLD).select("step", "operations_per_s").iter_rows()) == {
        f"{step}_range=100": rate for step, rate in zip(SUMMARY, rates[OLD], strict=True)
    }
    assert rqps.stats.relate(study)[1]["estimate"].to_list() == pytest.approx([0.9] * 5)


@pytest.mark.parametrize(
    ("summed", "words"),
    [
        ([100, 200, 300, 400, 500], ""),
        (
            [100, 200, 300, 400, 700],
            "contradicts its folder in 1 of 5 steps, first update-one_range=100: the summary ",
        ),
        (
            [100, 300, 400, 500, 500],
            "its rows are shifted from random-points_range=100 on: they have the numbers of ",
        ),
        (
            [100, 100, 200, 300, 400],
            "its rows are shifted from random-points_range=100 on: they have the numbers of ",
        ),
    ],
)
def test_a_summary_that_contradicts_its_folder_is_found(summed: list[int], words: str, tmp_path: Path) -> None:
    root = tmp_path / "r.dop1"
    for dbms in (OLD, NEW):
        steps = {f"{step}.range100": 600 * rate for step, rate in zip(SUMMARY, range(100, 501, 100), strict=True)}
        write_mytools(root, dbms, steps)
    write_summary(root, {OLD: [100, 200, 300, 400, 500], NEW: summed})
    study, text = imported(tmp_path / "data", root)
    assert set(study.steps.filter(dbms=NEW)["operations_per_s"]) == {100.0, 200.0, 300.0, 400.0, 500.0}
    assert (f"{words}" in text) if words else ("not read" not in text)
    assert text.count(f"qps.abs.all.tsv, {NEW}") == bool(words)


def test_a_summary_of_fewer_numbers_than_names_is_named_by_its_line(tmp_path: Path) -> None:
    root = write_summary(tmp_path / "dop1", {OLD: [1, 2, 3, 4, 5], NEW: [1, 2, 3, 4, 5]})
    file = root / "qps.abs.all.tsv"
    file.write_text(file.read_text().replace("2\t2\t", "2\t"))
    study, text = imported(tmp_path / "data", root)
    assert f"has 1 numbers, of 2 dbms: {file}, line 6" in text
    assert study.steps.height == 8


def test_imported_and_own_results_stand_side_by_side(tmp_path: Path) -> None:
    root, ours = tmp_path / "r", ("my1.base", "my2.base")
    write_mytools(root, OLD, {POINTS: 1_000_000, UPDATE: 900_000})
    write_mytools(root, NEW, {POINTS: 700_000, UPDATE: 600_000})
    write_study(tmp_path / "data", Shape(dbms=ours, steps=("point-query_range=100", "update-index_range=100")))
    imported(tmp_path / "data", root, renames=dict(zip((OLD, NEW), ours, strict=True)))
    page, shared = two_studies("theirs", "synthetic", tmp_path / "data", tmp_path / "out")
    assert shared == "Both studies have the same 2 dbms. Both studies have the same 2 steps."
    text = html.unescape(re.sub(r"<[^>]+>", " ", page.read_text()))
    assert f"imported: {OLD}" in text
    assert "not known" in text


def test_the_command_makes_the_data_folder_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("dbms,step,operations,elapsed_s\na.x,q,10,1\nb.x,q,10,1\n")
    words = ("import", "t.csv", "--engine", "mysql", "--study", "t", "--data", "new/data")
    for value in (
        "t: 2 dbms, 1 step, 1 round; base is a.x\n",
        "t: these results are imported already; nothing changed\n",
    ):
        done = command(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, value)
    assert (tmp_path / "new/data/raw/study=t/study.json").is_file()


def test_a_folder_and_the_summary_of_one_that_is_gone_are_compared(tmp_path: Path) -> None:
    root = tmp_path / "r.dop1"
    write_mytools(root, OLD, {f"{step}.range100": 60_000 for step in SUMMARY})
    write_summary(root, {OLD: [100] * 5, NEW: [90] * 5})
    study, text = imported(tmp_path / "data", root)
    assert "not read" not in text
    assert set(study.runs["host"]) == {"elsewhere"}
    assert rqps.stats.relate(study)[1]["estimate"].to_list() == pytest.approx([0.9] * 5)
