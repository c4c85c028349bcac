"""A packed study is read as its folders are, takes few files, and becomes the same folders again."""

import json
import re
import shutil
import zipfile
from pathlib import Path

import polars as pl
import pytest
import rqps
from child import Child
from polars.testing import assert_frame_equal
from rqps import stats
from rqps.cli import main
from rqps.engines.cache import sha256
from rqps.errors import RqpsError
from rqps.report import build
from rqps.schedule.state import StudyFolder
from rqps.store import packed as packed_studies
from rqps.store import read_manifest, read_study_card, run_tables, write_manifest, write_study_card
from rqps.store.packed import CARD_KEY, DIGEST, FILES_KEY
from rqps.store.packing import pack, unpack
from rqps.store.schemas import TABLES
from synthetic import Shape, card, manifest, write_duets, write_run, write_study
from synthetic_report import small_analysis
from test_damage import repeated

ROOT = Path(__file__).parents[1]
SAMPLES = ["insert-releases-cpu", "point-lookups", "ps-instruments", "rocksdb-reads", "where-did-it-go"]
"""One of each workload, of levels, of counted instructions and of stacks."""
FRAMES = ("runs", "failed", "conditions", "warnings", *TABLES)
STUDY = "study=synthetic"
OF_FILES = ("files", "digest_of_this")
"""In a manifest: digests of the files beside it, which are written anew."""


