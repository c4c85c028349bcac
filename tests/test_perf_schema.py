"""Scenarios of the performance schema: what they ask for, of each version, without servers."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rqps.engines.mysql.build import Build
from rqps.engines.mysql.events import DIGEST, by_kind, differences, mistaken
from rqps.engines.mysql.perf_schema import (
    Scenario,
    ScenarioSpec,
    State,
    Switch,
    absent,
    decides,
    fits,
    named,
    names,
    scenario,
)
from rqps.engines.mysql.reports import Found, Known
from rqps.engines.mysql.scenario import Realised, realise, refuse_too_large
from rqps.errors import RqpsError

NINE = (
    *("all-disabled", "all-enabled", "default", "stages-and-statements"),
    *(f"{value}-only" for value in ("mdl", "memory", "stages", "statements", "waits")),
)
FINER = ("statements-without-digests", "transactions-only")
INSTRUMENTS: dict[str, State] = {
    "wait/synch/mutex/sql/LOCK_open": "off",
    "wait/synch/rwlock/sql/LOCK_grant": "off",
    "wait/io/file/sql/binlog": "timed",
    "wait/io/table/sql/handler": "timed",
    "wait/lock/metadata/sql/mdl": "timed",
    "stage/sql/init": "off",
    "statement/sql/select": "timed",
    "transaction": "timed",
    "memory/sql/THD::main_mem_root": "counted",
    "memory/performance_schema/threads": "counted",
    "error": "counted",
}
EVENTS_OF = [f"events_{kind}" for kind in ("stages", "statements", "transactions", "waits")]
ALWAYS_ON = ("global_instrumentation", "thread_instrumentation", "statements_digest")
CONSUMERS = {
    f"{events}_{reach}": events in EVENTS_OF[1:3] and reach != "history_long"
    for events in EVENTS_OF
    for reach in ("current", "history", "history_long")
} | dict.fromkeys(ALWAYS_ON, True)
KNOWN = Known(INSTRUMENTS, CONSUMERS, thread_classes={"thread/sql/main": True})
OF_5_5 = Known(
    {"wait/synch/mutex/sql/LOCK_open": "timed", "wait/io/file/sql/binlog": "timed"},
    {"events_waits_current": True, "events_waits_history": True, "file_summary_by_instance": True},
)


def build(version: str) -> Build:
    return Build("mine", version, "somewhere", Path("/opt"), Path("/opt/mysqld"), ("/opt/mysqld",), "0" * 64)


def put(asked: Scenario, known: Known = KNOWN, version: str = "8.0.33") -> Realised:
    return realise(asked, build(version), known, config="ps")


def own(**asked: object) -> Scenario:
    return scenario(ScenarioSpec.model_validate(asked))


def as_asked(asked: Realised) -> Found:
    """The answer of a server that has all that was asked for."""
    return Found(asked.instruments, asked.consumers, asked.others, {}, ())


def test_the_scenarios_of_the_seed_have_names_and_what_they_leave_in_one_and_the_two_that_record_nothing() -> None:
    assert set(names()) == {*NINE, *FINER, "off", "compiled-out"}


def test_only_means_only_but_for_what_can_t_be_disabled() -> None:
    asked = put(named("statements-only"))
    on = {name for name, state in asked.instruments.items() if state != "off"}
    assert on == {"statement/sql/select", "memory/performance_schema/threads"}
    assert {name for name, enabled in asked.consumers.items() if enabled} == {
        "events_statements_current",
        "events_statements_history",
        "events_statements_history_long",
        "global_instrumentation",
        "thread_instrumentation",
        "statements_digest",
    }


def test_statements_without_digests_are_statements_only_but_for_one_consumer() -> None:
    with_them, without = put(named("statements-only")), put(named("statements-without-digests"))
    assert with_them.instruments == without.instruments
    assert set(with_them.consumers.items()) - set(without.consumers.items()) == {("statements_digest", True)}


def test_what_can_t_be_timed_is_counted_when_all_is_enabled() -> None:
    asked = put(named("all-enabled"))
    assert asked.instruments["error"] == asked.instruments["memory/sql/THD::main_mem_root"] == "counted"
    assert asked.instruments["wait/synch/mutex/sql/LOCK_open"] == "timed"


def test_default_is_what_the_release_has_and_needs_no_option() -> None:
    asked = put(named("default"))
    assert (asked.instruments, asked.consumers) == (INSTRUMENTS, CONSUMERS)
    assert (asked.arguments, asked.statements) == ((), ())


def test_at_the_start_threads_stay_watched_and_every_consumer_is_set() -> None:
    arguments = put(named("waits-only")).arguments
    assert arguments[:3] == (
        "--performance-schema-instrument=%=OFF",
        "--performance-schema-instrument=wait/%=ON",
        "--performance-schema-instrument=thread/%=ON",
    )
    assert sum("-consumer-" in argument for argument in arguments) == len(CONSUMERS)
    assert "--performance-schema-consumer-events-waits-history-long=ON" in arguments
    assert "--performance-schema-consumer-statements-digest=OFF" in arguments


def test_a_version_whose_threads_are_no_instruments_is_not_asked_for_them() -> None:
    assert not any(
        "thread/" in argument for argument in put(named("waits-only"), Known(INSTRUMENTS, CONSUMERS)).arguments
    )


def test_5_5_is_set_afterwards_and_consumers_go_off_first() -> None:
    asked = put(named("all-disabled"), OF_5_5, "5.5.34")
    assert asked.arguments == ()
    assert [statement.split()[1] for statement in asked.statements] == [
        "performance_schema.setup_consumers",
        "performance_schema.setup_instruments",
    ]
    assert "enabled = 'NO', timed = 'NO'" in asked.statements[1]


def test_waits_only_is_what_5_5_does_by_itself() -> None:
    assert put(named("waits-only"), OF_5_5, "5.5.34").statements == ()


@pytest.mark.parametrize(
    ("version", "name", "reason"),
    [
        ("5.5.34", "stages-only", "MySQL 5.5.34 has no instruments stage/%; they came with 5.6"),
        (
            "5.5.34",
            "stages-and-statements",
            "MySQL 5.5.34 has no instruments stage/% and statement/%; they came with 5.6",
        ),
        ("5.6.14", "memory-only", "MySQL 5.6.14 has no instruments memory/%; they came with 5.7"),
        ("5.6.14", "mdl-only", "MySQL 5.6.14 has no instruments wait/lock/metadata/sql/mdl; they came with 5.7"),
        ("5.6.14", "transactions-only", "MySQL 5.6.14 has no instruments transaction; they came with 5.7"),
        ("5.6.14", "stages-only", None),
        ("5.5.34", "waits-only", None),
        ("5.5.34", "all-enabled", None),
        ("9.7", "memory-only", None),
    ],
)
def test_a_version_lacks_a_scenario(version: str, name: str, reason: str | None) -> None:
    assert absent(version, named(name)) == reason


def test_of_a_set_of_one_s_own_that_is_optional_something_has_to_be_there() -> None:
    asked = own(instruments={"memory/%?": "counted", "stage/%?": "timed"})
    assert absent("5.5.34", asked) == "MySQL 5.5.34 has none of its instruments"
    assert absent("5.6.14", asked) is None
    assert absent("5.6.14", own(extends="default", consumers={"events_transactions_current": True})) == (
        "MySQL 5.6.14 has no consumers events_transactions_current; they came with 5.7"
    )


def test_a_consumer_that_came_within_a_release_is_in_it_as_long_as_nobody_says_which() -> None:
    asked = own(extends="default", consumers={"events_statements_cpu": True})
    assert absent("8.0", asked) is None
    assert absent("8.0.27", asked) is not None
    assert absent("8.0.28", asked) is None


def test_a_set_extends_a_scenario_and_says_so_in_its_name() -> None:
    asked = own(extends="default", instruments={"wait/synch/%": "counted"}, consumers={"events_waits_%": True})
    assert asked.name == "default, wait/synch/% counted, events_waits_% on"
    realised = put(asked)
    assert realised.instruments["wait/synch/mutex/sql/LOCK_open"] == "counted"
    assert realised.instruments["statement/sql/select"] == "timed"
    assert realised.arguments == (
        "--performance-schema-instrument=wait/synch/%=COUNTED",
        "--performance-schema-instrument=thread/%=ON",
        "--performance-schema-consumer-events-waits-current=ON",
        "--performance-schema-consumer-events-waits-history=ON",
        "--performance-schema-consumer-events-waits-history-long=ON",
    )


def test_a_set_from_nothing_keeps_the_two_consumers_that_all_others_hang_on() -> None:
    asked = put(own(instruments={"wait/io/%": "timed"}))
    assert {name for name, on in asked.consumers.items() if on} == {
        "global_instrumentation",
        "thread_instrumentation",
    }


@pytest.mark.parametrize(
    ("asked", "reported"),
    [
        (
            {"instruments": {"wait/synch/mutex/innodb/buffer_block_mutex": "timed"}},
            "fits no instrument; locks of single pages are left out, unless InnoDB is compiled without PFS_SKIP",
        ),
        (
            {"instruments": {"wait/io/socket/%": "timed"}},
            "this build has none of wait/io/socket, as if configured with -DDISABLE_PSI_SOCKET=1",
        ),
        (
            {"extends": "default", "consumers": {"event_waits_current": True}},
            "event_waits_current fits no consumer; did you mean events_waits_current",
        ),
        (
            {"extends": "default", "consumers": {"events_waits_history": True}},
            "events_waits_history would record nothing: events_waits_current, which it needs, is off",
        ),
        (
            {"extends": "default", "consumers": {"thread_instrumentation": False}},
            "events_statements_current would record nothing: thread_instrumentation, which it needs, is off",
        ),
        (
            {"extends": "default", "consumers": {"global_instrumentation": False}},
            "statements_digest would record nothing: global_instrumentation",
        ),
    ],
)
def test_what_a_build_can_t_do_is_reported_with_what_may_be_meant(asked: dict[str, object], reported: str) -> None:
    with pytest.raises(RqpsError) as caught:
        put(own(**asked))
    assert reported in caught.value.message
    assert "perf_schema of config 'ps'" in caught.value.fix


def test_all_that_a_build_can_t_do_is_reported_at_once() -> None:
    with pytest.raises(RqpsError) as caught:
        put(own(instruments={"foo/%": "timed", "stag/%": "timed"}, consumers={"events_waits_history": True}))
    assert [word in caught.value.message for word in ("foo/%", "stag/%", "events_waits_history")] == [True] * 3


def test_switching_off_what_a_version_never_had_is_no_mistake_but_a_typing_error_is() -> None:
    without = Known({name: state for name, state in INSTRUMENTS.items() if "memory" not in name}, CONSUMERS)
    put(own(extends="default", instruments={"memory/%": "off"}), without, "5.6.14")
    with pytest.raises(RqpsError, match="statemnt/% fits no instrument; did you mean statement/%"):
        put(own(extends="default", instruments={"statemnt/%": "off"}), without, "5.6.14")


def test_a_build_is_compiled_without_instruments_if_only_built_in_ones_are_left() -> None:
    left: dict[str, State] = {
        name: INSTRUMENTS[name]
        for name in ("wait/io/table/sql/handler", "wait/lock/metadata/sql/mdl", "transaction", "error")
    }
    asked = put(named("compiled-out"), Known(left | {"memory/performance_schema/threads": "counted"}, CONSUMERS))
    assert (asked.arguments, asked.in_words) == ((), "compiled-out")
    put(named("compiled-out"), Known())
    with pytest.raises(RqpsError, match="it has 6 instruments, such as wait/synch/mutex/sql/LOCK_open"):
        put(named("compiled-out"))


def test_a_build_without_any_performance_schema_can_do_no_other_scenario() -> None:
    with pytest.raises(RqpsError, match="compiled without a performance schema"):
        put(named("waits-only"), Known())
    assert put(named("off"), Known()).arguments == ()


def test_differences_name_both_values_and_show_alike_ones_as_one() -> None:
    asked = put(named("all-enabled"))
    changed: dict[str, State] = {**dict.fromkeys(INSTRUMENTS, "off"), "transaction": "counted"}
    consumers = {**asked.consumers, "statements_digest": False}
    result = Found(changed, consumers, (), {"thread/sql/main": False}, ("x", "y"))
    reported = differences(asked, result)
    assert "instrument transaction: asked for timed, the server has counted" in reported
    assert "consumer statements_digest: asked for on, the server has off" in reported
    assert "threads of the class thread/sql/main: asked for on, the server has off" in reported
    assert "the thread x and 1 more: asked for on, the server has off" in reported
    memory = "memory/sql/THD::main_mem_root, and 1 more of memory: asked for counted, the server has off"
    assert f"instrument {memory}" in reported


@pytest.mark.parametrize("name", [*NINE, *FINER])
def test_a_server_that_has_what_was_asked_for_differs_in_nothing(name: str) -> None:
    asked = put(named(name))
    assert (asked.instruments.keys(), asked.consumers.keys()) == (INSTRUMENTS.keys(), CONSUMERS.keys())
    assert differences(asked, as_asked(asked)) == []


def test_other_rows_of_the_setup_tables_are_compared_with_the_release() -> None:
    asked = put(named("default"), Known(INSTRUMENTS, CONSUMERS, others=("actor %@%: enabled YES",)))
    result = Found(asked.instruments, asked.consumers, ("actor joe@%: enabled YES",), {}, ())
    assert differences(asked, result) == [
        "actor %@%: enabled YES: the release has this row, and the server does not",
        "actor joe@%: enabled YES: the server has this row, and the release does not",
    ]


def test_off_lists_nothing() -> None:
    assert differences(put(named("off")), Found({}, {}, (), {}, ())) == []
    assert differences(put(named("off")), as_asked(put(named("default")))) != []


EVENTS = {"statement": 1000, "stage": 13000, "memory": 0, "transaction": 0, "error": 0, "wait/io/table": 0}


def test_what_was_to_be_recorded_and_was_is_right() -> None:
    asked = put(named("stages-and-statements"))
    assert list(mistaken(asked, {**EVENTS, DIGEST: 1000}, transactions=1000, connections=1, texts=1000)) == []


def test_what_was_to_be_recorded_and_was_not_is_reported() -> None:
    asked = put(named("stages-and-statements"))
    reported = list(mistaken(asked, {**EVENTS, "stage": 90, DIGEST: 0}, transactions=1000, connections=1, texts=900))
    assert reported == [
        "stage: asked for, and 90 events were recorded in 1000 transactions",
        "digest: asked for, and 0 events were recorded in 900 statements",
    ]


def test_only_what_came_as_text_needs_a_digest() -> None:
    """In 8.0 a statement that was prepared before has none."""
    asked = put(named("statements-only"))
    assert list(mistaken(asked, {"statement": 1000}, transactions=1000, connections=1, texts=3)) == []
    assert list(mistaken(asked, {"statement": 1000}, transactions=1000, connections=1, texts=1000)) != []


def test_events_are_compared_with_the_scenario_by_kind() -> None:
    events = {
        "wait/synch/mutex/sql/LOCK_open": 3,
        "wait/synch/mutex/innodb/trx_mutex": 4,
        "transaction": 1,
        DIGEST: 2,
    }
    assert by_kind(events) == {"wait/synch/mutex": 7, "transaction": 1, DIGEST: 2}


def test_what_was_not_to_be_recorded_and_was_is_reported() -> None:
    reported = list(
        mistaken(
            put(named("all-disabled")), EVENTS | {"wait/io/socket": 20}, transactions=10, connections=1, texts=10
        )
    )
    assert reported == [
        "stage: nothing was to be recorded, and 13000 events were",
        "statement: nothing was to be recorded, and 1000 events were",
    ]
    assert list(mistaken(put(named("off")), EVENTS, transactions=10, connections=1, texts=10)) == reported[::-1]


def test_bytes_that_sockets_count_as_clients_come_and_go_are_no_events() -> None:
    known = Known({**INSTRUMENTS, "wait/io/socket/sql/client_connection": "off"}, CONSUMERS)
    asked = put(named("all-disabled"), known)
    assert list(mistaken(asked, {"wait/io/socket": 28}, transactions=5, connections=1, texts=5)) == []
    assert list(mistaken(asked, {"wait/io/socket": 2800}, transactions=5, connections=1, texts=5)) != []


def test_a_kind_of_which_only_some_are_on_may_move_or_not() -> None:
    asked = put(own(instruments={"wait/synch/mutex/sql/LOCK_open": "timed"}))
    for count in (0, 100):
        assert (
            list(mistaken(asked, {"wait/synch/mutex": count, "stage": 0}, transactions=0, connections=1, texts=0))
            == []
        )


def test_sizes_that_take_more_memory_than_there_is_are_refused_with_what_would_fit() -> None:
    size = "performance_schema_events_statements_history_long_size"
    known = Known(variables={size: "10000"}, memory_bytes={"events_statements_history_long": 35_000_000})
    refuse_too_large({size: "100000", "max_connections": "151"}, known, "my.ps", available_bytes=10**9)
    with pytest.raises(RqpsError) as caught:
        refuse_too_large({size: "1000000"}, known, "my.ps", available_bytes=10**9)
    assert caught.value.message.startswith(f"my.ps: {size}=1000000 takes 3.5 GB of memory")
    assert "1.0 GB are left" in caught.value.message
    assert "ask for 285714 at most" in caught.value.fix


patterns = st.lists(st.sampled_from(["wait", "io", "%", "/", "sql", "_"]), min_size=1, max_size=6).map("".join)


@given(pattern=patterns, name=st.sampled_from(list(INSTRUMENTS)))
def test_a_pattern_without_wildcards_fits_itself_only_and_a_wildcard_everything(pattern: str, name: str) -> None:
    assert fits("%", name)
    if "%" not in pattern:
        assert fits(pattern, name) == (pattern == name)
    assert fits(name, name)


@given(
    switches=st.lists(
        st.builds(Switch, patterns, st.sampled_from(["timed", "counted", "off"])), min_size=1, max_size=6
    ),
    name=st.sampled_from(list(INSTRUMENTS)),
)
def test_the_longest_pattern_that_fits_decides(switches: list[Switch], name: str) -> None:
    fitting = [switch for switch in switches if fits(switch.pattern, name)]
    result = decides(switches, name)
    assert (result is None) == (not fitting)
    if result:
        assert len(result.pattern) == max(len(one.pattern) for one in fitting)
        assert result == [one for one in fitting if len(one.pattern) == len(result.pattern)][-1]
