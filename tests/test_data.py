"""Data directories: what makes two of them the same, and copies of them."""

import subprocess
import sys
from pathlib import Path

import pytest
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.build import Build
from rqps.engines.mysql.data import origin_of
from rqps.study import Option


def build(tmp_path: Path, version: str = "8.0.33", digest: str = "d1") -> Build:
    mysqld = tmp_path / "mysqld"
    return Build("my", version, "by hand", tmp_path, mysqld, (str(mysqld),), digest)


def test_configs_that_shape_data_alike_share_them(tmp_path: Path) -> None:
    shaping = {"innodb_file_per_table": Option(True)}
    base = origin_of(build(tmp_path), shaping | {"performance_schema": Option(True)})
    ps0 = origin_of(build(tmp_path), shaping | {"performance_schema": Option(False)})
    assert base.folder == ps0.folder


@pytest.mark.parametrize("option", ["innodb_page_size", "character_set_server", "innodb_file_per_table"])
def test_an_option_that_shapes_data_separates_them(tmp_path: Path, option: str) -> None:
    plain, other = origin_of(build(tmp_path), {}), origin_of(build(tmp_path), {option: Option("4")})
    assert plain.folder != other.folder


def test_another_binary_has_its_own_data(tmp_path: Path) -> None:
    assert origin_of(build(tmp_path), {}).folder != origin_of(build(tmp_path, digest="d2"), {}).folder


def test_a_copy_is_whole_and_its_own(tmp_path: Path) -> None:
    (tmp_path / "from/rqps").mkdir(parents=True)
    (tmp_path / "from/rqps/sbtest1.ibd").write_bytes(b"rows" * 5000)
    copy_folder(tmp_path / "from", tmp_path / "to")
    (tmp_path / "to/rqps/sbtest1.ibd").write_bytes(b"")
    assert (tmp_path / "from/rqps/sbtest1.ibd").stat().st_size == 20_000


def test_a_copy_that_does_not_fit_is_taken_back_and_reported(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from/ibdata1").write_bytes(b"rows" * 5000)
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from rqps.errors import RqpsError; from rqps.engines import cache\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "try: cache.copy_folder(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except RqpsError as error: print(error); sys.exit(1)"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "from"), str(tmp_path / "to")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "could not be copied" in done.stdout
    assert "RQPS_CACHE" in done.stdout
    assert not (tmp_path / "to").exists()
