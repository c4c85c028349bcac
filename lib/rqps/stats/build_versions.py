"""Compares each version of a rebuilt build with the base and with the version before."""

from collections.abc import Iterable, Mapping

import polars as pl

from rqps.stats.comparison import change, compare, relate, relate_pairs
from rqps.stats.metrics import COMPARED, CPU, THROUGHPUT, measured, with_counts
from rqps.stats.pairing import rounds_of_pairs
from rqps.stats.verdict import beyond
from rqps.store.read import Study
from rqps.store.schemas import Columns

VERSION: Columns = {
    "build": pl.String,
    "build_of": pl.String,
    "number": pl.Int32,
    "since": pl.Datetime("ms", "UTC"),
    "revision": pl.String,
    "note": pl.String,
}
WATCHED = (THROUGHPUT, CPU)
"""The metrics that `rqps watch` compares. It does not compare instructions, since not every occasion counts them."""
CHANGED = ("slower", "faster")
CELL = ("step", "metric")
Levels = Mapping[tuple[str, str], str]
"""Maps a build and a step to the version whose change somebody has acknowledged. Newer versions are compared with
this version instead of the first one."""


def versions(study: Study) -> pl.DataFrame:
    """One row per version of each rebuilt build: `build` is the version's name in the runs, `build_of` the build's
    name in runs.yaml."""
    rebuilt = {version.build for version in study.card.builds if version.number > 1}
    rows = [
        {"build": version.name, "build_of": version.build, **version.model_dump(include={*VERSION} - {"build"})}
        for version in study.card.builds
        if version.build in rebuilt
    ]
    return pl.DataFrame(rows, schema=VERSION).unique("build", keep="last").sort("build_of", "number")


def by_version(study: Study, metric: str | None = None) -> pl.DataFrame:
    """The comparisons of all versions of rebuilt builds as a tidy frame, for one `metric` if given. A version without
    any comparison has one row, with nulls.

    The column `against` is `base` for a comparison with the study's base, and `last` for a comparison with the
    version before. The verdicts of one version against the version before are corrected for multiple comparisons
    together with all comparisons with the study's base, but not with those between other versions.
    """
    every = versions(study)
    if study.card.base not in set(study.runs["dbms"]):
        return every.with_columns(against=pl.lit(None, pl.String)).clear()
    _, compared = relate(study)
    steps = [] if every.is_empty() else _between_versions(study, every, compared)
    rows = [
        compared.drop("warnings", "explained").with_columns(against=pl.lit("base")),
        *(frame.with_columns(against=pl.lit("last")) for frame in steps),
    ]
    sides = pl.concat(rows, how="diagonal")
    asked = sides if metric is None else sides.filter(metric=metric)
    return every.join(asked, on="build", how="left", maintain_order="left_right")


def _between_versions(study: Study, every: pl.DataFrame, compared: pl.DataFrame) -> list[pl.DataFrame]:
    """One frame of comparisons per version; their base is the version before."""
    dbms = study.runs.select("dbms", "build", "config").unique().join(every, on="build")
    before = dbms.sort("number").with_columns(last=pl.col("dbms").shift().over("build_of", "config"))
    values = with_counts(measured(study, COMPARED), study)
    paired = [rounds_of_pairs(values, [pair]) for pair in before.drop_nulls("last").select("last", "dbms").rows()]
    return [relate_pairs(rounds, compared) for rounds in paired if not rounds.is_empty()]


def superseded(study: Study) -> tuple[str, ...]:
    """The dbms of versions that a newer version has replaced, except the study's base."""
    newest = versions(study).group_by("build_of").agg(pl.col("build").last())
    earlier = versions(study).join(newest, on="build", how="anti")
    runs = study.runs.filter(pl.col("build").is_in(earlier["build"].to_list()), pl.col("dbms") != study.card.base)
    return tuple(runs["dbms"].unique().sort())


