"""Flavours: builds of one version that were compiled differently, as read from their programs."""

import polars as pl

from rqps.stats.conditions import how_compiled
from rqps.stats.metrics import COMPARED, THROUGHPUT, measured, with_counts
from rqps.stats.pairing import rounds_of_pairs
from rqps.stats.summary import left_out, means_of
from rqps.store.read import Study

FACTS = ("compiler", "optimization", "frame_pointers", "instruction_set", "lto", "pgo")
OPTIONS = ("family", "optimization", "native", "pgo", "lto")
"""The facts whose effect on performance is measured, by pairs of builds that differ in one of these facts alone."""
PLAIN = "x86-64"
_WORDS = {"native": "native", "lto": "LTO", "pgo": "PGO"}
_FRAMES = {"yes": "frame pointers", "no": "no frame pointers"}


def flavours(study: Study) -> pl.DataFrame:
    """One row per host and dbms whose version has several flavours: the facts read from the program, `family` (gcc or
    clang), `native` (yes if the program was compiled for a CPU newer than plain x86-64), the `options` in words, and
    the `flavour`: the family with the options, such as `gcc -O2, LTO`."""
    runs = study.runs.select("host", "dbms", "version", "config", "listed").unique()
    words = (pl.when(pl.col(name) == "yes").then(pl.lit(word)) for name, word in _WORDS.items())
    known = _compiled(study).with_columns(options=_listed("optimization", *words))
    known = known.with_columns(flavour=pl.concat_str("family", "options", separator=" "))
    several = pl.struct("compiler", "options", "frame_pointers").n_unique().over("host", "version", "config") > 1
    of_runs = known.join(runs, on=["host", "dbms"], maintain_order="left")
    return of_runs.filter(several).sort("host", "listed").drop("listed")


def _compiled(study: Study) -> pl.DataFrame:
    """One row per host and dbms whose compiler is known: the facts read from the program, `family` and `native`."""
    facts = how_compiled(study).pivot("name", FACTS, index=["host", "dbms"], values="value", maintain_order=True)
    later = pl.when(pl.col("instruction_set") != PLAIN).then(pl.lit("yes")).otherwise(pl.lit("no"))
    native = pl.when(pl.col("instruction_set").is_not_null()).then(later)
    family = pl.col("compiler").str.extract(r"^(\S+)")
    return facts.with_columns(family=family, native=native).drop_nulls("family")


def differences_of_builds(study: Study) -> dict[str, str]:
    """Maps dbms to words for the compilation of their builds, such as `gcc -O2, LTO`, if several builds of one
    version were compiled differently or have other layouts.

    The words are the compiler and its optimization, and those other facts in which the builds of the version
    differ; frame pointers are named only if nothing else distinguishes two builds. If two builds would get the same
    words, the name of each build is appended. A dbms is left out if its compiler is unknown, or if its words differ
    between hosts.
    """

    def differ(fact: str, *among: str) -> pl.Expr:
        return pl.col(fact).n_unique().over("host", "engine", "version", *among) > 1

    first, last = pl.col("layout").min(), pl.col("layout").max()
    several = pl.when(first < last).then(pl.format("layouts {} to {}", first, last))
    layouts = several.otherwise(pl.format("layout {}", first))
    of_build = ["host", "engine", "version", "build", "dbms"]
    runs = study.runs.drop_nulls("version").group_by(of_build).agg(layouts=layouts)
    compiler = pl.when(differ("compiler", "family")).then("compiler").otherwise("family")
    parts = [
        pl.concat_str(compiler, "optimization", separator=" ", ignore_nulls=True),
        *(pl.when(differ(name), pl.col(name) == "yes").then(pl.lit(word)) for name, word in _WORDS.items()),
        pl.when(differ("layouts")).then("layouts"),
    ]
    rows = runs.join(_compiled(study), on=["host", "dbms"]).with_columns(words=_listed(*parts))
    frames = pl.col("frame_pointers").replace_strict(_FRAMES, default=None, return_dtype=pl.String)
    rows = rows.with_columns(words=_listed("words", pl.when(differ("frame_pointers", "words")).then(frames)))
    alike = pl.when(differ("build", "words")).then("build")
    rows = rows.filter(differ("words")).with_columns(words=_listed("words", alike))
    one_each = rows.select("dbms", "words").unique().unique("dbms", keep="none")
    return dict(one_each.sort("dbms").iter_rows())


def _listed(*parts: pl.Expr | str) -> pl.Expr:
    return pl.concat_str(*parts, separator=", ", ignore_nulls=True)


def means_of_pairs(study: Study, pairs: pl.DataFrame) -> pl.DataFrame:
    """The geometric mean, over the steps, of the ratio of each pair's `dbms` to its `base`, for throughput, CPU and
    instructions, with verdicts. Base and dbms are paired by round. The verdicts of all pairs are corrected
    together."""
    without = [step for steps in left_out(study).values() for step in steps]
    values = with_counts(measured(study, COMPARED), study).filter(~pl.col("step").is_in(without))
    distinct = pairs.select("base", "dbms").unique(maintain_order=True)
    return means_of(rounds_of_pairs(values, distinct.rows()), "pair")


def pairs_by_option(flavours: pl.DataFrame) -> pl.DataFrame:
    """One row per pair of builds that differ in one compiler option alone: `option` is that option, `change`
    describes the difference, such as `PGO` or `clang in place of gcc`, and `beside` has the options that both builds
    share. The columns of facts are those of the base; `base_name` and `name` are the flavours of base and me."""
    frames = []
    for option in OPTIONS:
        shared = [name for name in OPTIONS if name != option]
        common = ["host", "version", "config", *shared]
        both = flavours.join(flavours, on=common, suffix="_me", maintain_order="left_right")
        base, me = pl.col(option), pl.col(f"{option}_me")
        first, second = ("gcc", "clang") if option == "family" else ("no", "yes")
        is_pair = base < me if option == "optimization" else (base == first) & (me == second)
        change = pl.lit(_WORDS[option]) if option in _WORDS else pl.format("{} in place of {}", me, base)
        compiler = pl.concat_str([name for name in shared if name not in _WORDS], separator=" ")
        words = (pl.when(pl.col(name) == "yes").then(pl.lit(_WORDS[name])) for name in _WORDS if name != option)
        columns = {"base": "dbms", "dbms": "dbms_me", "base_name": "flavour", "name": "flavour_me"}
        in_words = {"option": pl.lit(option), "change": change, "beside": _listed(compiler, *words)}
        frames.append(both.filter(is_pair).select("host", "version", "config", *OPTIONS, **in_words, **columns))
    return pl.concat(frames)


def effects_of_options(study: Study) -> pl.DataFrame:
    """The pairs of `pairs_by_option`, each with the geometric mean, over the steps, of the ratio of throughput."""
    pairs = pairs_by_option(flavours(study))
    means = means_of_pairs(study, pairs).filter(metric=THROUGHPUT)
    return pairs.join(means, on=["host", "base", "dbms"], maintain_order="left")
