"""A config that starts from a my.cnf: read as a server reads it, with its allocator; every line is accounted for."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from live_server import run_of
from rqps.engines import FileLine, Start, facts_of
from rqps.engines.cache import copy_folder
from rqps.engines.mysql import my_cnf
from rqps.engines.mysql.engine import foresee, prepare
from rqps.engines.mysql.options import translate
from rqps.errors import RqpsError
from rqps.measure.job import loaded_data
from rqps.overview import option_files_lines
from rqps.study import Option, RunsFile, read_runs_file, unfold
from rqps.study.runs_file import resolve
from rqps.workloads import PARAMETERS
from test_live_servers import QUICK
from test_options import NEW

RUNS_YAML = """\
builds:
  new: {mysql: "8.0.33"}
  mine: {path: /opt/mine}
configs:
  common: {innodb_buffer_pool_size: 64M, my_cnf: etc/my.cnf}
  ps0: {extends: common, performance_schema: off}
studies:
  demo:
    question: What did it cost?
    workload: sysbench
    dbms: [new.common, new.ps0]
    base: new.common
    rounds: 6
    parameters: {steps: [point-query], table_rows: 1000}
"""
MY_CNF = """\
# as somebody has it
[mysqld]
performance-schema
datadir = /data/m/my/data
innodb_buffer_pool_size=10G  # more than this host has
sql_mode='no_engine_substitution,no_unsigned_subtraction'
log_bin=/data/m/my/binlogs/bl
innodb_log_group_home_dir=/data/m/my/txlogs
loose_innodb_log_writer_threads=OFF
skip-slow-query-log
skip_name_resolve
sync_binlog=1
sync_binlog=0

