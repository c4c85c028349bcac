"""Sentences that answer the question of a study: the overall change, the largest regression and gain, and causes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from rqps import stats
from rqps.numbers import change, counted, formatted
from rqps.show import (
    Claim,
    Clause,
    Row,
    few_rounds,
    finding,
    in_order,
    joined,
    listed,
    phrase,
    rounds_of,
    verdict_counts,
)
from rqps.show.mean_parts import by_work, key_of, one_step, signed
from rqps.show.sentences import (
    CELL,
    CHANGED,
    DIFFERS,
    IN_WORDS,
    REGRESSED,
    by_layout_alone,
    came_from,
    counted_rows,
    in_one,
)
from rqps.show.words import change_interval, smallest_effect, verdict_words
from rqps.stats.metrics import CPU, THROUGHPUT
from rqps.stats.summary import ALL_PARTS, OVER_ALL
from rqps.store.read import Study

MOST_NAMED = 4
"""Maximum number of dbms or steps that a list names; if there are more, their number is given."""
FEWEST_BROUGHT = 4
"""Minimum number of releases for a sentence on the changes from release to release. For fewer releases, the first
sentence has all changes."""
_NO_CHANGE = {"same": ("matches", "match"), "unsure": ("is inconclusive against", "are inconclusive against")}
_NOUNS = {"releases": "releases", "breakdown": "releases", "builds": "builds"}
"""Maps kinds of questions to the plural noun for the compared dbms."""
_MOST = {("slower", THROUGHPUT): "lowest", ("faster", THROUGHPUT): "highest"}
_MOST |= {("slower", CPU): "highest", ("faster", CPU): "lowest"}

_BEFORE = {
    ("slower", THROUGHPUT): ("slower", "slowest"),
    ("faster", THROUGHPUT): ("faster", "fastest"),
    ("slower", CPU): ("more expensive", "most expensive"),
    ("faster", CPU): ("cheaper", "cheapest"),
}
"""Words for changes of a dbms older than the base, which can be slower or faster than the base, but can't have
regressed or improved."""


@dataclass(frozen=True, eq=False)
class Overall:
    """A study and its comparisons. The sentences are about `metric`; other metrics are only mentioned in addition."""

    study: Study
    compared: pl.DataFrame
    decided: pl.DataFrame
    """One row per comparison, in the metric that gives its verdict: throughput or, if the comparison of throughput is
    unsure, a cost per operation."""
    metric: str
    short: Mapping[str, str]
    """Maps dbms to short names."""
    full: Mapping[str, str]

    @cached_property
    def base(self) -> str:
        return self.study.card.base

    @cached_property
    def options(self) -> dict[str, str]:
        """Maps dbms to the differences of their configs from the base's, in words."""
        return dict(stats.names(self.study).select("dbms", "change").iter_rows())

    @cached_property
    def asks(self) -> str:
        return stats.asks(self.study)

    @cached_property
    def steps(self) -> list[str]:
        """The steps that the means are taken over, in order."""
        without = {step for steps in stats.left_out(self.study).values() for step in steps}
        return [step for step in self.compared["step"].unique(maintain_order=True) if step not in without]

    @cached_property
    def extremes(self) -> pl.DataFrame:
        """The comparisons from which the largest regression and gain are chosen: comparisons of the dbms in the first
        sentence and, if there are means, only in the steps of the means."""
        of_others = self.compared.filter(pl.col("dbms").is_in(self.others), base=self.base)
        return of_others.filter(pl.col("step").is_in(self.steps)) if self.steps else of_others

    @cached_property
    def judged(self) -> pl.DataFrame:
        """The comparisons that the sentences count: the rows of `decided` that are in `extremes`."""
        return self.decided.join(self.extremes.select(CELL[:-1]).unique(), on=CELL[:-1], how="semi")

    @cached_property
    def without(self) -> str:
        """The words "without other configs" if the sentences do not count all dbms; else empty."""
        return "without other configs" * (set(self.decided["dbms"]) > set(self.judged["dbms"]))

    @cached_property
    def within(self) -> str:
        return smallest_effect(self.compared)

    @cached_property
    def hosts(self) -> list[str]:
        return self.compared["host"].unique(maintain_order=True).to_list()

    @cached_property
    def means(self) -> pl.DataFrame:
        return stats.means(self.study).filter(metric=self.metric)

    @cached_property
    def older(self) -> set[str]:
        """The dbms with a version older than the base's."""
        versions = dict(self.study.runs.select("dbms", "version").iter_rows())
        ordered = stats.version_order(self.study.runs)["dbms"].to_list()
        before = ordered[: ordered.index(self.base)]
        return {dbms for dbms in before if versions[dbms] != versions[self.base]}

    @cached_property
    def others(self) -> list[str]:
        """The dbms that the first sentence compares with the base: in a study of releases or builds, the dbms with
        the base's config, if there are any; otherwise all dbms."""
        every = [dbms for dbms in self.short if dbms in set(self.compared["dbms"])]
        configs = self.study.configs
        alike = [dbms for dbms in every if configs[dbms] == configs[self.base]]
        return alike if self.asks in ("releases", "builds", "breakdown") and alike else every

    def place(self, host: str) -> str:
        return host if len(self.hosts) > 1 else ""

    def in_all(self) -> list[Clause]:
        """Sentences on the means, the releases that changed them, the means by kind of work, and the means by number
        of clients; then on the largest regression and gain. A study that tries one change (a what-if) has only
        sentences on that change."""
        if tried := self._what_if():
            return tried
        parts = (self._in_all, self._brought, self._by_work, self._by_clients)
        clauses = [part(host) for host in self.hosts for part in parts]
        return [*filter(None, clauses), self._extremes()]

    def causes(self) -> list[Clause]:
        """Sentences on the gains and losses of configs other than the base's."""
        clauses = [clause for host in self.hosts for clause in self._configs(host)]
        return list(filter(None, clauses))

    def _in_all(self, host: str) -> Clause | None:
        """A sentence on each dbms's mean over the steps, or on its ratio if there is only one step."""
        of_base = self.means.filter(OVER_ALL, host=host, relation="base")
        rows, frame = of_base, "means"
        if of_base.is_empty() and len(self.steps) == 1:
            rows = self.compared.filter(host=host, metric=self.metric, step=self.steps[0])
            frame = "compared"
        rows = rows.filter(pl.col("dbms").is_in(self.others))
        if rows.is_empty():
            return None
        over = self._over(rows["steps"].to_list()) if frame == "means" else f"For {self.steps[0]} "
        ordered = {dbms: place for place, dbms in enumerate(self.others)}
        rows = rows.sort(pl.col("dbms").replace_strict(ordered, return_dtype=pl.Int32))
        verb, less, more = IN_WORDS[self.metric]
        base = in_one(self.short[self.base])
        groups = [
            ("slower", less if self.metric == THROUGHPUT else more),
            ("faster", more if self.metric == THROUGHPUT else less),
        ]
        clauses: list[str] = []
        for verdict, what in groups:
            changed = rows.filter(verdict=verdict).to_dicts()
            if changed:
                than, of_first = ("", self.short) if clauses else (f" than {base}", self.full)
                clauses.append(self._changes(changed, verb, f"{what}{than}", frame, of_first))
        for verdict, verbs in _NO_CHANGE.items():
            if alike := [self._undecided(row, frame) for row in rows.filter(verdict=verdict).to_dicts()]:
                names = listed(alike) if len(alike) <= MOST_NAMED else joined("", [f"{len(alike)} others"])
                within = f" within {self.within}" * (verdict == "same")
                clauses.append(phrase("{} {} {}{}", names, verbs[len(alike) > 1], base, within))
        clauses[0] = phrase("{}{}", over, clauses[0])
        text = phrase("{} ({})", joined("; ", clauses), self._exactness(rows, frame))
        named, of_named = self._named(host)
        return finding(text, one_step(of_named, self.short.get(named, "")), place=self.place(host))

    def _what_if(self) -> list[Clause]:
        """A sentence on the change that a what-if tries, for each comparison with the base; empty for other
        studies."""
        what_if = self.study.card.what_if
        rows = self.compared.filter(pl.lit(what_if is not None), metric=self.metric, base=self.base).to_dicts()
        texts: list[Clause] = []
        for row in rows:
            place, last = self.place(row["host"]), self.short[row["dbms"]] if len(rows) > 1 else ""
            head = f"With {what_if.change if what_if else ''}{f' ({last})' * bool(last)}, {row['step']}"
            base, reach = self.full[self.base], _reach(row)
            if row["verdict"] in CHANGED:
                verb, *_ = IN_WORDS[self.metric]
                what = IN_WORDS[self.metric][2 if row["estimate"] > 1 else 1]
                text = "{} {}s {} {} than on {}{}{}"
                texts.append(phrase(text, head, verb, _share(row, "compared"), what, base, reach, self._beside(row)))
            else:
                says = f"is unchanged within {self.within}" if row["verdict"] == "same" else "is inconclusive"
                claim = counted_rows("compared", 1, **key_of(row, "compared"), verdict=row["verdict"])
                texts.append(Clause(f"{head} {says} against {base}{reach}", [claim]))
            texts[-1] = finding(texts[-1], place=place)
        return texts

    def _undecided(self, row: Row, frame: str) -> Clause:
        """The name of a dbms whose verdict is same or unsure, with the claim that it has this verdict."""
        claim = counted_rows(frame, 1, **key_of(row, frame), verdict=row["verdict"])
        return Clause(in_one(self.short[row["dbms"]]), [claim])

    def _over(self, numbers: Sequence[int]) -> str:
        """The words for the steps of means over these `numbers` of steps: a dbms may lack some steps."""
        kind = "single-client steps" if set(self.compared["clients"]) == {1} else "steps"
        if (fewest := min(numbers)) < len(self.steps):
            most = f" to {max(numbers)}" * (fewest < max(numbers))
            return f"Over {fewest}{most} of {len(self.steps)} {kind} "
        named = f" ({', '.join(self.steps)})" if len(self.steps) <= MOST_NAMED else ""
        return f"Over {len(self.steps)} {kind}{named} "

    def _changes(self, rows: Sequence[Row], verb: str, what: str, frame: str, names: Mapping[str, str]) -> Clause:
        """The changes of several dbms: `Toy 8.0 delivers 11 % and 9.7 delivers 9.1 % less throughput`; for many dbms,
        their number and the smallest and largest change. The first dbms is named as in `names`, the others by their
        short names."""
        if len(rows) <= MOST_NAMED:
            first, *others = rows
            named = [phrase(f"{{}} {verb}s {{}}", names[first["dbms"]], _share(first, frame))]
            named += [
                phrase(f"{{}} {verb}s {{}}", in_one(self.short[row["dbms"]]), _share(row, frame)) for row in others
            ]
            return phrase("{} {}", listed(named), what)
        by_size = sorted(rows, key=lambda row: abs(row["estimate"] - 1))
        of = f"all {len(rows)}" if len(rows) == len(self.others) else f"{len(rows)} of {len(self.others)}"
        (least, of_least), (most, of_most) = ((row["dbms"], _share(row, frame)) for row in (by_size[0], by_size[-1]))
        last = [row for row in rows if [row["dbms"]] == self.last and row["dbms"] not in (least, most)]
        text = f"{{}} {verb} {{}} ({names[least]}) to {{}} ({self.short[most]}) {what}{{}}"
        of_last = phrase(", {} {}", self.short[last[0]["dbms"]], _share(last[0], frame)) if last else ""
        return phrase(text, f"{of} {_NOUNS.get(self.asks, 'dbms')}", of_least, of_most, of_last)

    def _exactness(self, rows: pl.DataFrame, frame: str) -> Clause:
        kind = "geometric means, " if frame == "means" else ""
        if frame != "means" or rows["half"].null_count():
            return Clause(f"{kind}{rounds_of(rows['n'])}")
        half = float(rows["half"].max())  # type: ignore[arg-type]
        claim = Claim(
            "means",
            {"relation": "base", "metric": self.metric, **ALL_PARTS, "host": rows["host"][0]}
            | {"dbms": rows["dbms"].to_list()},
            half,
            "half",
            "highest",
            f"{formatted(100 * (half - 1), '.1f')} points",
        )
        return Clause(f"{kind}± {claim.written}, {rounds_of(rows['n'])}", [claim])

    def _by_clients(self, host: str) -> Clause | None:
        """A sentence with the mean for each number of clients, for the dbms that `_named` chooses."""
        dbms, rows = self._named(host)
        parts = [
            phrase("{} with {}", signed(row, "means"), counted(row["clients"], "client"))
            for row in rows.drop_nulls("clients").sort("clients").to_dicts()
        ]
        if not parts:
            return None
        says = phrase("By clients, the {} of {}: {}", self._measure(), self.full[dbms], listed(parts))
        return finding(says, place=self.place(host))

    def _by_work(self, host: str) -> Clause | None:
        """A sentence with the means by kind of work, for the dbms that `_named` chooses. None if all kinds of work
        agree and no step differs from the others of its kind."""
        dbms, rows = self._named(host)
        if not (works := by_work(rows)):
            return None
        says = phrase("By kind of work, the {} of {}: {}", self._measure(), self.full[dbms], works)
        return finding(says, place=self.place(host))

    @cached_property
    def last(self) -> list[str]:
        """The last release, in a study of releases."""
        return stats.releases(self.study)[-1:] if self.asks in ("releases", "breakdown") else []

    def _named(self, host: str) -> tuple[str, pl.DataFrame]:
        """The dbms for the sentences on the means by kind of work and by number of clients, with its means. It is the
        last release or, in a study that does not compare releases, the dbms whose mean is farthest from 1."""
        rows = self.means.filter(pl.col("dbms").is_in(self.others), host=host, relation="base")
        by_distance = rows.filter(OVER_ALL).sort(pl.col("estimate").log().abs())["dbms"].to_list()
        dbms = next((dbms for dbms in (*self.last, *by_distance[-1:]) if dbms in by_distance), "")
        return dbms, rows.filter(dbms=dbms)

    def _measure(self) -> str:
        return "throughput" if self.metric == THROUGHPUT else "CPU per operation"

    def _extremes(self) -> Clause:
        """A sentence on the largest regression and the largest improvement, both in one metric, and on the number
        of comparisons with each verdict."""
        changes = self.judged.filter(pl.col("verdict").is_in(list(CHANGED)))
        if changes.is_empty():
            says = verdict_counts(self.judged["verdict"], "decided", self.cells(self.judged), within=self.within)
            return finding(phrase("No change is shown, neither in throughput nor in cost per operation: {}", says))
        slower, faster = (changes.filter(verdict=verdict).height for verdict in CHANGED)
        order = ("slower", "faster") if slower >= faster else ("faster", "slower")
        # A change that only instructions show is in neither direction's rows.
        most = self._by_size(order[0]) or self._by_size(order[1])
        rows = [most]
        if most and most[0]["verdict"] == order[0]:
            # The largest change in the other direction is taken from the same metric: the sizes of changes of
            # throughput and of CPU can't be compared.
            rows.append(self._by_size(order[1], most[0]["metric"]))
        counts = self._counts() if self.judged.height > 1 or not most else Clause("")
        return finding(*map(self._most, filter(None, rows)), counts)

    def cells(self, rows: pl.DataFrame) -> dict[str, list[str]]:
        """The steps, bases and dbms that rows have, for claims on the number of these rows."""
        return {name: in_order(rows[name]) for name in ("step", "base", "dbms")}

    def _counts(self) -> Clause:
        """The number of comparisons with each verdict in the headline's metric, as in the tables. Also names the
        comparisons that are inconclusive by throughput but decided by cost per operation."""
        rows = self.extremes.filter(metric=self.metric)
        if rows.height < self.judged.height:  # some comparisons were not measured in this metric
            rows, frame, of = self.judged, "decided", self.cells(self.judged)
        else:
            frame, of = "compared", self.cells(rows) | {"metric": [self.metric]}
        words = DIFFERS if self.older else REGRESSED
        if self.older and self.metric == CPU:
            words = {way: (f"is {word}", f"are {word}") for way, word in verdict_words(CPU).items() if way in CHANGED}
        counts = verdict_counts(rows["verdict"], frame, of, words, self.within)
        return phrase(
            "{}{}{}", f"{self.without}, " * bool(self.without), counts, self._by_cost() if frame == "compared" else ""
        )

    def _by_cost(self) -> Clause:
        """Names the comparisons that are inconclusive by throughput but have a verdict by cost per operation."""
        by_cost = self.judged.filter(pl.col("verdict") != "unsure", pl.col("metric") != THROUGHPUT)
        if by_cost.is_empty() or self.metric != THROUGHPUT:
            return Clause("")
        parts = []
        for verdict, word in (verdict_words(CPU) | {"same": "unchanged"}).items():
            rows = by_cost.filter(verdict=verdict)
            cells = [(row["step"], in_one(self.short[row["dbms"]])) for row in rows.head(MOST_NAMED).to_dicts()]
            named = [f"{step} of {dbms}" for step, dbms in cells]
            named += [counted(rows.height - MOST_NAMED, "other")] * (rows.height > MOST_NAMED)
            of = self.cells(rows) | {"metric": rows["metric"].unique().to_list(), "verdict": verdict}
            parts += [Clause(f"{listed(named)} {word}", [counted_rows("decided", rows.height, **of)])] * bool(named)
        return phrase(", of which cost per operation decides {}: {}", by_cost.height, listed(parts))

    def worst(self) -> Row | None:
        """The comparison with the largest change in the direction (regression or gain) that is more frequent; None if
        nothing changed."""
        changes = self.judged.filter(pl.col("verdict").is_in(list(CHANGED)))
        slower, faster = (changes.filter(verdict=verdict).height for verdict in CHANGED)
        for verdict in ("slower", "faster") if slower >= faster else ("faster", "slower"):
            if rows := self._by_size(verdict):
                return rows[0]
        return None

    def _by_size(self, verdict: str, metric: str = "") -> Sequence[Row]:
        """The rows with the given verdict in one metric, the largest change first. If `metric` is empty, the
        headline's metric, throughput and CPU are tried in this order until one has such rows."""
        for of in [metric] if metric else dict.fromkeys((self.metric, THROUGHPUT, CPU)):
            rows = self.extremes.filter(metric=of, verdict=verdict)
            if not rows.is_empty():
                descending = _MOST[verdict, of] == "highest"
                return rows.sort("estimate", descending=descending, maintain_order=True).to_dicts()
        return []

    def _most(self, rows: Sequence[Row]) -> Clause:
        row, verdict = rows[0], rows[0]["verdict"]
        of = {"metric": row["metric"], "verdict": verdict, "base": self.base, "dbms": self.others}
        of |= {"step": self.extremes["step"].unique(maintain_order=True).to_list()}
        most = Claim("compared", of, row["estimate"], reading=_MOST[verdict, row["metric"]])  # type: ignore[arg-type]
        dbms, several = self.short[row["dbms"]], len(rows) > 1
        says = f"{CHANGED[verdict]}{' most' * several}: {dbms}"
        if row["dbms"] in self.older:
            older = f"{dbms}, which is older than {self.short[self.base]}"
            says = f"is {_BEFORE[verdict, row['metric']][several]} in {older}:"
        what = "" if row["metric"] == THROUGHPUT else " of CPU per operation"
        place = f" on {row['host']}" if len(self.hosts) > 1 else ""
        beside = self._beside(row)
        alike = self._about_as_much(row, rows[1:])
        text = phrase(
            "{} {} {}{}{}{}{}{}",
            *(row["step"], says, signed(row, "compared"), what, place),
            *(_reach(row), beside, f", and {alike} about as much" * bool(alike)),
        )
        return Clause(phrase("{}{}", text, beyond := self._beyond(row)), [*text.claims, *beyond.claims, most])

    def _beyond(self, row: Row) -> Clause:
        """Names the dbms, if any, whose change in the same step and direction is larger, but inconclusive."""
        cell = {name: row[name] for name in ("host", "step", "metric")}
        estimate, is_less = pl.col("estimate"), row["estimate"] < 1
        further = estimate < row["estimate"] if is_less else estimate > row["estimate"]
        rows = self.extremes.filter(further, verdict="unsure", **cell).to_dicts()
        named = [phrase("{} {}", in_one(self.short[one["dbms"]]), signed(one, "compared")) for one in rows]
        return phrase(" (larger, but inconclusive: {})", listed(named)) if named else Clause("")

    def _about_as_much(self, row: Row, others: Sequence[Row]) -> str:
        """Names the comparisons whose interval overlaps the interval of `row`: by step if all have the dbms of `row`,
        by dbms if all have the step of `row`, else by both. If there are many, gives the number of comparisons."""
        overlaps = [
            other
            for other in others
            if other["host"] == row["host"] and other["low"] <= row["high"] and row["low"] <= other["high"]
        ]
        names = [{"step": other["step"], "dbms": in_one(self.short[other["dbms"]])} for other in overlaps]
        common = [name for name in ("step", "dbms") if all(other[name] == row[name] for other in overlaps)]
        named = [" of ".join(text for name, text in one.items() if name not in common[:1]) for one in names]
        if len(named) <= MOST_NAMED:
            return listed(named)
        steps = in_order(other["step"] for other in overlaps)
        of = listed(steps) if len(steps) <= MOST_NAMED else f"{len(steps)} steps"
        return f"{len(named)} other comparisons of {of}"

    def _beside(self, row: Row) -> Clause:
        """The change in CPU for the step and dbms of `row` if `row` is on throughput, else the change in throughput;
        empty if there is no decided change."""
        other = CPU if row["metric"] == THROUGHPUT else THROUGHPUT
        cell = {name: row[name] for name in CELL} | {"metric": other}
        beside = self.compared.filter(**cell).filter(pl.col("verdict").is_in(list(CHANGED))).to_dicts()
        what = "CPU per operation" if other == CPU else "throughput"
        return phrase(", {} {}", what, signed(beside[0], "compared")) if beside else Clause("")

    def _brought(self, host: str) -> Clause | None:
        """A sentence on the releases that changed the geometric mean over the steps, or the only step. None if
        nothing changed, or if the study has so few releases that the first sentence names all changes."""
        of_host = stats.courses_of(self.study).summary.filter(host=host, metric=self.metric)
        course = of_host.filter(pl.col("step").is_in([stats.ALL_STEPS, *self.steps[: len(self.steps) == 1]]))
        if self.asks not in ("releases", "breakdown") or course.is_empty() or course["course"][0] == "flat":
            return None
        if course["first"][0] == self.base and len(stats.releases(self.study)) < FEWEST_BROUGHT:
            return None
        row = course.row(0, named=True)
        cell = {name: row[name] for name in ("host", "step", "metric")}
        changes = stats.courses_of(self.study).changes.filter(**cell).to_dicts()
        says = came_from(row, changes, self.short)
        few = few_rounds(stats.courses_of(self.study).points.filter(**cell)["n"])
        text = "By release, each since the one measured before: {}"
        return phrase("{}{}", finding(phrase(text, says), place=self.place(host)), few)

    def _configs(self, host: str) -> Iterator[Clause]:
        """A sentence for each config that the headline leaves out: the gain or loss of each build under this config,
        against the same build under the base's config."""
        of_base = self.means.filter(OVER_ALL, host=host)
        within = of_base.filter(~pl.col("dbms").is_in(self.others), relation="config")
        to_base = {row["dbms"]: row for row in of_base.filter(relation="base").to_dicts()}
        by_config: dict[str, list[Row]] = {}
        for row in within.to_dicts():
            by_config.setdefault(self.study.configs[row["dbms"]], []).append(row)
        for config, rows in by_config.items():
            options = self.options[rows[0]["dbms"]] or config
            # If possible, the sentence has two means relative to the study's base for each build: under the base's
            # config, and under this config. The study's base has no mean relative to itself. So if its build has
            # this config, too, the sentence has each build's change from the base's config to this config instead.
            alone = all(row["base"] in to_base for row in rows) and any(row["verdict"] in CHANGED for row in rows)
            moved = listed([self._moved(row, to_base if alone else {}) for row in rows])
            what = self._measure()
            beside = f"relative to {self.short[self.base]}" if alone else "within a release"
            yield finding(phrase("With {}, {} {}: {}", options, what, beside, moved), place=self.place(host))

    def _moved(self, row: Row, to_base: Mapping[str, Row]) -> Clause:
        who = self.short[row["base"]]
        if row["verdict"] not in CHANGED:
            says = {"unsure": "is inconclusive", "same": f"changes by less than {self.within}"}[row["verdict"]]
            of_verdict = counted_rows("means", 1, **key_of(row, "means"), verdict=row["verdict"])
            return Clause(f"{who} {says} ({change_interval(row)})", [of_verdict])
        before, after = to_base.get(row["base"]), to_base.get(row["dbms"])
        if before is None or after is None:  # the base has no row in the means, since its mean is 1
            gains, loses = ("gains", "loses") if self.metric == THROUGHPUT else ("saves", "needs another")
            verb = gains if row["verdict"] == "faster" else loses
            return phrase("{} {} {} ({})", who, verb, _share(row, "means"), change_interval(row))
        verb = "recovers" if row["verdict"] == "faster" else "falls"
        return phrase("{} {} from {} to {}", who, verb, signed(before, "means"), signed(after, "means"))