def same(ours: rqps.Study, theirs: rqps.Study) -> None:
    """Stops where two studies differ in more than where they lie, and in the order of stacks."""
    assert ours.card == theirs.card
    for name in FRAMES:
        mine, other = (getattr(study, name).lazy().collect() for study in (ours, theirs))
        if name in ("runs", "failed"):
            mine, other = (frame.drop("folder") for frame in (mine, other))
        stacks = [pl.col("frames").list.join(";"), *mine.drop("frames").columns] if "frames" in mine.columns else []
        assert_frame_equal(*(frame.sort(stacks) if stacks else frame for frame in (mine, other)), check_exact=True)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A study with a run of each kind: in rounds, of the base with itself, and failed."""
    data = write_study(tmp_path / "data", rounds=2)
    folder = data / "raw" / STUDY
    for side in ("my1.base", "my1.base.again"):
        write_run(folder, manifest("my1.base", 1, run=f"h01@here/{side}", mode="health"), Shape())
    (folder / "run=r01@my1.base@here/asked.json").write_text('{"placement": "chosen"}\n')
    failed = manifest("my2.base", 1, outcome="failed", error="server killed in step insert")
    write_manifest(folder / "failed/run=r01@my2.base@here.1", failed)
    return data


@pytest.mark.parametrize("form", ["file", "folder"])
@pytest.mark.parametrize("mode", ["throughput", "health", None])
def test_it_is_read_as_its_folders_are(data: Path, tmp_path: Path, form: str, mode: str | None) -> None:
    folders = rqps.load("synthetic", data, mode)  # type: ignore[arg-type]
    [made] = pack("synthetic", tmp_path / "sent" if form == "folder" else tmp_path / "sent.rqps", data)
    assert made.is_dir() == (form == "folder")
    packed = rqps.load(made, mode=mode)  # type: ignore[arg-type]
    same(packed, folders)
    assert packed.failed["error"].to_list() == ["server killed in step insert"]
    assert packed.intervals.filter(run="nobody").collect().is_empty()
    assert packed.settings.head(3).collect().height == 3


def test_it_becomes_the_same_folders_again(data: Path, tmp_path: Path) -> None:
    [file] = pack("synthetic", tmp_path / "x.rqps", data)
    [folder] = unpack(str(file), tmp_path / "again")
    before, after = (
        {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
        for root in (data / "raw" / STUDY, folder)
    )
    assert after.keys() == before.keys()
    for name, path in before.items():
        if path.suffix == ".parquet":
            assert_frame_equal(pl.read_parquet(after[name]), pl.read_parquet(path), check_exact=True)
        else:
            texts = (json.loads(place.read_text()) for place in (after[name], path))
            ours, theirs = ({key: of for key, of in text.items() if key not in OF_FILES} for text in texts)
            assert ours == theirs, name
    same(rqps.load(folder, mode=None), rqps.load("synthetic", data, None))
    assert pack("synthetic", tmp_path / "y.rqps", data)[0].read_bytes() == file.read_bytes()


@pytest.mark.parametrize("study", SAMPLES)
def test_a_sample_takes_few_files_and_fewer_bytes(study: str, tmp_path: Path) -> None:
    folders = rqps.load(study, ROOT / "data", None)
    made = pack(study, tmp_path, ROOT / "data")[0]
    files = list(made.iterdir())
    assert len(files) <= len(TABLES) + 3
    if (place := Path(folders.place)).joinpath("runs.parquet").is_file():
        assert len(files) == len(list(place.iterdir()))
    else:
        assert sum(path.stat().st_size for path in files) < sum(
            path.stat().st_size for path in place.rglob("*") if path.is_file()
        )
    same(rqps.load(made, mode=None), folders)


@pytest.mark.usefixtures("one_kernel")
def test_pages_are_the_same(tmp_path: Path) -> None:
    data = write_duets(tmp_path / "data", rounds=4)
    notebooks = small_analysis(tmp_path / "notebooks/analysis")
    [file] = pack("synthetic", tmp_path / "sent.rqps", data)
    alone = tmp_path / "elsewhere"
    alone.mkdir()
    ours = build("synthetic", data, tmp_path / "one", notebooks).parent
    theirs = build(str(file), alone, tmp_path / "two", notebooks).parent
    for name in ("index.html", "relative_throughput.html"):
        page = (theirs / name).read_text().replace(f"{file}/{STUDY}", "synthetic").replace(str(alone), str(data))
        made = re.compile(r"on \d{4}-\d\d-\d\d \d\d:\d\d")
        assert made.sub("", page) == made.sub("", (ours / name).read_text())


def test_a_study_goes_with_its_levels(tmp_path: Path) -> None:
    data = write_study(tmp_path / "data", rounds=1)
    level = data / "raw/study=synthetic-1"
    write_study_card(level, card(study="synthetic-1"))
    write_run(level, manifest("my2.base", 1, study="synthetic-1"), Shape())
    assert len(rqps.load_levels("synthetic", data)) == 1, "a study of its own, without the file of levels"
    (data / "raw" / STUDY / "levels.yaml").write_text("studies: {}\n")
    [file] = pack("synthetic", tmp_path / "x.rqps", data)
    levels = rqps.load_levels(file)
    assert [one.card.study for one in levels] == ["synthetic", "synthetic-1"]
    same(levels[1], rqps.load("synthetic-1", data))
    folders = unpack(str(file), tmp_path / "again")
    assert [path.name for path in folders] == [STUDY, f"{STUDY}-1"]
    assert (folders[0] / "levels.yaml").read_text() == "studies: {}\n"
    [again] = pack(str(file), tmp_path / "y.rqps")
    assert [one.card.study for one in rqps.load_levels(again)] == ["synthetic", "synthetic-1"]
    [private] = pack("synthetic", tmp_path / "z.rqps", data, with_statements=False)
    assert len(rqps.load_levels(private)) == 2
    assert b"left out" in (unpack(str(private), tmp_path / "private")[0] / "levels.yaml").read_bytes()


def test_a_file_of_two_studies_shows_none_until_one_is_named(tmp_path: Path) -> None:
    data = write_study(tmp_path / "data", rounds=1)
    write_study_card(other := data / "raw/study=other", card(study="other"))
    write_run(other, manifest("my2.base", 1, study="other"), Shape())
    files = [pack(name, tmp_path / f"{name}.rqps", data)[0] for name in ("synthetic", "other")]
    with zipfile.ZipFile(files[0], "a") as both, zipfile.ZipFile(files[1]) as second:
        for name in second.namelist():
            both.writestr(name, second.read(name))
    with pytest.raises(RqpsError, match="contains 2 studies") as caught:
        rqps.load(files[0])
    assert caught.value.fix == f"name one of them: {files[0]}/study=synthetic or {files[0]}/study=other"
    assert rqps.load(f"{files[0]}/study=other").card.study == "other"


def test_the_verdicts_of_a_packed_study_count_duets_of_the_base_with_itself(data: Path, tmp_path: Path) -> None:
    [file] = pack("synthetic", tmp_path / "x.rqps", data)
    health = [stats.health(rqps.load(place, data)) for place in ("synthetic", file)]
    assert_frame_equal(health[0].itself, health[1].itself)
    assert not health[1].itself.is_empty()


def test_the_command_packs_and_unpacks(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["pack", "synthetic", "--data", str(data)]) == 0
    assert (tmp_path / "synthetic.rqps").is_file()
    shutil.rmtree(data / "raw")
    assert main(["pack", "synthetic.rqps", "--unpack", "--data", str(data)]) == 0
    assert rqps.load("synthetic", data).runs.height == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "synthetic.rqps"]


@pytest.mark.parametrize("name", ["sent", "sent.rqps"])
def test_a_reader_finds_the_old_one_or_the_new_one(
    name: str, data: Path, tmp_path: Path, never_missing: list[Path]
) -> None:
    [packed] = pack("synthetic", tmp_path / name, data)
    never_missing.append(packed / "runs.parquet" if packed.is_dir() else packed)
    before = packed.stat().st_ino
    assert pack("synthetic", tmp_path / name, data)[0].stat().st_ino != before
    assert [path.name for path in tmp_path.iterdir() if path != data] == [name]


def test_folders_of_runs_are_never_replaced(data: Path, tmp_path: Path) -> None:
    [packed] = pack("synthetic", tmp_path / "sent", data)
    with pytest.raises(RqpsError, match="contains folders of runs already"):
        unpack(str(packed), data / "raw")
    with pytest.raises(RqpsError, match="contains folders of runs already"):
        pack(str(packed), data / "raw")
    assert rqps.load("synthetic", data).runs.height == 6


def test_no_run_is_added_to_a_packed_study(data: Path, tmp_path: Path) -> None:
    [packed] = pack("synthetic", tmp_path / "sent", data)
    shutil.rmtree(data / "raw" / STUDY)
    shutil.copytree(packed, data / "raw" / STUDY)
    with pytest.raises(RqpsError, match="this study is packed") as caught:
        StudyFolder.of(data, "synthetic")
    assert "rqps pack" in caught.value.fix
    unpack(str(data / "raw" / STUDY), data / "raw")
    assert StudyFolder.of(data, "synthetic").path.is_dir()
    assert rqps.load("synthetic", data).runs.height == 6


def test_folders_are_not_unpacked(data: Path, tmp_path: Path) -> None:
    with pytest.raises(RqpsError, match="this study is not packed"):
        unpack("synthetic", tmp_path / "again", data)
    assert not (tmp_path / "again").exists()


def test_a_study_without_a_run_is_not_packed(tmp_path: Path) -> None:
    write_study_card(tmp_path / "raw" / STUDY, card())
    with pytest.raises(RqpsError, match="no run has finished"):
        pack("synthetic", tmp_path / "x.rqps", tmp_path)


@pytest.mark.parametrize("keep", [0, 10, 1000, -1])
def test_a_packed_file_that_is_cut_off_is_an_error(data: Path, tmp_path: Path, keep: int) -> None:
    [file] = pack("synthetic", tmp_path / "x.rqps", data)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(RqpsError, match=r"x\.rqps: can't be read") as caught:
        rqps.load(file)
    assert "copy it again" in caught.value.fix


@pytest.mark.parametrize("name", ["runs", "steps", "settings"])
def test_a_table_that_is_cut_off_is_named_when_the_study_is_read(data: Path, tmp_path: Path, name: str) -> None:
    [folder] = pack("synthetic", tmp_path, data)
    table = folder / f"{name}.parquet"
    table.write_bytes(table.read_bytes()[:-5])
    with pytest.raises(RqpsError, match=rf"{name}\.parquet: can't be read"):
        rqps.load(folder)


def test_a_table_with_another_bit_is_not_unpacked(data: Path, tmp_path: Path) -> None:
    [folder] = pack("synthetic", tmp_path, data)
    table = folder / "intervals.parquet"
    flipped = bytearray(table.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    table.write_bytes(flipped)
    with pytest.raises(RqpsError, match=r"intervals\.parquet: can't be read: its SHA-256"):
        unpack(str(folder), tmp_path / "again")
    [file] = pack("synthetic", tmp_path / "x.rqps", data)
    inside = bytearray(file.read_bytes())
    inside[inside.index(b"study=synthetic/intervals.parquet") + 300] ^= 1
    file.write_bytes(inside)
    with pytest.raises(RqpsError, match=r"x\.rqps: can't be read: Bad CRC-32"):
        rqps.load(file).intervals.collect()


def test_a_newer_schema_is_refused(data: Path, tmp_path: Path) -> None:
    [folder] = pack("synthetic", tmp_path, data)
    with_runs(folder, pl.read_parquet(folder / "runs.parquet"), rqps_schema_version="99")
    with zipfile.ZipFile(tmp_path / "x.rqps", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"{STUDY}/{path.name}")
    for place in (folder, tmp_path / "x.rqps"):
        with pytest.raises(
            RqpsError, match=r"runs\.parquet: schema version 99, but this rqps reads only 2"
        ) as caught:
            rqps.load(place)
        assert "update rqps" in caught.value.fix


def with_runs(folder: Path, runs: pl.DataFrame, **changes: str) -> None:
    path = folder / "runs.parquet"
    metadata = {key: text for key, text in pl.read_parquet_metadata(path).items() if key.startswith("rqps")}
    runs.write_parquet(path, metadata=metadata | changes)
    (folder / DIGEST).write_text(f"{sha256(path)}  {path.name}\n")


def test_one_that_an_older_rqps_packed_is_read_with_the_columns_of_today(data: Path, tmp_path: Path) -> None:
    [folder] = pack("synthetic", tmp_path, data)
    with_runs(folder, pl.read_parquet(folder / "runs.parquet").drop("machine", "measured_s"))
    same(rqps.load(folder, mode=None), rqps.load("synthetic", data, None))


def test_a_run_that_is_there_twice_is_no_further_round(data: Path, tmp_path: Path) -> None:
    [folder] = pack("synthetic", tmp_path, data)
    runs = pl.read_parquet(folder / "runs.parquet")
    with_runs(folder, pl.concat([runs, runs.filter(folder="run=r01@my1.base@here")]))
    with pytest.raises(RqpsError, match=r"runs\.parquet: can't be read: it has a run twice"):
        rqps.load(folder)


@pytest.mark.parametrize(
    "name", ["../../outside", "/tmp/outside", "run=../../../outside", "run=r01@here/..", "outside"]
)
def test_a_hostile_packed_study_writes_nothing_outside(data: Path, tmp_path: Path, name: str) -> None:
    [folder] = pack("synthetic", tmp_path, data)
    runs = pl.read_parquet(folder / "runs.parquet")
    with_runs(folder, runs.with_columns(folder=pl.Series([name, *runs["folder"][1:]])))
    for read in (rqps.load, lambda place: unpack(str(place), tmp_path / "again")):
        with pytest.raises(RqpsError, match="is not the name of a folder of runs"):
            read(folder)
    assert not [path for path in (tmp_path, Path("/tmp")) if (path / "outside").exists()]
    assert not list((tmp_path / "again").rglob("*"))


@pytest.mark.parametrize("place", ["nowhere.rqps", "no/such/folder", "x.rqps/study=other"])
def test_a_place_with_no_study_is_an_error(data: Path, tmp_path: Path, place: str) -> None:
    pack("synthetic", tmp_path / "x.rqps", data)
    with pytest.raises(RqpsError, match="there is no study") as caught:
        rqps.load(tmp_path / place)
    assert "rqps pack" in caught.value.fix


def test_what_is_no_packed_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "x.rqps"
    file.write_text("hello")
    with pytest.raises(RqpsError, match=r"x\.rqps: can't be read"):
        rqps.load(file)


def test_the_manifest_of_a_packed_run_is_the_one_that_was_written(data: Path, tmp_path: Path) -> None:
    [file] = pack("synthetic", tmp_path / "x.rqps", data)
    rows = rqps.load(file).manifests.collect()
    one = rows.row(by_predicate=pl.col("folder") == "run=r01@my1.base@here", named=True)
    folder = data / "raw" / STUDY / one["folder"]
    assert one["manifest"] == (folder / "manifest.json").read_text()
    assert one["asked"] == (folder / "asked.json").read_text()
    assert read_manifest(folder).run == json.loads(one["manifest"])["run"]


@pytest.mark.parametrize("study", ["../away", "a/b", "..", ""])
def test_a_packed_study_whose_name_leads_elsewhere_is_refused(study: str, data: Path, tmp_path: Path) -> None:
    [packed] = pack("synthetic", tmp_path / "sent", data)
    card = json.dumps({**json.loads(read_study_card(packed).model_dump_json()), "study": study})
    with_runs(packed, pl.read_parquet(packed / "runs.parquet"), **{CARD_KEY: card})
    with pytest.raises(RqpsError, match=r"runs\.parquet: can't be read: 1 validation error"):
        rqps.load(packed)


def test_a_packed_study_that_names_files_elsewhere_is_refused(data: Path, tmp_path: Path) -> None:
    [packed] = pack("synthetic", tmp_path / "sent", data)
    files = '{"../../../../../../dev/zero": [0, ""]}'
    with_runs(packed, pl.read_parquet(packed / "runs.parquet"), **{FILES_KEY: files})
    with pytest.raises(RqpsError, match=r"runs\.parquet: can't be read: it names files outside its folder"):
        unpack(str(packed), tmp_path / "again")


def test_a_packed_file_that_takes_more_room_than_it_shows_is_refused(data: Path, tmp_path: Path) -> None:
    [packed] = pack("synthetic", tmp_path / "sent", data)
    with zipfile.ZipFile(tmp_path / "x.rqps", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(packed / "runs.parquet", "study=synthetic/runs.parquet")
        archive.writestr("study=synthetic/steps.parquet", bytes(10_000_000))
    with pytest.raises(RqpsError, match=r"x\.rqps: can't be read: its contents are compressed"):
        rqps.load(tmp_path / "x.rqps")


@pytest.mark.parametrize("table", ["runs", "steps", "intervals"])
@pytest.mark.parametrize("form", ["file", "folder"])
def test_one_with_more_rows_than_its_bytes_can_have_is_refused_before_it_is_read(
    data: Path, tmp_path: Path, table: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [packed] = pack("synthetic", tmp_path / "sent", data)
    if table == "runs":
        with_runs(packed, pl.read_parquet(packed / "runs.parquet")[[0] * 200_000])
    else:
        repeated(path := packed / f"{table}.parquet", 200_000)
        files = json.dumps({path.name: (path.stat().st_size, sha256(path))})
        with_runs(packed, pl.read_parquet(packed / "runs.parquet"), **{FILES_KEY: files})
    if form == "file":
        with zipfile.ZipFile(tmp_path / "x.rqps", "w") as archive:
            for path in packed.iterdir():
                archive.write(path, f"{STUDY}/{path.name}")
        packed = tmp_path / "x.rqps"
    monkeypatch.setattr(run_tables, "MOST_VALUES", 100_000)
    with pytest.raises(RqpsError, match=rf"{table}\.parquet: can't be read: it says that it has 200,000 rows"):
        rqps.load(packed).intervals.collect()


def test_a_packed_file_of_more_files_than_it_can_have_is_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [file] = pack("synthetic", tmp_path / "x.rqps", data)
    monkeypatch.setattr(packed_studies, "_LONGEST_LIST", 500)
    with pytest.raises(RqpsError, match=r"x\.rqps: can't be read: .*central directory"):
        rqps.load(file)


def test_what_a_killed_rqps_was_packing_is_removed_by_the_next(data: Path, tmp_path: Path) -> None:
    with Child(
        f"""
        from pathlib import Path
        from rqps.store import packing, write
        write.flush = turn
        packing.pack("synthetic", Path("{tmp_path}/sent/x.rqps"), Path("{data}"))
        """
    ) as child:
        child.kill()
    assert len(list((tmp_path / "sent").iterdir())) == 1
    pack("synthetic", tmp_path / "sent/x.rqps", data)
    assert [path.name for path in (tmp_path / "sent").iterdir()] == ["x.rqps"]
