"""A packed study is read from an object store as it is from a disk: here from a real S3 server on loopback."""

from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import rqps
from moto.server import ThreadedMotoServer
from polars.testing import assert_frame_equal
from rqps import stats
from rqps.cli import main
from rqps.errors import RqpsError
from rqps.store.packing import pack
from synthetic import write_duets

BUCKET = "benchmarks"
PLACE = f"s3://{BUCKET}/study=synthetic"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_duets(tmp_path_factory.mktemp("study"), rounds=4)


@pytest.fixture(scope="module")
def packed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack("synthetic", tmp_path_factory.mktemp("packed"), data)[0]


def put(url: str, body: bytes = b"", method: str = "PUT") -> None:
    urlopen(Request(url, body, {"Content-Type": "text/plain"}, method=method)).close()


@pytest.fixture(scope="module")
def endpoint(packed: Path) -> Iterator[str]:
    """The address of an S3 server on loopback whose bucket has the packed study, and a second one that is cut off."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    put(f"{address}/{BUCKET}")
    for path in packed.iterdir():
        body = path.read_bytes()
        put(f"{address}/{BUCKET}/study=synthetic/{path.name}", body)
        put(f"{address}/{BUCKET}/cut/study=synthetic/{path.name}", body[: len(body) // 2])
    yield address
    server.stop()


@pytest.fixture(autouse=True)
def credentials(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "her-secret")


@pytest.fixture
def locked(endpoint: str) -> Iterator[None]:
    """The store asks for keys that it knows, which it does not otherwise."""
    put(f"{endpoint}/moto-api/reset-auth", b"0", "POST")
    yield
    put(f"{endpoint}/moto-api/reset-auth", b"inf", "POST")


def test_a_study_is_read_from_a_bucket(data: Path) -> None:
    near, far = rqps.load("synthetic", data), rqps.load(f"{PLACE}/")
    assert_frame_equal(far.steps, near.steps)
    assert_frame_equal(far.slices.collect(), near.slices.collect())
    assert_frame_equal(
        far.intervals.filter(step="point-query").collect(), near.intervals.filter(step="point-query").collect()
    )
    assert_frame_equal(stats.relate(far)[1], stats.relate(near)[1])
    assert stats.health(far).missing == stats.health(near).missing
    assert [level.card.study for level in rqps.load_levels(far.place)] == ["synthetic"]


def test_a_study_is_packed_from_a_bucket_into_a_file(tmp_path: Path, packed: Path) -> None:
    file = tmp_path / "sent.rqps"
    assert main(["pack", PLACE, "--out", str(file)]) == 0
    assert_frame_equal(rqps.load(file).steps, rqps.load(packed).steps)


@pytest.mark.parametrize("place", ["s3://benchmarks/study=other", "s3://nobodys-bucket/study=synthetic"])
def test_nothing_there_is_an_error(place: str) -> None:
    with pytest.raises(RqpsError, match="there is no study") as caught:
        rqps.load(place)
    assert place in caught.value.message


@pytest.mark.usefixtures("locked")
def test_a_bucket_without_permission_is_an_error() -> None:
    with pytest.raises(RqpsError, match=r"s3://benchmarks/study=synthetic/runs\.parquet: no permission") as caught:
        rqps.load(PLACE)
    assert "AWS_ACCESS_KEY_ID" in caught.value.fix
    assert "her-secret" not in str(caught.value)


def test_a_store_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(RqpsError, match=r"s3://another/study=synthetic/runs\.parquet: can't be read"):
        rqps.load("s3://another/study=synthetic")  # polars keeps the connection to a bucket


def test_a_table_in_a_bucket_that_is_cut_off_is_an_error() -> None:
    with pytest.raises(RqpsError, match=r"runs\.parquet: can't be read"):
        rqps.load("s3://benchmarks/cut/study=synthetic")


@pytest.mark.parametrize("place", ["s4://benchmarks/study=synthetic", "s3://", "s3:///study=synthetic"])
def test_what_is_no_address_is_an_error(place: str) -> None:
    with pytest.raises(RqpsError) as caught:
        rqps.load(place)
    assert place.rstrip("/") in caught.value.message


def test_a_table_that_was_not_sent_to_the_bucket_is_named(endpoint: str, packed: Path) -> None:
    for name in ("runs", "steps", "settings"):
        table = (packed / f"{name}.parquet").read_bytes()
        put(f"{endpoint}/{BUCKET}/half/study=synthetic/{name}.parquet", table)
    with pytest.raises(RqpsError, match=r"half/study=synthetic/[a-z]+\.parquet: can't be read"):
        rqps.load("s3://benchmarks/half/study=synthetic")


@pytest.mark.parametrize("place", ["s3://benchmarks/releases.rqps", "https://example.invalid/releases.rqps"])
def test_a_packed_file_is_not_read_over_the_network(place: str) -> None:
    with pytest.raises(RqpsError, match="be read from a URL") as caught:
        rqps.load(place)
    assert "download" in caught.value.fix
