"""Conditions of the runs, warnings, and query plans that differ between dbms. Pages show a warning beside the numbers
that it concerns."""

from collections import Counter
from functools import lru_cache

import polars as pl

from rqps.engines import facts_of
from rqps.engines.compiled import UNKNOWN, in_short
from rqps.numbers import sized
from rqps.stats.metrics import USABLE, version_order
from rqps.store.read import Study
from rqps.store.schemas import IDENTITY
from rqps.workloads import PARAMETERS

BUILD_COLUMNS = ("build_source", "sha256", "runs", "options")
MOVE_NOTHING = ("defaults", "rounds", "absent", "machine state")
"""Kinds of warnings that concern a study, but none of its numbers."""
PLAN_CHANGES = pl.Schema(dict.fromkeys(("step", "base", "dbms", "base_plan", "plan"), pl.String))
WHOLE_TABLE = "no index"

# Momentary facts: their values differ each time they are read.
_OF_THE_MOMENT = ("frequency_mhz", "memory_available_kb", "swap_used_kb", "uptime_s", "load_1min", "disk_free_kb")


@lru_cache(maxsize=1)  # a page uses the result twice
def all_warnings(study: Study) -> pl.DataFrame:
    """All warnings of a study: those of its runs, missing rounds, steps with errors or without operations, steps
    without a value of the base in the same round, target rates that were not reached, and conditions, settings and
    compilers that differ although no config asks for it."""
    steps, base = study.steps, study.card.base
    errors, operations = (pl.col(name).cast(pl.String) for name in ("errors", "operations"))
    failed = pl.when(pl.col("errors") > 0).then(errors + " errors in ").otherwise(pl.lit(""))
    no_number = failed + operations + " operations: not compared"
    # In steps with queries, the target is the rate of the concurrent inserts; if the inserts miss this rate, the run
    # itself has a warning.
    missed = steps.filter(pl.col("target_held").not_(), pl.col("unit") != "query")
    rates = (pl.col(name).map_elements(sized, pl.String) for name in ("operations_per_s", "target_per_s"))
    differs, found_values = pl.col("values").list.len() > 1, pl.col("values").list.join(" or ")
    counted = ("base", "settings")
    measured, of_round = steps.filter(USABLE), ["host", "step", "round"]
    beside = measured.filter(dbms=base).select(of_round).with_columns(beside=pl.lit(True))
    alone = (
        measured.filter(pl.col("dbms") != base, pl.lit(base in study.card.dbms))
        .join(beside, on=of_round, how="left", maintain_order="left")
        .unique(["host", "dbms", "step", "beside"], maintain_order=True)
        .filter(pl.col("beside").is_null().all().over("host", "dbms", "step"))
        .with_columns(base=pl.lit(base), run=None, round=None)
    )
    lasting = study.conditions.filter(
        ~pl.col("kind").is_in(("option", "compiled")), ~pl.col("name").is_in(_OF_THE_MOMENT)
    )
    changed = _spread(lasting).filter(differs).with_columns(study=pl.lit(study.card.study))
    between_rounds = (
        _variables(study)
        .group_by("host", "dbms", "name")
        .agg(pl.col("value").unique().sort().alias("values"), pl.col("study", "build", "config").first())
        .filter(differs)
        .sort("host", "dbms", "name")
    )
    unasked = (
        hidden_differences(study, base)
        .group_by("host", "base", "dbms")
        .agg(pl.len().alias("settings"))
        .join(study.runs.select("study", "host", "dbms", "build", "config").unique(), on=["host", "dbms"])
        .join(version_order(study.runs), on="dbms")
        .sort("host", "rank")
    )
    kinds = (
        ("errors", steps.filter(~USABLE.fill_null(False)), no_number),
        ("uncompared", alone, pl.format("no verdict: in no round {} gave a number on the same host", "base")),
        ("target", missed, pl.format("{} operations/s instead of {}: the rate was not reached", *rates)),
        ("conditions", changed, pl.format("{} {} differs between runs: {}", "kind", "name", found_values)),
        ("settings", between_rounds, pl.format("{} differs between rounds: {}", "name", found_values)),
        ("compiled", _compiled_otherwise(study, base), pl.format("{}: {}, the base: {}", "name", "value", "of_base")),
        ("defaults", unasked, pl.format("settings that differ from {} though no config asks for it: {}", *counted)),
    )
    return pl.concat([study.warnings, missing_rounds(study), *(_warnings(*kind) for kind in kinds)])


def how_compiled(study: Study) -> pl.DataFrame:
    """Facts about the compilation of each dbms: `host, dbms, name, value`, without those that are unknown."""
    facts = study.conditions.filter(pl.col("kind") == "compiled", pl.col("value") != UNKNOWN)
    return facts.select("host", "dbms", "name", "value").unique(maintain_order=True)


