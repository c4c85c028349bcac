"""Results of the insert benchmark that others have measured: summaries, and the output of clients."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from rqps.published.insert_columns import PUBLISHED
from rqps.report import build as build_report
from test_importing import NEW, OLD, POINTS, imported, of, write_mytools

HEADS = (*PUBLISHED, "tag")
SECONDS = (
    "i_sec t_sec i_ips t_ips i_dps t_dps i_qps t_qps max_i max_d max_q t_ins t_del t_query retry_i retry_d retry_q"
)


def write_summary(folder: Path, step: str, rows: Mapping[str, tuple[float, float]]) -> Path:
    """A summary of one step of the insert benchmark: inserts and queries per second of each dbms."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(HEADS)]
    for dbms, (inserts, queries) in rows.items():
        values = {"ips": inserts, "qps": queries, "maxop": 0.25, "tag": dbms}
        lines.append("\t".join(str(values.get(name, 0)) for name in HEADS))
    (folder / f"mrg.{step}").write_text("\n".join([*lines[:2], "-", *lines[2:], ""]))
    return folder


def write_clients(folder: Path, step: str, queries: Sequence[int], clients: int = 2) -> None:
    """The output of each client: one line per second, with ten inserts in each."""
    (folder / step).mkdir(parents=True)
    for number in range(1, clients + 1):
        lines = [SECONDS.replace(" ", "\t")]
        for at, done in enumerate(queries, start=1):
            total = sum(queries[:at])
            values = [1, at, 10, 10, 0, 0, done, total / at, 900, 0, 100 * number, 10 * at, 0, total, 0, 0, 0]
            lines.append("\t".join(map(str, values)))
        text = "\n".join([*lines, "Insert rt:  256us = 10, 1ms = 2", ""])
        (folder / step / f"o.ib.dop{clients}.{number}").write_text(text)


@pytest.mark.usefixtures("one_kernel")
def test_summaries_of_the_insert_benchmark_are_steps(tmp_path: Path) -> None:
    theirs = tmp_path / "apu.dop4"
    write_summary(theirs, "l.i0", {OLD: (50_000, 0), NEW: (40_000, 0)})
    write_summary(theirs, "qr100.L1", {OLD: (100, 8000), NEW: (100, 6000)})
    (theirs / "mrg.l.x").write_text("no\theads\n1\t2\n")
    with (theirs / "mrg.l.i0").open("a") as file:
        file.write("1\t2\n" + "\t".join("0" for _ in HEADS) + "\n")
    study, text = imported(tmp_path / "data", theirs)
    assert study.card.workload == "insert-benchmark"
    assert study.steps["step"].unique(maintain_order=True).to_list() == ["l.i0", "qr100"]
    row = of(study, NEW, "qr100")
    assert (row["operations_per_s"], row["latency_max_us"]) == (6000, 250_000)
    assert (row["unit"], row["clients"]) == ("query", 4)
    assert of(study, OLD, "l.i0")["operations_per_s"] == 50_000
    assert "has 2 columns, the first line 21" in text
    assert "0 is no rate" in text
    assert "mrg.l.x" in text
    page = build_report("theirs", tmp_path / "data")
    assert not (page.parent / "insert_benchmark_report.html").exists(), "it is about tables that no summary has"
    assert "relative_throughput.html" in page.read_text()


def test_outputs_of_clients_are_added_up(tmp_path: Path) -> None:
    for dbms, queries in ((OLD, [100, 300]), (NEW, [100, 200])):
        write_clients(tmp_path / "there" / dbms, "qr100.L1", queries)
        write_clients(tmp_path / "there" / dbms, "l.i0", [0, 0])
    write_clients(tmp_path / "there" / NEW, "qr500.L2", [5], clients=3)
    (tmp_path / "there" / NEW / "qr500.L2/o.ib.dop3.2").unlink()
    write_clients(tmp_path / "there" / NEW, "qp100.L1", [5], clients=1)
    odd = tmp_path / "there" / NEW / "qp100.L1/o.ib.dop1.1"
    odd.write_text(odd.read_text().replace("t_query", "t_q"))
    write_mytools(tmp_path / "there", OLD, {POINTS: 1000})
    study, text = imported(tmp_path / "data", tmp_path / "there")
    row = of(study, OLD, "qr100")
    assert (row["operations"], row["elapsed_s"], row["latency_max_us"]) == (800, 2.0, 200)
    assert of(study, OLD, "l.i0")["operations"] == 40
    seconds = study.intervals.filter(dbms=OLD, step="qr100", kind="query").sort("second").collect()
    assert seconds["operations"].to_list() == [200, 600]
    assert "has the output of 2 of 3 clients" in text
    assert "its header lacks t_query" in text
    assert "of sysbench: import it by itself, a study has one workload: 1 result" in text
