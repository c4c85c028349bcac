"""Readable names of dbms: the engine, the version that the server reported, and the options in which the config
differs from the base's config."""

import re
from collections.abc import Iterable
from itertools import chain

import polars as pl

from rqps.engines import facts_of
from rqps.stats.conditions import asked_options
from rqps.stats.flavours import differences_of_builds
from rqps.store.read import Study

MOST_OPTIONS = 2
"""Maximum number of changed options that the name of a dbms lists. If a config changes more options, the names of
its dbms have the name of the config in place of the options; the full name of the base has neither."""
LONGEST = 48
"""Maximum length of an option with its value in the name of a dbms, in characters. If one option is longer, the name
has the name of the config in place of all options."""
_VERSION = re.compile(r"\d+(\.\d+)+")


def names(study: Study) -> pl.DataFrame:
    """One row per dbms, in the study's order: `dbms, name, short, change`, such as `Toy 8.0.33, cache_size=64M`;
    `change` is the difference of its config from the base's, and empty for the base's config.

    A short name leaves out the engine if all dbms share it, and the version if all share one build. Builds of one
    version are distinguished by how they were compiled, as in `Toy 8.0.33 by gcc -O2, LTO`, and the short name is
    `gcc -O2, LTO` if all dbms of the study have this version. If the compilation is unknown or the same, builds are
    distinguished by the names that runs.yaml gives them. A build of unknown version is called by that name alone.
    """
    columns = ["dbms", "engine", "build", "config", "version", "listed"]
    runs = study.runs.select(columns).unique("dbms", keep="first").sort("listed", "dbms")
    engines, of_version = runs["engine"].n_unique(), runs.select("engine", "build", "version").unique()
    several_builds = {version for version, count in of_version.group_by("version").len().iter_rows() if count > 1}
    one_build, compiled = of_version.height == 1, differences_of_builds(study)
    compiled_alone = compiled.keys() == {*runs["dbms"]} and of_version["version"].n_unique() == 1
    changes = _changes(study, runs)
    if one_build and study.card.base in changes:  # it has no runs yet otherwise
        changes[study.card.base] = changes[study.card.base] or _of_base(study, changes)
    rows = []
    for dbms, engine, build, config, version, _ in runs.iter_rows():
        number = match[0] if (match := _VERSION.match(version or "")) else ""
        named = f"{number} ({build})" if number and version in several_builds else number or build
        title = facts_of(engine).title
        named = f"{number} by {compiled[dbms]}" if number and dbms in compiled else named
        full = ", ".join(filter(None, (f"{title} {named}", changes[dbms])))
        of_engine = f"{title} {named}" if engines > 1 else compiled[dbms] if compiled_alone else named
        short = changes[dbms] or config if one_build else ", ".join(filter(None, (of_engine, changes[dbms])))
        rows.append((dbms, full, short, changes[dbms]))
    schema = dict.fromkeys(("dbms", "name", "short", "change"), pl.String)
    return _distinct(pl.DataFrame(rows, schema=schema, orient="row"))


def short_names(study: Study) -> dict[str, str]:
    """Maps each dbms to its short name, for table heads, axes and legends; a base without runs keeps its own name."""
    short = dict(names(study).select("dbms", "short").iter_rows())
    short.setdefault(study.card.base, study.card.base)
    return short


def _changes(study: Study, runs: pl.DataFrame) -> dict[str, str]:
    """Maps each dbms to the difference of its config from the base's, in words; empty for the base's config."""
    config_of_base = study.configs.get(study.card.base, "")
    options: dict[str, dict[str, str]] = {dbms: {} for dbms in runs["dbms"]}
    for dbms, _, name, value in asked_options(study.conditions).iter_rows():
        options.setdefault(dbms, {})[name] = value
    changes = {}
    for dbms, engine, build, config in runs.select("dbms", "engine", "build", "config").iter_rows():
        mine, others = options[dbms], options.get(f"{build}.{config_of_base}")
        scenarios = facts_of(engine).scenarios
        words = _scenario(scenarios.KEY, scenarios.SWITCH, mine)
        if others is None:
            changes[dbms] = words or config
            continue
        differ = [name for name in sorted({*mine, *others}) if mine.get(name) != others.get(name)]
        own = [
            f"{name}={mine.get(name, 'its default')}"
            for name in differ
            if name not in (scenarios.KEY, scenarios.SWITCH)
        ]
        changed = [*filter(None, [words]), *own]
        long = len(changed) > MOST_OPTIONS or any(len(text) > LONGEST for text in changed)
        changes[dbms] = config if long else ", ".join(changed)
        if differ and not changed:
            changes[dbms] = f"{_switch(scenarios.SWITCH)} on" if scenarios.SWITCH in differ else config
    return changes


def _of_base(study: Study, dbms: Iterable[str]) -> str:
    """The options that other configs of the base's build change, with the base's values, in words; empty if there are
    too many of them."""
    options: dict[str, dict[str, str]] = {name: {} for name in dbms}
    for of, _, name, value in asked_options(study.conditions).iter_rows():
        options.setdefault(of, {})[name] = value
    asked = options[study.card.base]
    values = {name: {of.get(name) for of in options.values()} for name in sorted({*chain(*options.values())})}
    varied = [name for name, of in values.items() if len(of) > 1]
    (scenarios,) = {facts_of(engine).scenarios for engine in study.runs["engine"].unique()}
    recorded = {scenarios.KEY, scenarios.SWITCH}
    shown = [name for name in varied if name in asked] or varied
    words = [f"{name}={asked.get(name, 'its default')}" for name in shown if name not in recorded]
    if recorded & {*shown}:
        words.insert(0, f"{_switch(scenarios.SWITCH)} {asked.get(scenarios.SWITCH, 'as it comes').lower()}")
    return "" if len(words) > MOST_OPTIONS or any(len(text) > LONGEST for text in words) else ", ".join(words)


def _scenario(key: str, switch: str, options: dict[str, str]) -> str:
    """A phrase for a config's scenario, or for the recording that the config switches off; empty without either."""
    if key in options:
        return f"{_switch(switch)} {options[key].replace('-', ' ')}"
    return f"{_switch(switch)} off" if options.get(switch) == "OFF" else ""


def _switch(name: str) -> str:
    return name.replace("_", " ")


def _distinct(named: pl.DataFrame) -> pl.DataFrame:
    """Appends the dbms, in brackets, to names that two dbms share."""
    distinguished = [
        pl.when(pl.col(column).is_unique()).then(column).otherwise(pl.format("{} ({})", column, "dbms")).alias(column)
        for column in ("name", "short")
    ]
    return named.with_columns(distinguished)