def _compiled_otherwise(study: Study, base: str) -> pl.DataFrame:
    """Facts of compilation in which a dbms differs from the base, if the version differs, too. Between builds of one
    version, such a difference gives no warning, since it is the question of the study."""
    versions = study.runs.select("study", "host", "dbms", "build", "config", "version").unique()
    facts = how_compiled(study).join(versions, on=["host", "dbms"], maintain_order="left")
    of_base = facts.filter(dbms=base).select("host", "name", of_base="value", other_version="version")
    differs = (pl.col("value") != pl.col("of_base")) & (pl.col("version") != pl.col("other_version"))
    return facts.join(of_base, on=["host", "name"], maintain_order="left").filter(differs)


def missing_rounds(study: Study) -> pl.DataFrame:
    """One warning for each dbms that has finished fewer rounds than the study plans, or that can't be measured
    because its version lacks the scenario of its config. The versions of a rebuilt build are measured only on some
    occasions.

    A study that has only profiled runs gets no such warning, since the planned number of such runs is not stored.
    """
    if "throughput" not in set(study.runs["mode"]):
        return study.warnings.clear()
    card, finished = study.card, Counter(study.runs.select("host", "dbms").rows())
    builds = dict(study.runs.select("dbms", "build").iter_rows())
    rebuilt = {version.build for version in card.builds if version.number > 1}
    versions = {version.name for version in card.builds if version.build in rebuilt}
    took_part = study.runs.group_by("host", "dbms").agg(pl.col("occasion").n_unique())
    occasions = {(host, dbms): number for host, dbms, number in took_part.iter_rows() if builds[dbms] in versions}
    rows = []
    for host in study.runs["host"].unique().sort():
        for dbms in card.dbms:
            own = {"build": builds.get(dbms), "config": study.configs.get(dbms)}
            whose = {"study": card.study, "host": host, "dbms": dbms, **own}
            if dbms in card.absent:
                rows.append({**whose, "kind": "absent", "text": f"not in this version: {card.absent[dbms]}"})
                continue
            planned = (card.rounds or 1) * occasions.get((host, dbms), card.occasions)
            if (done := finished[host, dbms]) < planned:
                text = f"{done} of {planned} rounds have finished" if card.rounds else "no round has finished"
                rows.append({**whose, "kind": "rounds", "text": text})
    return pl.DataFrame(rows, schema=study.warnings.schema)


def with_warnings(compared: pl.DataFrame, warnings: pl.DataFrame) -> pl.DataFrame:
    """The compared frame with two more columns. `warnings` lists the kinds of warnings that could change the row's
    number: those about me or base in this step or in all steps. `explained` has a line for each kind: the first such
    warning, and the number of them.
    """
    moving = warnings.filter(~pl.col("kind").is_in(MOVE_NOTHING))
    warned = moving.group_by("host", "dbms", "step", "kind", maintain_order=True).agg(
        pl.col("text").first(), pl.len()
    )
    rows = warned.rows()
    kinds, lines = [], []
    for host, step, base, dbms in compared.select("host", "step", "base", "dbms").iter_rows():
        by_kind: dict[str, list[tuple[str, int]]] = {}
        for on, whose, which, kind, text, times in rows:
            if on == host and whose in (None, dbms, base) and which in (None, step):
                by_kind.setdefault(kind, []).append((text, times))
        kinds.append(sorted(by_kind))
        lines.append([_explained(kind, by_kind[kind]) for kind in sorted(by_kind)])
    texts = pl.List(pl.String)
    return compared.with_columns(pl.Series("warnings", kinds, texts), pl.Series("explained", lines, texts))


def _explained(kind: str, texts: list[tuple[str, int]]) -> str:
    times = sum(count for _, count in texts)
    return f"{kind}: {texts[0][0]}{f' ({times} such warnings)' if times > 1 else ''}"


def hidden_differences(study: Study, base: str) -> pl.DataFrame:
    """Server variables in which a dbms differs from the base, although no config asked for it.

    Variables that only one of the two servers has are left out: one of the versions added or removed them.
    """
    known = _variables(study).group_by("host", "dbms", "name").agg(pl.col("value").first())
    options = study.conditions.filter(kind="option").with_columns(pl.col("name").str.replace_all("-", "_"))
    asked = options.select("host", "dbms", "name", asked="value").unique()
    of_base = known.filter(dbms=base).select("host", "name", base="dbms", base_value="value")
    asked_of_base = asked.filter(dbms=base).select("host", "name", asked_of_base="asked")
    return (
        known.filter(pl.col("dbms") != base)
        .join(of_base, on=["host", "name"])
        .filter(pl.col("value") != pl.col("base_value"))
        .join(asked, on=["host", "dbms", "name"], how="left")
        .join(asked_of_base, on=["host", "name"], how="left")
        .filter(pl.col("asked").eq_missing(pl.col("asked_of_base")))
        .join(version_order(study.runs), on="dbms")
        .sort("host", "rank", "name")
        .select("host", "base", "dbms", "name", "base_value", "value")
    )


