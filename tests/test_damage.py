"""Data that are not as they were measured are refused by name: copied runs, cut files, flipped bits, edited words."""

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
import rqps
from house import House
from rqps.cli import main
from rqps.errors import RqpsError
from rqps.store import run_tables, write_manifest
from rqps.store.manifest import CARD, MANIFEST, check_files, finished, read_manifest, read_study_card
from rqps.store.packing import pack
from rqps.store.schemas import TABLES
from rqps.store.write import VERSION_KEY
from synthetic import write_duets, write_study

FLIPS = 60
"""Bits that are flipped, one after the other, over all files of a run."""
MOST_BYTES = 500_000_000
"""Of memory, for anything that is refused."""


@pytest.fixture(params=["rounds", "duets"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a study of one round, by rounds or by duets."""
    (write_duets if request.param == "duets" else write_study)(tmp_path, rounds=1)
    return tmp_path / "raw/study=synthetic"


def first_run(study: Path) -> Path:
    return min(study.glob("run=*"))


def files_of(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file())


def numbers(study: Path) -> list[pl.DataFrame]:
    """All that anybody can read of a study."""
    loaded = rqps.load(study)
    return [
        loaded.runs,
        loaded.conditions,
        loaded.warnings,
        *(getattr(loaded, name).lazy().collect() for name in TABLES),
    ]


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return 1024 * int(line.split()[1])


def refused(study: Path, right: list[pl.DataFrame]) -> str:
    """The words with which a study is refused; none where all that can be read of it is right."""
    before, result, words = peak_bytes(), right, ""
    try:
        result = numbers(study)
    except RqpsError as error:
        words = str(error)
    assert all(one.equals(other) for one, other in zip(result, right, strict=True))
    assert len(words) < 2000
    assert peak_bytes() - before < MOST_BYTES
    return words


def flip(path: Path, bit: int, *, unnoticed: bool = False) -> None:
    content, before = bytearray(path.read_bytes()), path.stat()
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    if unnoticed:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("name", ["run=copy", "run=r07@my1.base@here", "run=r02@here.copy"])
def test_a_copied_run_is_no_further_round(study: Path, name: str) -> None:
    run = first_run(study)
    shutil.copytree(run, study / name)
    with pytest.raises(RqpsError) as caught:
        numbers(study)
    assert name in caught.value.message
    assert f"which is in {run}" in caught.value.message
    shutil.rmtree(run)
    with pytest.raises(RqpsError, match=name):
        finished(study)


def test_a_run_of_another_study_is_none_of_this_one(study: Path) -> None:
    manifests = sorted(first_run(study).rglob(MANIFEST))
    facts = read_manifest(manifests[0].parent).model_copy(update={"study": "another"})
    write_manifest(manifests[0].parent, facts)
    with pytest.raises(RqpsError, match="of study another"):
        numbers(study)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    house = House(tmp_path_factory.mktemp("measured"))
    assert house.run()[0] == 0
    return house.study


@pytest.fixture
def house(measured: Path, tmp_path: Path) -> House:
    """One whose study was measured."""
    house = House(tmp_path)
    shutil.copytree(measured, house.study)
    return house


def test_run_and_status_refuse_a_copied_run(house: House) -> None:
    shutil.copytree(house.study / "run=r01@my1.base@here", house.study / "run=r02@my1.base@here")
    code, words = house.run()
    assert code == 1
    assert "run=r02@my1.base@here: its manifest belongs to run r01@my1.base@here" in words
    with pytest.raises(RqpsError, match="which is in"):
        house.states()


def test_run_and_status_refuse_a_cut_file(house: House) -> None:
    cut = house.study / "run=r01@my1.base@here/asked.json"
    os.truncate(cut, cut.stat().st_size - 1)
    code, words = house.run()
    assert (code, len(house.folders())) == (1, 2)
    assert f"{cut}: can't be read: it has " in words
    with pytest.raises(RqpsError, match="when it was measured"):
        house.states()


def test_status_goes_on_with_the_other_studies_and_reads_every_byte_where_asked(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (house.path / "runs.yaml").read_text()
    (house.path / "runs.yaml").write_text(f"{text}  other: {{extends: demo, rounds: 3}}\n")
    flip(house.study / "run=r01@my1.base@here/asked.json", 99, unnoticed=True)
    ask = ["status", "--runs-yaml", str(house.path / "runs.yaml")]
    assert main(ask) == 0
    assert main([*ask, "--check"]) == 1
    captured = capsys.readouterr()
    assert "asked.json: can't be read: its bytes are not those that were measured" in captured.err
    assert "other: 6 runs, 6 missing" in captured.out.splitlines()
    flip(house.study / CARD, 99)
    assert main(ask) == 1
    assert "study.json: can't be read: " in capsys.readouterr().err


def test_a_copy_of_a_whole_study_is_as_good(study: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere/raw" / study.name
    shutil.copytree(study, copy, copy_function=shutil.copy)  # with other times
    runs = [path for path, _ in finished(copy)]
    assert len(runs) == 3
    for one, other in zip(numbers(study)[1:], numbers(copy)[1:], strict=True):
        assert one.equals(other)


def flip_one_after_the_other(place: Path, files: list[Path], flips: int) -> None:
    """Each is refused by name, or is one that says nothing, such as a blank between two keys."""
    chance, right = random.Random(16), numbers(place)
    count = 0
    for _ in range(flips):
        path = chance.choice(files)
        content = path.read_bytes()
        flip(path, chance.randrange(8 * len(content)))
        words = refused(place, right)
        assert not words or (str(place) in words and path.name in words)
        count += bool(words)
        path.write_bytes(content)
    assert count > flips // 2


def test_no_flipped_bit_changes_a_number(study: Path) -> None:
    flip_one_after_the_other(study, [study / CARD, *files_of(first_run(study))], FLIPS)


def test_a_flipped_bit_that_left_the_time_alone_ends_in_numbers_or_words(study: Path) -> None:
    """Nobody looks at digests then, unless asked to: but nothing worse comes of it."""
    chance, before = random.Random(18), peak_bytes()
    for _ in range(FLIPS // 3):
        path = chance.choice([file for file in files_of(first_run(study)) if file.suffix == ".parquet"])
        content, was = path.read_bytes(), path.stat()
        flip(path, chance.randrange(8 * len(content)), unnoticed=True)
        with suppress(RqpsError):
            numbers(study)
        path.write_bytes(content)
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert peak_bytes() - before < MOST_BYTES


@pytest.mark.parametrize("name", ["sent", "sent.rqps"])
def test_no_flipped_bit_changes_a_number_of_a_packed_study(name: str, tmp_path: Path) -> None:
    [packed] = pack("synthetic", tmp_path / name, write_study(tmp_path / "data", rounds=1))
    flip_one_after_the_other(packed, files_of(packed) if packed.is_dir() else [packed], FLIPS // 2)


def test_a_flipped_bit_that_left_the_time_alone_is_found_by_its_digest(study: Path) -> None:
    chance, runs = random.Random(17), finished(study)
    for path in files_of(first_run(study)):
        if path.suffix == ".parquet":
            content, before = path.read_bytes(), path.stat()
            flip(path, chance.randrange(8 * len(content)), unnoticed=True)
            with pytest.raises(RqpsError, match=f"{path.name}: can't be read: its bytes"):
                check_files(runs, thorough=True)
            path.write_bytes(content)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    check_files(runs, thorough=True)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_cut_or_missing_table_is_named(study: Path, name: str) -> None:
    path = next(first_run(study).rglob(f"{name}.parquet"))
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(RqpsError, match=rf"{name}\.parquet: can't be read: it has"):
        check_files(finished(study))
    path.unlink()
    with pytest.raises(RqpsError, match=rf"{name}\.parquet: can't be read"):
        check_files(finished(study))


def repeated(path: Path, times: int) -> None:
    """Puts the first row of a table there so often."""
    version = {VERSION_KEY: pl.read_parquet_metadata(path)[VERSION_KEY]}
    pl.read_parquet(path)[[0] * times].write_parquet(path, compression="zstd", metadata=version)


@pytest.mark.parametrize("name", ["steps", "intervals"])
def test_a_table_of_more_rows_than_its_bytes_can_have_is_refused_before_it_is_read(
    study: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = first_run(study) / read_manifest(min(first_run(study).rglob(MANIFEST)).parent).run.partition("/")[2]
    monkeypatch.setattr(run_tables, "MOST_VALUES", 100_000)
    assert numbers(study)
    repeated(run / f"{name}.parquet", 200_000)
    write_manifest(run, read_manifest(run))  # with the right digests
    with pytest.raises(RqpsError, match=rf"{name}\.parquet: can't be read: it says that it has 200,000 rows, in "):
        numbers(study)


def test_a_manifest_of_more_than_it_can_have_is_refused(study: Path) -> None:
    (study / CARD).write_text(" " * 1_000_001)
    with pytest.raises(RqpsError, match=r"study\.json: can't be read: it has more than 1,000,000 bytes"):
        read_study_card(study)


def test_a_pipe_in_place_of_a_manifest_is_not_waited_for(study: Path) -> None:
    path = next(study.rglob(MANIFEST))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RqpsError, match=r"manifest\.json: can't be read: it is not a regular file"):
        numbers(study)


def test_a_changed_card_is_refused(study: Path) -> None:
    card = study / CARD
    card.write_text(card.read_text().replace('"looks": 1', '"looks": 9'))
    with pytest.raises(RqpsError, match=r"study\.json: can't be read: it was changed after it was written"):
        read_study_card(study)