def names_of(study: Study) -> tuple[dict[str, str], dict[str, str]]:
    """Maps dbms to short names, and dbms to full names."""
    named = stats.names(study)
    return dict(named.select("dbms", "short").iter_rows()), dict(named.select("dbms", "name").iter_rows())


def not_measured(study: Study) -> Clause:
    """A sentence that names every dbms that has no results, with the reason if it is known."""
    missing = [dbms for dbms in study.card.dbms if dbms not in set(study.runs["dbms"])]
    failed = set(study.failed["dbms"]) if not study.failed.is_empty() else set()
    reasons = [
        f"{dbms} ({study.card.absent.get(dbms) or ('its runs failed' if dbms in failed else 'no run has finished')})"
        for dbms in missing[:MOST_NAMED]
    ]
    if len(missing) > MOST_NAMED:
        reasons.append(f"{len(missing) - MOST_NAMED} more")
    return finding(f"Not measured: {listed(reasons)}") if reasons else Clause("")


def steps_left_out(study: Study) -> Clause:
    """A sentence on the steps that the means leave out, with the reason."""
    parts = [
        f"{listed(steps) if len(steps) <= MOST_NAMED else f'{len(steps)} steps ({steps[0]} to {steps[-1]})'}, which "
        f"{reason if len(steps) > 1 else _singular(reason)}"
        for reason, steps in stats.left_out(study).items()
    ]
    return finding(f"Left out of the means: {'; '.join(parts)}") if parts else Clause("")


def _singular(reason: str) -> str:
    verb, rest = reason.split(" ", 1)
    return f"{verb}s {rest}".replace("they", "it")


def _share(row: Row, frame: str) -> Clause:
    """The change from the base without its sign, such as `11.1 %`."""
    written = change(row["estimate"]).lstrip("+−")
    return Clause(written, [Claim(frame, key_of(row, frame), row["estimate"], written=written)])


def _reach(row: Row) -> Clause:
    """The interval and rounds in brackets, such as ` (−19.8 to −15.7 %, 8 rounds)`. If the change is not larger than
    the largest change between two layouts of a build, the brackets also have that largest change."""
    parts = (Clause(change_interval(row)), Clause(rounds_of([row["n"]])), by_layout_alone(row))
    return phrase(" ({})", joined(", ", filter(None, parts)))