def changed_conditions(first: Study, second: Study) -> pl.DataFrame:
    """Facts and settings in which two studies differ, in dbms that both have: `kind, name, first, second, dbms`."""
    keys = ["dbms", "kind", "name"]
    both = set(first.runs["dbms"]) & set(second.runs["dbms"])
    ours, theirs = (_of_each_dbms(study).filter(pl.col("dbms").is_in(both)) for study in (first, second))
    changed = (
        ours.rename({"value": "first"})
        .join(theirs.rename({"value": "second"}), on=keys, how="full", coalesce=True, maintain_order="left_right")
        .filter(pl.col("first").ne_missing(pl.col("second")))
        # A setting that only one of the studies has is left out: a version added or removed the variable.
        .filter((pl.col("kind") != "setting") | (pl.col("first").is_not_null() & pl.col("second").is_not_null()))
        .group_by("kind", "name", "first", "second", maintain_order=True)
        .agg("dbms")
    )
    named = pl.when(pl.col("dbms").list.len() == len(both)).then(pl.lit("all"))
    return changed.with_columns(named.otherwise(pl.col("dbms").list.join(", ")).alias("dbms"))


def _of_each_dbms(study: Study) -> pl.DataFrame:
    """One row per dbms and fact, with all values of its runs: facts of the build, conditions except momentary ones
    such as the CPU frequency, and server variables that no option sets."""
    columns = ["dbms", "kind", "name", "value"]
    of_build = study.runs.select("dbms", "version", "build_source", sha256=pl.col("build_digest").str.head(12))
    builds = of_build.unpivot(index="dbms", variable_name="name").with_columns(kind=pl.lit("build"))
    facts = study.conditions.filter(~pl.col("name").is_in(_OF_THE_MOMENT))
    options = facts.filter(kind="option").select("dbms", name=pl.col("name").str.replace_all("-", "_"))
    variables = _variables(study).with_columns(kind=pl.lit("setting"))
    settings = variables.join(options, on=["dbms", "name"], how="anti", maintain_order="left")
    every = pl.concat([table.select(columns) for table in (builds, facts, settings)])
    return every.group_by("dbms", "kind", "name", maintain_order=True).agg(
        pl.col("value").fill_null("not known").unique().sort().str.join(" or ")
    )


def asked_options(conditions: pl.DataFrame) -> pl.DataFrame:
    """The options that the config of each dbms asks for: `dbms, build, name, value`."""
    return conditions.filter(kind="option").select("dbms", "build", "name", "value").unique()


def config_changes(conditions: pl.DataFrame) -> pl.DataFrame:
    """The options in which two configs of a build differ: `dbms, instead_of, change`. `change` has the values of
    `dbms` in words."""
    options = asked_options(conditions)
    of_base = options.select("build", "name", instead_of="dbms", instead="value")
    every = conditions.select("build", "dbms").unique()  # a config may have no options
    pairs = every.join(every.rename({"dbms": "instead_of"}), on="build")
    mine, theirs = pairs.join(options, on=["build", "dbms"]), pairs.join(of_base, on=["build", "instead_of"])
    return (
        mine.join(theirs, on=["build", "dbms", "instead_of", "name"], how="full", coalesce=True)
        .filter(pl.col("value").ne_missing(pl.col("instead")))
        .sort("name")
        .group_by("dbms", "instead_of")
        .agg(pl.format("{}={}", "name", pl.col("value").fill_null("not set")).str.join(", ").alias("change"))
        .sort("dbms", "instead_of")
    )


def same_for_all(conditions: pl.DataFrame) -> pl.DataFrame:
    """Facts with one value in all runs of a host: `host, kind, name, value`. Readings that always vary, such as the
    machine's load average, have the range of their values."""
    spread = _spread(conditions)
    values = pl.col("values")
    number = values.list.eval(pl.element().cast(pl.Float64, strict=False))
    reach = pl.format("{} to {}", number.list.min(), number.list.max())
    value = pl.when(values.list.len() == 1).then(values.list.first()).otherwise(reach).alias("value")
    in_all = pl.col("runs") == pl.col("runs").max().over("host")
    shown = in_all & ((values.list.len() == 1) | pl.col("name").is_in(_OF_THE_MOMENT))
    return spread.filter(shown).select("host", "kind", "name", value)


