"""Whatever stands in a file, reading it gives values or an error for people: no traceback, and nothing endless."""

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import rqps
from hypothesis import given, settings
from hypothesis import strategies as st
from rqps.engines.sources.archives import unpack
from rqps.errors import RqpsError
from rqps.store.manifest import CARD, MANIFEST, PACKED_RUNS, SEAL, read_manifest, read_study_card, sealed
from rqps.store.packed import CARD_KEY, DIGEST, FILES_KEY
from rqps.store.packing import pack
from synthetic import card, manifest, write_study
from test_archive import ELF, regular, symlink, tarball, zipped
from test_runs_yaml import GOOD, WITH_A_SCENARIO, read

TOKENS = [
    *("*a", "&a ", "<<: ", "? ", "- ", "[", "]", "{", "}", ": "),
    *("\n", "\n  ", "#", "!!int ", "!x ", "|", ">", "%", "---\n"),
    *("0x", "1e999", ".inf", "1_000", "1:30", "9" * 25, "9" * 5000),
    *("~", "null", "on", "'", '"', "\\", "\0", "\u2028"),
    *("extends: demo", "rounds: -1", "dbms: []", "studies:", "parameters:", "perf_schema: {instruments: {x: timed}}"),
]
MUCH = settings(max_examples=300, deadline=None)


def read_or_refused(read: Callable[[], Any]) -> tuple[Any, str]:
    """What was read, or the words of the error."""
    try:
        return read(), ""
    except RqpsError as error:
        return None, str(error)


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    """A text with a few things put in, taken out or put elsewhere."""
    for _ in range(draw(st.integers(1, 5))):
        begin, length = draw(st.integers(0, len(text))), draw(st.integers(0, 40))
        existing = draw(st.integers(0, len(text)))
        new = draw(st.sampled_from(TOKENS) | st.text(max_size=5) | st.just(text[existing : existing + length]))
        text = text[:begin] + new + text[begin + draw(st.sampled_from([0, length])) :]
    return text


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes with some of them changed, or cut off."""
    result = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        result[draw(st.integers(0, len(result) - 1))] = draw(st.integers(0, 255))
    return bytes(result[: draw(st.just(len(result)) | st.integers(0, len(result)))])


@MUCH
@given(st.sampled_from([GOOD, WITH_A_SCENARIO]).flatmap(edited))
def test_any_runs_yaml(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        result, words = read_or_refused(lambda: read(text.encode("utf-8", "replace").decode(), Path(folder)))
    assert result or f"{folder}/runs.yaml:" in words


SEALED = sealed(manifest("my1.base", 1))
UNSEALED = json.dumps({name: value for name, value in json.loads(SEALED).items() if name != SEAL})


@MUCH
@given(st.sampled_from([SEALED, UNSEALED]).flatmap(edited))
def test_any_manifest(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / MANIFEST).write_bytes(text.encode("utf-8", "replace"))
        result, words = read_or_refused(lambda: read_manifest(Path(folder)))
    assert result or f"{folder}/{MANIFEST}: " in words


@MUCH
@given(edited(sealed(card())))
def test_any_card_with_a_digest_says_what_it_said(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / CARD).write_bytes(text.encode("utf-8", "replace"))
        result, words = read_or_refused(lambda: read_study_card(Path(folder)))
    assert f"{folder}/{CARD}: " in words or result.model_copy(update={SEAL: None}) == card()


def packed(kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{kind}"
        if kind == ".zip":
            zipped(path, "bin/mysqld", ELF + bytes(3000))
        else:
            tarball(path, regular("bin/mysqld", ELF + bytes(3000)), symlink("bin/mysql", "mysqld"))
        return path.read_bytes()


@MUCH
@given(
    st.sampled_from([".tar", ".tar.gz", ".tar.bz2", ".tar.xz", ".zip"]).flatmap(lambda kind: damaged(packed(kind)))
)
def test_any_archive(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive, tree = Path(folder) / "archive", Path(folder) / "in" / "tree"
        archive.write_bytes(content)
        tree.mkdir(parents=True)
        _, words = read_or_refused(lambda: unpack(archive, tree))
        assert not words or archive.name in words
        assert {path.name for path in Path(folder).iterdir()} == {"archive", "in"}
        assert [path.name for path in tree.parent.iterdir()] == ["tree"]


@cache
def studies() -> dict[Path, list[Path]]:
    """The same study as folders of runs, packed in a folder, and in a file; each with its files that have rows."""
    place = Path(tempfile.mkdtemp())
    data = write_study(place / "data", dbms=("my1.base",), rounds=1)
    packed = [pack("synthetic", place / name, data)[0] for name in ("sent", "sent.rqps")]
    result = (data / "raw/study=synthetic", *packed)
    return {path: sorted(path.rglob("*.parquet")) if path.is_dir() else [path] for path in result}


def rows(study: Path) -> list[pl.DataFrame]:
    loaded = rqps.load(study)
    return [
        loaded.conditions,
        *(getattr(loaded, name).lazy().collect() for name in ("steps", "intervals", "settings")),
    ]


@settings(MUCH, max_examples=150)
@given(st.integers(0, 2), st.data())
def test_any_table(number: int, data: st.DataObject) -> None:
    study, files = list(studies().items())[number]
    path, right = data.draw(st.sampled_from(files)), rows(study)
    content = path.read_bytes()
    path.write_bytes(data.draw(damaged(content)))
    result, words = read_or_refused(lambda: rows(study))
    path.write_bytes(content)
    assert str(path) in words or all(one.equals(other) for one, other in zip(result, right, strict=True))


@cache
def packed_study() -> Path:
    folder = Path(tempfile.mkdtemp())
    return pack("synthetic", folder / "sent", write_study(folder / "data", rounds=1))[0]


@settings(MUCH, max_examples=100)
@given(st.sampled_from([CARD_KEY, FILES_KEY]), st.data())
def test_any_words_in_a_packed_study(key: str, data: st.DataObject) -> None:
    runs = packed_study() / PACKED_RUNS
    complete, metadata = runs.read_bytes(), pl.read_parquet_metadata(runs)
    text = data.draw(edited(metadata[key])).encode("utf-8", "replace").decode()
    ours = {name: words for name, words in metadata.items() if name.startswith("rqps")}
    pl.read_parquet(runs).write_parquet(runs, metadata={**ours, key: text})
    runs.with_name(DIGEST).unlink(missing_ok=True)  # as in one that somebody else made
    result, words = read_or_refused(lambda: rqps.load(runs.parent).intervals.collect())
    runs.write_bytes(complete)
    assert result is not None or str(runs.parent) in words
