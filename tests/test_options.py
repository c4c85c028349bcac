"""A config written once, as the options of one version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rqps.engines.mysql.options import argument, canonical, mismatches, translate
from rqps.engines.preparation import Translated
from rqps.errors import RqpsError
from rqps.study import Option

OLD = {"innodb_log_file_size": "5242880", "log_bin": "OFF", "have_ssl": "DISABLED", "max_connections": "151"}
NEW = {"innodb_redo_log_capacity": "104857600", "log_bin": "ON", "tls_version": "TLSv1.3", "max_connections": "151"}


def put(options: dict[str, Option], known: dict[str, str], version: str = "8.0.33") -> Translated:
    return translate(options, known, dbms="my.base", version=version)


def test_a_redo_capacity_becomes_two_files_where_there_is_no_such_option() -> None:
    asked = {"innodb_redo_log_capacity": Option("256M")}
    assert put(asked, NEW).arguments == ("--innodb-redo-log-capacity=256M",)
    assert put(asked, OLD).expected == {"innodb_log_file_size": "134217728", "innodb_log_files_in_group": "2"}


def test_redo_log_files_become_a_capacity_where_a_version_has_no_others() -> None:
    asked = {"innodb_log_file_size": Option("1G"), "innodb_log_files_in_group": Option(15)}
    assert put(asked, NEW, "9.7.0").expected == {"innodb_redo_log_capacity": str(15 << 30)}
    old = {**OLD, "innodb_log_files_in_group": "2"}
    assert put(asked, old).expected == {"innodb_log_file_size": "1G", "innodb_log_files_in_group": "15"}


def test_words_of_a_list_may_come_back_in_another_order() -> None:
    assert mismatches({"sql_mode": "a_mode,b_mode"}, {"sql_mode": "B_MODE,A_MODE"}) == []
    assert mismatches({"sql_mode": "a_mode,b_mode"}, {"sql_mode": "A_MODE"}) != []


def test_what_is_switched_off_by_another_name_is_read_back_by_its_own() -> None:
    asked = {"log_bin": Option(False), "ssl": Option(False)}
    assert put(asked, OLD) == Translated(
        ("--skip-log-bin", "--skip-ssl"), {"log_bin": "OFF", "have_ssl": "DISABLED"}, ()
    )
    assert put(asked, NEW).expected == {"log_bin": "OFF", "tls_version": ""}


def test_an_option_that_the_version_lacks_is_an_error_that_names_it_and_the_nearest() -> None:
    with pytest.raises(RqpsError) as caught:
        put({"max_conections": Option(100), "query_cache_type": Option(0)}, NEW)
    assert "my.base: MySQL 8.0.33 has no option max_conections (did you mean max_connections?)" in str(caught.value)
    assert "query_cache_type" in str(caught.value)


def test_an_optional_one_is_left_out_and_reported() -> None:
    translated = put({"query_cache_type": Option(0, optional=True)}, NEW)
    assert (translated.arguments, translated.left_out) == ((), ("query_cache_type",))


def test_a_boolean_is_a_number_for_5_5() -> None:
    assert (argument(True, "5.5.34"), argument(True, "5.6.14"), argument("ON", "5.5.34")) == ("1", "ON", "ON")


@pytest.mark.parametrize(
    ("asked", "reported"),
    [("256M", "268435456"), ("ON", "1"), ("off", "OFF"), ("0.5", "0.500000"), ("O_DIRECT", "O_DIRECT"), ("", "")],
)
def test_equal_values_are_equal_in_every_spelling(asked: str, reported: str) -> None:
    assert mismatches({"name": asked}, {"name": reported}) == []


def test_a_mismatch_names_both_values() -> None:
    assert mismatches({"a": "1", "b": "2"}, {"a": "3"}) == [
        "a: asked for '1', the server has '3'",
        "b: asked for '2', the server has 'no such variable'",
    ]


@given(st.integers(min_value=0, max_value=2**62), st.sampled_from("kmgtKMGT"))
def test_a_size_is_the_same_with_and_without_its_suffix(number: int, suffix: str) -> None:
    power = "kmgt".index(suffix.lower()) + 1
    assert canonical(f"{number}{suffix}") == canonical(number * 1024**power)


@given(st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()))
def test_one_spelling_is_its_own(value: bool | int | float | str) -> None:
    assert canonical(canonical(value)) == canonical(value)


def test_of_flags_the_server_reports_all_and_a_config_names_some() -> None:
    reported = {"optimizer_switch": "index_merge=on,hash_join=off,mrr=on"}
    assert mismatches({"optimizer_switch": "hash_join=off"}, reported) == []
    assert mismatches({"optimizer_switch": "hash_join=on"}, reported) != []
