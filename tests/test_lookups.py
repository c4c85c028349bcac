"""Point lookups as the notebook's cells compute them: the unit of all ratios, costs, plans, and published ratios."""

from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import pytest
import rqps
from great_tables import GT
from rqps import show, stats
from rqps.published import read
from rqps.published.releases import lookups_beside, lookups_contradictions, lookups_differ
from rqps.report.index import facts_of
from rqps.store import Manifest, Placement, Warning_, write_study_card
from synthetic import add_step_columns, card, manifest, write_rows

NOTEBOOK = Path(__file__).parent.parent / "notebooks/analysis/point_lookups.ipynb"
DBMS = {"my5534.base": 10.0, "my5534.ps0": 8.0, "my5624.base": 15.0, "my5624.ps0": 12.0}
"""Microseconds that a lookup takes."""
VERSIONS = {"my5534": "5.5.34", "my5624": "5.6.24-log"}
KINDS = {"pk": 1.0, "cover-noforce": 1.5, "cover-force": 2.0}
STEPS = [(engine, kind, clients) for engine in ("innodb", "memory") for clients in (1, 4) for kind in KINDS]
ROUNDS = 6
CYCLES = 4


def elapsed_s(dbms: str, engine: str, kind: str, round_: int) -> float:
    """1000 queries in all, on one CPU: with more clients nothing gets faster."""
    scan = 300.0 if (engine, kind) == ("memory", "cover-force") else KINDS[kind]
    return 1000 * DBMS[dbms] * scan * (1 + 0.001 * round_) / 1e6


def write(data: Path, rounds: int = ROUNDS, duet: bool = False, **changes: Any) -> Path:
    folder = data / "raw/study=lookups"
    parameters = {"engines": ["innodb", "memory"], "table_rows": 64000, **({} if duet else {"queries": 1000})}
    tools = {"sysbench": "1.0.20"} if duet else {"mysqlslap": "8.0.33 (sha256 0123456789ab)"}
    study: dict[str, Any] = {"study": "lookups", "workload": "point-lookups", "parameters": parameters}
    write_study_card(folder, card(**study, base="my5534.base", dbms=tuple(DBMS), rounds=rounds))
    for round_ in range(1, rounds + 1):
        for position, dbms in enumerate(DBMS):
            facts = manifest(
                dbms,
                round_,
                **study,
                **{name: changes[name] for name in ("placement", "placements") if name in changes},
                version=VERSIONS[dbms.partition(".")[0]],
                options={"performance_schema": "OFF" if dbms.endswith("ps0") else "ON"},
                tools=tools,
                run=f"r{round_:02}@here/{dbms}" if duet else f"r{round_:02}@{dbms}@here",
                position=position,
                warnings=tuple(
                    Warning_(kind="plan", text="by xj, not by xjk", step=f"{engine}.{kind}@{clients}")
                    for engine, kind, clients in STEPS
                    if kind == "cover-noforce"
                ),
            )
            _write_run(folder, facts, dbms, round_, changes)
    return data


def _write_run(folder: Path, facts: Manifest, dbms: str, round_: int, changes: dict[str, Any]) -> None:
    rows, plans, slices = [], [], list[dict[str, Any]]()
    for position, (engine, kind, clients) in enumerate(STEPS):
        seconds = elapsed_s(dbms, engine, kind, round_)
        step = f"{engine}.{kind}@{clients}"
        usual = {"step": step, "position": position, "unit": "query", "clients": clients, "operations": 1000}
        usual |= {
            "elapsed_s": seconds,
            "operations_per_s": 1000 / seconds,
            "warmup_s": 0.1,
            "errors": 0,
            "retries": 0,
        }
        usual |= {"server_cpu_s": 0.75 * seconds, "client_cpu_s": 0.25 * seconds}
        rows.append(usual | (changes.get(step) or {}))
        if "/" in facts.run:
            slices += _slices(step, clients * seconds * 1e6, usual)
        key = {"pk": "PRIMARY", "cover-noforce": "xj", "cover-force": "xjk"}[kind]
        plans.append({"step": step, "statement": f"select {kind}", "access": "ref", "key": key, "rows": 1})
    add_step_columns("point-lookups", rows)
    write_rows(folder, facts, {"steps": rows, "plans": plans, "slices": slices})