[mysqld-5.7]
innodb_page_cleaners=2
[mysqld-8.0]
innodb_page_cleaners=1
[mysqld_safe]
malloc-lib=/usr/lib/x86_64-linux-gnu/libjemalloc.so
nice=5
"""


def lines_of(text: str) -> dict[str, FileLine]:
    lines, problems = my_cnf.read(text, facts_of("mysql").ours)
    assert problems == []
    return {line.name: line for line in lines}


def read(folder: Path, text: str = MY_CNF, runs_yaml: str = RUNS_YAML) -> RunsFile:
    (folder / "etc").mkdir(exist_ok=True)
    (folder / "etc/my.cnf").write_text(text)
    (folder / "runs.yaml").write_text(runs_yaml)
    return read_runs_file(folder / "runs.yaml", PARAMETERS)


def test_a_config_takes_the_options_of_a_my_cnf_and_its_own_on_top(tmp_path: Path) -> None:
    configs = read(tmp_path).configs
    asked = resolve(configs, "ps0", "8.0.33")
    assert asked == {
        "performance_schema": Option(False),
        "innodb_buffer_pool_size": Option("64M"),
        "sql_mode": Option("no_engine_substitution,no_unsigned_subtraction"),
        "log_bin": Option("ON"),
        "innodb_log_writer_threads": Option("OFF", optional=True),
        "slow_query_log": Option("OFF"),
        "skip_name_resolve": Option("ON"),
        "sync_binlog": Option("0"),
        "innodb_page_cleaners": Option("1"),
        "malloc": Option("jemalloc"),
    }
    assert resolve(configs, "common", "5.7.22")["innodb_page_cleaners"] == Option("2")
    assert "innodb_page_cleaners" not in resolve(configs, "common", "5.6.24")


def test_a_changed_my_cnf_is_another_run(tmp_path: Path) -> None:
    def identity(text: str) -> str:
        return unfold(read(tmp_path, text), "demo", "here")[0].identity

    assert identity(MY_CNF.replace("sync_binlog=0", "sync_binlog=2")) != identity(MY_CNF)
    assert identity(MY_CNF.replace("nice=5", "nice=6")) == identity(MY_CNF)


def test_every_line_that_is_not_taken_as_it_stands_has_its_reason_in_the_plan(tmp_path: Path) -> None:
    assert [*option_files_lines(read(tmp_path), "demo")] == [
        "etc/my.cnf, from which configs.common takes 11 of 15 options",
        "  line 4: datadir is set by rqps for every server",
        "  line 7: log_bin has its files where rqps puts them",
        "  line 8: innodb_log_group_home_dir is a path, which rqps chooses",
        "  line 12: sync_binlog is set again on line 13",
        "  line 21: nice is of [mysqld_safe], which no server reads",
    ]


def test_a_group_of_one_series_needs_a_build_whose_version_is_promised(tmp_path: Path) -> None:
    mine = RUNS_YAML.replace("new.", "mine.")
    with pytest.raises(RqpsError, match=r"etc/my\.cnf:16: innodb_page_cleaners is for 5\.7, and configs\.common"):
        read(tmp_path, runs_yaml=mine)
    assert read(tmp_path, MY_CNF.replace("[mysqld-5.7]", "").replace("[mysqld-8.0]", ""), mine)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("!include /etc/mysql/other.cnf", "!include is refused: a config is one file; put its options here"),
        ("!includedir /etc/mysql", "!includedir is refused"),
        ("[mysqld", "'[mysqld' is not a group; write one such as [mysqld]"),
        ("= 5", "'= 5' is not an option; write name=value"),
    ],
)
def test_a_line_that_no_server_takes_is_an_error_of_its_file_and_line(
    line: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(RqpsError) as caught:
        read(tmp_path, f"[mysqld]\nserver_id=1\n{line}\n")
    assert str(caught.value).startswith(f"{tmp_path}/etc/my.cnf:3: configs.common.my_cnf: {problem}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("max_conections=100", "no option max_conections (did you mean max_connections?), which etc/my.cnf:4 sets"),
        ("query_cache_type=1", "no option query_cache_type, which etc/my.cnf:4 sets"),  # 5.7 has it
    ],
)
def test_an_option_that_a_release_lacks_is_an_error_of_its_line(line: str, words: str, tmp_path: Path) -> None:
    asked = resolve(read(tmp_path, f"[mysqld]\nlog_bin=OFF\n\n{line}\n").configs, "common", "8.0.33")
    known = {**NEW, "innodb_buffer_pool_size": "134217728"}
    with pytest.raises(RqpsError) as caught:
        translate(asked, known, dbms="new.common", version="8.0.33")
    assert str(caught.value).startswith(f"new.common: MySQL 8.0.33 has {words}\n")
    assert "in an option file, begin its name with loose_" in str(caught.value)


def test_an_option_of_a_config_has_no_line_of_the_file_that_sets_it_too(tmp_path: Path) -> None:
    asked = resolve(read(tmp_path).configs, "common", "8.0.33")
    assert (asked["sync_binlog"].line, asked["innodb_buffer_pool_size"].line) == ("etc/my.cnf:13", "")


def test_an_option_before_the_first_group_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RqpsError, match=r"my\.cnf:1: configs\.common\.my_cnf: 'server_id' stands before the first"):
        read(tmp_path, "server_id=1\n")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("etc/other.cnf", "there is no file 'etc/other.cnf' beside runs.yaml"),
        ("[a]", "is a list; a file is due, such as etc/my.cnf"),
    ],
)
def test_a_my_cnf_is_a_file_beside_runs_yaml(value: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(RqpsError) as caught:
        read(tmp_path, runs_yaml=RUNS_YAML.replace("etc/my.cnf", value))
    assert str(caught.value) == f"{tmp_path}/runs.yaml:5: configs.common.my_cnf: {problem}"


def test_an_option_without_a_value_may_have_a_comment_behind_it() -> None:
    options = lines_of("[mysqld]\nskip-name-resolve   # faster\nskip-slave-start\n")
    assert options["skip_name_resolve"].value == "ON"
    assert options["skip_slave_start"].value == "ON"


def test_values_lose_quotes_comments_and_escapes() -> None:
    options = ("init_connect=\"SET NAMES 'x' # no comment\" # one", "ft_stopword_file=a\\sb # c", "port=3306")
    lines = lines_of("\n".join(["[mysqld]", *options]))
    assert lines["init_connect"].value == "SET NAMES 'x' # no comment"
    assert lines["ft_stopword_file"].value == "a b"
    assert not lines["port"].taken


@pytest.mark.live
def test_a_server_runs_with_a_published_my_cnf_and_its_allocator(tmp_path: Path) -> None:
    """The file that MY_CNF has, on 8.0.33: all options are read back, and the library is mapped."""
    asked = resolve(read(tmp_path).configs, "common", "8.0.33")
    run = replace(run_of("my8033.common", QUICK), options=asked)
    foresee(run)
    prepared = prepare(run, print)
    assert prepared.options["malloc"] == "jemalloc"
    copy_folder(loaded_data(run, prepared, print), tmp_path / "data")
    with closing(prepared.open(tmp_path / "data", Start(tmp_path / "mysqld.err"))) as server:
        verified = {name: (value, reported) for name, value, reported in server.verify()}
        assert verified["malloc"] == ("jemalloc", "jemalloc")
        assert verified["sync_binlog"] == ("0", "0")
        assert verified["sql_mode"][1] == "NO_UNSIGNED_SUBTRACTION,NO_ENGINE_SUBSTITUTION"
        assert "libjemalloc" in Path(f"/proc/{server.pid}/maps").read_text()


@pytest.mark.live
def test_an_allocator_that_the_loader_does_not_take_fails_the_run(tmp_path: Path) -> None:
    (library := tmp_path / "libjemalloc.so").write_text("no library")
    run = run_of("my8033.common", QUICK)
    prepared = prepare(replace(run, options={**run.options, "malloc": Option(str(library))}), print)
    copy_folder(loaded_data(run, prepared, print), tmp_path / "data")
    with (
        closing(prepared.open(tmp_path / "data", Start(tmp_path / "mysqld.err"))) as server,
        pytest.raises(RqpsError, match=r"my8033\.common: malloc: .*: the server has not loaded"),
    ):
        server.verify()


@pytest.mark.parametrize(
    ("malloc", "error"),
    [
        ("jemaloc", "malloc: unknown allocator 'jemaloc'; did you mean 'jemalloc'"),
        ("/opt/libmine.so", "malloc: /opt/libmine.so: this machine has no such library"),
    ],
)
def test_an_allocator_that_is_not_there_is_refused_by_the_plan(malloc: str, error: str) -> None:
    run = run_of("my8033.common", QUICK)
    with pytest.raises(RqpsError) as caught:
        foresee(replace(run, options={**run.options, "malloc": Option(malloc)}))
    assert str(caught.value).startswith(error)