def options_of_some(conditions: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Options that only some dbms have, mostly because other versions lack them: `option, value, dbms`."""
    options = asked_options(conditions)
    every = conditions["dbms"].n_unique()
    return (
        options.join(version_order(runs), on="dbms")
        .sort("rank")
        .group_by("name", "value", maintain_order=True)
        .agg(pl.col("dbms").str.join(", "), pl.col("dbms").n_unique().alias("has"))
        .filter(pl.col("has").sum().over("name") < every)
        .select(pl.col("name").alias("option"), "value", "dbms")
        .sort("option", "value")
    )


def builds(runs: pl.DataFrame, conditions: pl.DataFrame) -> pl.DataFrame:
    """One row per host and dbms: the version that the server reported, its binary, the number of its runs, options
    whose values differ between dbms, and, if known, the compiler and options of the program."""
    options = asked_options(conditions)
    differing = options.filter(pl.col("value").n_unique().over("name") > 1).sort("name")
    differing = differing.group_by("dbms").agg(options=pl.format("{}={}", "name", "value").str.join(", "))
    counted = runs.group_by("host", "dbms", maintain_order=True).agg(
        pl.len().alias("runs"),
        pl.col("version", "version_comment", "build_source", "build_digest").first(),
        pl.col("build_digest").n_unique().alias("binaries"),
    )
    facts: dict[str, dict[str, str]] = {}
    for dbms, name, value in conditions.filter(kind="compiled").select("dbms", "name", "value").iter_rows():
        facts.setdefault(dbms, {})[name] = value
    how = pl.col("dbms").replace_strict({dbms: in_short(of) for dbms, of in facts.items()}, default="–")
    compiled = [how.alias("compiled")] if facts else []
    return (
        counted.join(differing, on="dbms", how="left", maintain_order="left")
        .join(version_order(runs), on="dbms")
        .with_columns(
            pl.when(pl.col("binaries") > 1)
            .then(pl.format("{} layouts", "binaries"))
            .otherwise(pl.col("build_digest").str.slice(0, 12))
            .alias("sha256"),
            pl.col("options").fill_null("–"),
        )
        .sort("host", "rank")
        .select("host", "dbms", "version", "version_comment", *compiled, *BUILD_COLUMNS)
    )


def _spread(conditions: pl.DataFrame) -> pl.DataFrame:
    return conditions.group_by("host", "kind", "name", maintain_order=True).agg(
        pl.col("value").unique(maintain_order=True).alias("values"), pl.col("run").n_unique().alias("runs")
    )


@lru_cache(maxsize=2)  # several sections of a page use the result
def _variables(study: Study) -> pl.DataFrame:
    """One row per dbms, server variable and value that the dbms had, with the first round that had this value."""
    name, value = pl.col("name"), pl.col("value")
    passing = "|".join(filter(None, (facts_of(engine).passing for engine in study.runs["engine"].unique().sort())))
    ours = study.settings.filter(
        pl.col("kind") == "variable", ~name.str.contains(passing) if passing else True, ~value.str.starts_with("/")
    )
    # 90.000000 equals 90, and the path `./` equals `.`.
    plain = value.str.replace(r"^(-?\d+)\.0+$", "$1").str.replace(r"/$", "")
    values = ours.with_columns(plain.alias("value")).sort("host", "dbms", "round")
    return values.unique(["host", "dbms", "name", "value"], keep="first", maintain_order=True).collect()


def _warnings(kind: str, rows: pl.DataFrame, text: pl.Expr) -> pl.DataFrame:
    """One warning per row. A column that the rows lack is null: the warning concerns all values of that column."""
    columns = {**IDENTITY, "step": pl.String()}
    unnamed = {name: pl.lit(None, dtype) for name, dtype in columns.items() if name not in rows.columns}
    return rows.with_columns(**unnamed).select(*IDENTITY, pl.lit(kind).alias("kind"), "step", text.alias("text"))


def plan_changes(study: Study) -> pl.DataFrame:
    """One row per step and dbms whose plans differ from the base's: both plans, as access method and index per table.

    Empty for workloads that check plans themselves: a run of such a workload fails, or has a warning, if a step has a
    plan other than intended.
    """
    if not PARAMETERS[study.card.workload].plans_are_findings:
        return PLAN_CHANGES.to_frame()
    first = study.plans.collect().unique(["step", "dbms", "statement", "access", "key", "extra"], maintain_order=True)
    access = pl.format("{} ({})", pl.col("access").fill_null("none"), pl.col("key").fill_null(WHOLE_TABLE))
    one_round = pl.col("round") == pl.col("round").min().over("step", "dbms")
    plans = first.filter(one_round).group_by("step", "dbms", maintain_order=True).agg(plan=access.str.join(", "))
    base = plans.filter(dbms=study.card.base).select("step", base="dbms", base_plan="plan")
    differ = plans.join(base, on="step", how="inner", maintain_order="left").filter(
        pl.col("plan") != pl.col("base_plan")
    )
    return differ.select(*PLAN_CHANGES)