def watched(study: Study, acknowledged: Levels | None = None) -> pl.DataFrame:
    """Compares each version of a build with an earlier one, from the occasions on which the later of the two was the
    newest version: one row per version, step, metric and `against`.

    - `against` is `last` for a comparison with the version before. Further rows, in which `against` is `base`,
      compare the newest version with the first version, or with the version whose change was `acknowledged`: the
      ratio of one to the base is divided by the ratio of the other. The verdict of these rows is `unsure` unless the
      whole interval lies beyond the smallest effect.
    - `seen` is the verdict of the first occasion.
    - `state` is null unless `seen` is slower or faster. Then it is `suspected` until there is a second occasion,
      `changed` if the later occasions have the same verdict, and null otherwise.

    A version's verdict follows only from rounds in which this version was the newest, so measuring later versions
    does not change the verdict.
    """
    every = study.runs.select("dbms", "build", "config").unique().join(versions(study), on="build")
    every = every.sort("build_of", "config", "number")
    before = every.with_columns(last=pl.col("dbms").shift().over("build_of", "config")).drop_nulls("last")
    of_last = _own_rounds(study, before.select("last", "dbms").rows())
    rows = [seen_on_occasions(rounds).with_columns(against=pl.lit("last")) for rounds in of_last.values()]
    base = study.card.base
    of_base = _own_rounds(study, [(base, dbms) for dbms in every["dbms"] if dbms != base])
    for _, of_build in every.group_by("build_of", "config", maintain_order=True):
        *earlier, newest = of_build.to_dicts()
        rounds = of_base.get(newest["dbms"], pl.DataFrame(schema={"step": pl.String}))
        for version in earlier:
            levels = acknowledged or {}
            steps = [
                step
                for step in rounds["step"].unique(maintain_order=True)
                if levels.get((version["build_of"], step), earlier[0]["build"]) == version["build"]
            ]
            if steps:
                drift = seen_on_occasions(rounds.filter(pl.col("step").is_in(steps)), version["dbms"], of_base)
                rows.append(drift.with_columns(against=pl.lit("base"), level_of=pl.lit(version["build"])))
    if not rows:
        columns = ("step", "metric", "against", "seen", "state")
        return pl.DataFrame(schema=VERSION | dict.fromkeys(columns, pl.String))
    return versions(study).join(pl.concat(rows, how="diagonal"), on="build", maintain_order="left_right")


def _own_rounds(study: Study, pairs: Iterable[tuple[str, str]]) -> dict[str, pl.DataFrame]:
    """Maps the second dbms of each pair to its rounds against the first, without rounds in which a later version of
    the second dbms's build was also measured."""
    of_versions = study.runs.join(versions(study).select("build", "build_of", "number"), on="build")
    newest = of_versions.filter(pl.col("number") == pl.col("number").max().over("unit", "build_of", "config"))
    paired = rounds_of_pairs(measured(study, WATCHED), [*pairs]).join(newest, on="run", how="semi")
    alone = paired.with_columns(looks=pl.lit(1, paired.schema["looks"]))  # no interim looks within an occasion
    return {str(dbms): rounds for (dbms,), rounds in alone.group_by("dbms", maintain_order=True)}


def seen_on_occasions(
    rounds: pl.DataFrame, level: str | None = None, of_base: Mapping[str, pl.DataFrame] | None = None
) -> pl.DataFrame:
    """One row per step and metric: the comparison over all occasions, the verdict of the first occasion (`seen`), the
    verdict of the later occasions (`again`), and the `state` (see `watched`). With `of_base`, which maps dbms to
    their rounds against the base, each ratio is divided by the ratio of the earlier version `level`."""

    def judged(part: pl.DataFrame) -> pl.DataFrame:
        if of_base is None:
            return compare(part)
        return _drift(compare(part), of_base.get(str(level)))

    is_first, changed = pl.col("occasion") == pl.col("occasion").min(), pl.col("seen").is_in(CHANGED)
    again = rounds.filter(~is_first)
    first = judged(rounds.filter(is_first)).select(*CELL, seen="verdict")
    again = again.join(first.filter(changed), on=CELL, how="semi")
    first = first.with_columns(again=pl.lit(None, pl.String))
    if not again.is_empty():
        second = judged(again).select(*CELL, again="verdict")
        first = first.drop("again").join(second, on=CELL, how="left", maintain_order="left")
    measured_twice = rounds["occasion"].n_unique() > 1
    state = pl.when(changed & (pl.col("again") == pl.col("seen"))).then(pl.lit("changed"))
    state = state if measured_twice else pl.when(changed).then(pl.lit("suspected"))
    return judged(rounds).join(first.with_columns(state=state), on=CELL, maintain_order="left")


def _drift(compared: pl.DataFrame, level: pl.DataFrame | None) -> pl.DataFrame:
    """Comparisons of a version with the base. If `level`, the rounds of an earlier version against the base, is
    given, each ratio is divided by the ratio of the earlier version. The verdict is `unsure` unless the interval lies
    beyond the smallest effect: smaller differences can come from the machine, which varies from hour to hour."""
    if level is not None:
        earlier = compare(level).with_columns(dbms=pl.lit(compared["dbms"][0]))
        now = change(earlier, compared).join(compared.select(*CELL, "build", "config"), on=CELL)
        compared = now.drop("first", "second")
    return compared.with_columns(verdict=beyond(pl.col("smallest_effect")))