def _slices(step: str, busy_us: float, of_step: dict[str, Any]) -> list[dict[str, Any]]:
    """The slices of a step, while the machine is slow in every other cycle, for all servers."""
    count = 2 * CYCLES
    return [
        {"step": step, "slice": number, "cycle": number // 2, "operations": of_step["operations"] // count}
        | {"busy_us": busy_us / count * (0.5 + number // 2 % 2)}
        | {f"{who}_cpu_us": of_step[f"{who}_cpu_s"] * 1e6 / count for who in ("server", "client")}
        for number in range(count)
    ]


@pytest.fixture(scope="module", params=["rounds", "duet"])
def study(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> rqps.Study:
    return rqps.load("lookups", data=write(tmp_path_factory.mktemp("data"), duet=request.param == "duet"))


def with_steps(study: rqps.Study, steps: pl.DataFrame) -> rqps.Study:
    return rqps.Study(**{**vars(study), "steps": steps})


def cells(study: rqps.Study, until: str = "") -> dict[str, Any]:
    """The names that the cells of the notebook give to their values for this study, up to the value `until`."""
    names: dict[str, Any] = {}
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type == "code" and "rqps.load" not in cell.source and not (until and until in names):
            exec(cell.source, names)
            names["measured"] = study
    return names


def html_of(ratios: pl.DataFrame) -> str:
    table = show.pivoted(
        ratios,
        "kind",
        "dbms",
        show.with_interval(show.ratio),
        name="lookups-ratio",
        group="group",
        note=show.medians_of(ratios),
    )
    assert isinstance(table, GT)
    return table.as_raw_html()


def medians(frame: pl.DataFrame, dbms: str) -> dict[str, float]:
    return {row["step"]: round(row["estimate"], 6) for row in frame.filter(dbms=dbms).iter_rows(named=True)}


def test_all_is_relative_to_one_lookup_of_the_base_on_the_same_engine(study: rqps.Study) -> None:
    names = cells(study)
    assert medians(names["ratios"], "my5534.base") == {
        f"{engine}.{kind}@{clients}": clients * lookups
        for engine, forced in (("innodb", 2.0), ("memory", 300.0))
        for kind, lookups in (("pk", 1.0), ("cover-noforce", 1.5), ("cover-force", forced))
        for clients in (1, 4)
    }
    assert medians(names["ratios"], "my5624.ps0")["innodb.cover-force@4"] == 1.2 * 8
    assert set(names["ratios"]["n"]) == {ROUNDS}
    assert set(names["ratios"]["unit"]) == {"innodb.pk@1", "memory.pk@1"}
    in_us = names["microseconds"].filter(dbms="my5534.base", step="innodb.pk@4").row(0, named=True)
    assert 40 < in_us["low"] < in_us["estimate"] < in_us["high"] < 40.3, "four clients wait four times as long"


def test_without_pk_from_one_client_the_nearest_to_it_is_the_unit(tmp_path: Path) -> None:
    study = rqps.load("lookups", data=write(tmp_path))
    few = study.steps.filter(~pl.col("step").str.contains("pk@1$"), pl.col("step").str.starts_with("innodb"))
    assert set(cells(with_steps(study, few), "ratios")["ratios"]["unit"]) == {"innodb.cover-noforce@1"}
    few = few.filter(pl.col("step").str.ends_with("@4"))
    assert set(cells(with_steps(study, few), "ratios")["ratios"]["unit"]) == {"innodb.pk@4"}


def test_rounds_without_the_base_give_no_ratio(study: rqps.Study) -> None:
    lost = study.steps.filter((pl.col("dbms") != "my5534.base") | (pl.col("round") > 2))
    names = cells(with_steps(study, lost), "ratios")
    assert set(names["ratios"]["n"]) == {4}, "rounds 3 to 6 have their base"
    none = cells(with_steps(study, study.steps.filter(pl.col("dbms") != "my5534.base")), "ratios")["ratios"]
    assert none.is_empty()


@pytest.mark.parametrize(
    "broken",
    [
        {"operations": 0, "operations_per_s": None},
        {"errors": 3},
        {"operations": 0, "operations_per_s": None, "elapsed_s": 0.0, "server_cpu_s": 0.0, "client_cpu_s": 0.0},
    ],
)
def test_a_step_that_did_nothing_or_failed_is_no_number_anywhere(broken: dict[str, Any], tmp_path: Path) -> None:
    changes: dict[str, Any] = {"innodb.cover-force@4": broken}
    study = rqps.load("lookups", data=write(tmp_path, **changes))
    names = cells(study)
    for frame in (names[name] for name in ("ratios", "microseconds", "generator", "server")):
        assert "innodb.cover-force@4" not in set(frame["step"])
        assert frame.filter(step="innodb.cover-force@1").height == len(DBMS)
    errors = stats.all_warnings(study).filter(kind="errors", step="innodb.cover-force@4")
    assert errors.height == len(DBMS) * ROUNDS


def test_the_share_of_the_generator_is_of_both(study: rqps.Study) -> None:
    generator = cells(study)["generator"]
    assert generator["estimate"].round(9).to_list() == [25.0] * len(STEPS) * len(DBMS)


def test_one_round_is_shown_without_intervals(tmp_path: Path) -> None:
    names = cells(rqps.load("lookups", data=write(tmp_path, rounds=1)))
    html = html_of(names["ratios"])
    assert "no interval" in html
    assert "One round, so there is no interval." in html
    assert names["drawn"].select("low", "high").null_count().row(0) == (0, 0)


def test_tables_have_a_row_a_dbms_and_a_column_a_kind(study: rqps.Study) -> None:
    html = html_of(cells(study, "ratios")["ratios"])
    for words in ("innodb, 1 client<", "memory, 4 clients<", "cover-noforce", "my5624.ps0", "6 rounds", "97 %"):
        assert words in html


def test_plans_stand_once_with_the_dbms_that_read_so_and_marked_where_not_as_named(study: rqps.Study) -> None:
    ways = cells(study)["ways"]
    assert ways.select("storage_engine", "kind", "reads", "plan").rows() == [
        (engine, kind, f"{key}, ref", "⚠ not as named" if kind == "cover-noforce" else "as named")
        for engine in ("innodb", "memory")
        for kind, key in (("PK", "PRIMARY"), ("cover-noforce", "xj"), ("cover-force", "xjk"))
    ]
    assert set(ways["dbms"]) == {", ".join(DBMS)}
    assert cells(rqps.Study(**{**vars(study), "plans": study.plans.clear()}))["ways"].is_empty()


def test_a_warning_on_a_plan_travels_with_the_number(study: rqps.Study) -> None:
    rounds = stats.rounds(stats.measured(study), study.runs, study.card.base)
    carried = stats.with_warnings(stats.compare(rounds), stats.all_warnings(study))
    warned = {row["step"]: "plan" in row["warnings"] for row in carried.iter_rows(named=True)}
    assert warned == {f"{e}.{k}@{c}": k == "cover-noforce" for e, k, c in STEPS}


def test_ours_stand_beside_theirs_where_both_changed_the_same(study: rqps.Study) -> None:
    figures = read()
    beside = lookups_beside(figures, study)
    schema = "with the performance schema"
    without = f"{schema} to without it"
    assert beside.select("compared", "theirs", "ours", "of", "rounds").rows() == [
        (f"5.5 {without}", "1.06 (1.06–1.07)", "1.25 (1.25–1.25)", "my5534.base / my5534.ps0", 6),
        ("5.6 to 5.5, both without it", "1.09 (1.08–1.10)", "1.50 (1.50–1.50)", "my5624.ps0 / my5534.ps0", 6),
        (f"5.6 to 5.5, both {schema}", "1.07 (1.06–1.07)", "1.50 (1.50–1.50)", "my5624.base / my5534.base", 6),
        (f"5.6 {without}", "1.04 (1.04–1.05)", "1.25 (1.25–1.25)", "my5624.base / my5624.ps0", 6),
    ]
    text = " ".join(lookups_differ(figures, study))
    sliced = not study.slices.collect().is_empty()
    load = "1,000 or fewer, all by mysqlslap 8.0.33 (sha256 0123456789ab)"
    load = "those of 1 s, by sysbench 1.0.20" if sliced else load
    for words in ("5.5.34, 5.6.24", "40 hyperthread cores", f"ours {load}"):
        assert words in text
    assert any("--number-of-queries" in contradiction for contradiction in lookups_contradictions(figures))


def test_a_study_of_other_releases_has_nothing_beside_it(study: rqps.Study) -> None:
    others = study.runs.with_columns(pl.lit("8.0.33").alias("version"))
    alone = rqps.Study(**{**vars(study), "runs": others})
    beside = lookups_beside(read(), alone)
    assert beside.is_empty()
    assert "nothing in common" in repr(cells(alone)["compared_with_published"])


def test_the_first_page_says_where_things_ran_for_each_number_of_clients(tmp_path: Path) -> None:
    one = Placement(kind="same-cpu", server_cpus=(1,), client_cpus=(1,), observer_cpus=(0,))
    many = Placement(kind="free", server_cpus=(0, 1), client_cpus=(0, 1), observer_cpus=(0, 1))
    by_clients = many.model_copy(update={"kind": "by-clients"})
    data = write(tmp_path, rounds=1, placement=by_clients, placements={1: one, 4: many, 32: many})
    study = rqps.load("lookups", data=data)
    text = dict(facts_of(study, study.runs))["placement"]
    assert text.split("; ") == [
        "with 1 client same-cpu: dbms on CPU 1, client on CPU 1, observer on CPU 0",
        "with 4 clients free: dbms on CPU 0, 1, client on CPU 0, 1, observer on CPU 0, 1",
        "with 32 clients free: dbms on CPU 0, 1, client on CPU 0, 1, observer on CPU 0, 1",
    ]
