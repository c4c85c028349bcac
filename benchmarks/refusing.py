"""What does a hostile or damaged file take until rqps refuses it? Seconds, and the peak of memory with all libraries.

First each runs.yaml of tests/test_excess.py, by `rqps plan` as a whole command, beside one that is good. Then small
manifests, tables and archives that stand for far more than they are. Then flipped bits, by a seed, in all files that
are read: each kind in a process of its own, without the start of Python. The goals: 2 s and 500 MB.
"""

import argparse
import bz2
import gzip
import json
import lzma
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import polars as pl
from rqps.engines.cache import sha256
from rqps.engines.sources.archives import unpack as unpack_archive
from rqps.errors import RqpsError
from rqps.store import read_manifest, write_manifest
from rqps.store.manifest import MANIFEST, MOST_BYTES, PACKED_RUNS, SCHEMA_VERSION
from rqps.store.packed import FILES_KEY
from rqps.store.packing import pack, unpack
from rqps.store.write import VERSION_KEY

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # where the files are that have too much of something

from synthetic import write_study  # noqa: E402
from test_archive import regular  # noqa: E402
from test_damage import files_of, flip, numbers, peak_bytes  # noqa: E402
from test_excess import BOMBS  # noqa: E402
from test_fuzz import packed as packed_as  # noqa: E402
from test_packed import with_runs  # noqa: E402
from test_runs_yaml import GOOD  # noqa: E402

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--flips", type=int, default=300, help="of each kind")
options.add_argument("--study", default="releases", help="of the sample")

Read = Callable[[], object]
MEASURED = """
import resource, subprocess, sys
print(subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Starts a command from a small process: Linux counts the memory of the one that it comes from as its own."""


def planned(text: str, folder: Path) -> str:
    """The seconds and memory of `rqps plan` on a file with this text."""
    (file := folder / "runs.yaml").write_text(text)
    command = [sys.executable, "-m", "rqps.cli", "plan", "demo", "--runs-yaml", str(file)]
    began = time.perf_counter()
    output = subprocess.run(
        [sys.executable, "-S", "-c", MEASURED, *command], stdout=subprocess.PIPE, text=True
    ).stdout
    took_s, (code, most_kb) = time.perf_counter() - began, output.split()
    return f"{took_s:.2f} s, {int(most_kb) / 1024:.0f} MB, exit code {code}"


def folders(study: str, scratch: Path) -> tuple[list[Path], Read]:
    """Folders of runs, also of a sample that is packed."""
    [file] = pack(study, scratch / "sample.rqps", ROOT / "data")
    [place, *_] = unpack(str(file), scratch)
    return files_of(place), lambda: numbers(place)


def packed_folder(study: str, scratch: Path) -> tuple[list[Path], Read]:
    [place, *_] = pack(study, scratch, ROOT / "data")
    return files_of(place), lambda: numbers(place)


def packed_file(study: str, scratch: Path) -> tuple[list[Path], Read]:
    [file] = pack(study, scratch / "x.rqps", ROOT / "data")
    return [file], lambda: numbers(file)


def archives(_: str, scratch: Path) -> tuple[list[Path], Read]:
    files = [scratch / f"a{kind}" for kind in (".tar", ".tar.gz", ".tar.bz2", ".tar.xz", ".zip")]
    for file in files:
        file.write_bytes(packed_as(file.name[1:]))

    def read() -> None:
        for file in files:
            with tempfile.TemporaryDirectory(dir=scratch) as tree:
                unpack_archive(file, Path(tree))

    return files, read


def flipped(make: Callable[[str, Path], tuple[list[Path], Read]], study: str, flips: int, unnoticed: bool) -> str:
    """The worst seconds, and the most memory beyond that of reading them whole, of files that have another bit."""
    chance, refused_s = random.Random(16), []
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as scratch:
        files, read = make(study, Path(scratch))
        read()
        whole_mb = peak_bytes() / 1e6
        for _ in range(flips):
            path = chance.choice(files)
            content, was = path.read_bytes(), path.stat()
            flip(path, chance.randrange(8 * len(content)), unnoticed=unnoticed)
            began = time.perf_counter()
            try:
                read()
            except RqpsError:
                refused_s.append(time.perf_counter() - began)
            path.write_bytes(content)
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    more_mb = peak_bytes() / 1e6 - whole_mb
    return f"{len(refused_s)} of {flips} refused, {max(refused_s):.2f} s and {more_mb:.0f} MB at most"


NOTHING = bytes(10_000_000)
BILLIONS = 2_000_000_000
MANIFESTS = {
    "lists in one another": "[" * 100_000 + "]" * 100_000,
    "as many lists as it may have": f"[{'[],' * (MOST_BYTES // 3 - 1)}[]]",
    "a number of 5,000 digits": "9" * 5000,
    "100 MB": f"{{{' ' * 100_000_000}}}",
}


def hostile(scratch: Path) -> Iterator[tuple[str, Read]]:
    """What is in each, and the way to read it."""
    data = write_study(scratch / "data", rounds=2)
    study = data / "raw/study=synthetic"
    run = min(study.glob("run=*"))
    manifest, as_written = run / MANIFEST, (run / MANIFEST).read_text()
    for kind, text in MANIFESTS.items():
        manifest.write_text(text)
        yield f"a manifest, {kind}", partial(numbers, study)
    manifest.write_text(as_written)
    [packed] = pack("synthetic", scratch / "sent", data)
    runs, version = pl.read_parquet(packed / PACKED_RUNS), {VERSION_KEY: str(SCHEMA_VERSION)}
    many = pl.select(writes=pl.repeat(True, BILLIONS))
    for folder, where in ((run, "a run's folder"), (packed, "a packed study")):
        for name in ("steps", "intervals"):
            before = (table := folder / f"{name}.parquet").read_bytes()
            many.write_parquet(table, metadata=version, row_group_size=BILLIONS // 20)
            if folder == run:
                write_manifest(run, read_manifest(run))  # with the right digests
            else:
                files = {table.name: (table.stat().st_size, sha256(table))}
                with_runs(packed, runs, **{FILES_KEY: json.dumps(files)})
            yield f"{BILLIONS:,} rows of {name} in {where}", partial(numbers, study if folder == run else packed)
            table.write_bytes(before)
    del many
    for suffix, compress in ((".tar.gz", gzip.compress), (".tar.bz2", bz2.compress), (".tar.xz", lzma.compress)):
        nothing = compress(NOTHING + bytes(-len(NOTHING) % tarfile.BLOCKSIZE))
        heads = (regular(str(number), NOTHING)[0].tobuf() for number in range(1200))
        (file := scratch / f"a{suffix}").write_bytes(b"".join(compress(head) + nothing for head in heads))
        yield f"12 GB in a {suffix}", partial(unpack_archive, file, scratch / f"tree{suffix}")
    names = b"".join(regular(str(number), b"")[0].tobuf() for number in range(300_000))
    (file := scratch / "b.tar.gz").write_bytes(gzip.compress(names))
    yield "300,000 empty files in a .tar.gz", partial(unpack_archive, file, scratch / "trees")
    with zipfile.ZipFile(scratch / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(200):
            archive.writestr(str(number), NOTHING)
    yield "2 GB in a .zip", partial(unpack_archive, scratch / "a.zip", scratch / "tree.zip")
    with zipfile.ZipFile(scratch / "b.rqps", "w") as archive:
        for number in range(300_000):
            archive.writestr(f"study=a/{number}", b"")
    yield "300,000 files in a packed study", partial(numbers, scratch / "b.rqps")


def refused(read: Read) -> str:
    began = time.perf_counter()
    try:
        read()
    except RqpsError as error:
        took_s = time.perf_counter() - began
        return f"{took_s:.2f} s, {peak_bytes() / 1e6:.0f} MB: {error.message.splitlines()[0][-100:]}"
    return "NOT REFUSED"


def alone(do: Callable[..., str], *arguments: object) -> str:
    """What it says, in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(do, *arguments).result()


def main() -> None:
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as folder:
        more = {"a good one": GOOD, "10 MB": GOOD + f"# {'x' * 10_000_000}\n", "1 MB": GOOD + "# x\n" * 240_000}
        for kind, text in {**more, **BOMBS}.items():
            print(f"runs.yaml, {kind}: {planned(text, Path(folder))}", flush=True)
        for kind, read in hostile(Path(folder)):
            print(f"{kind}: {alone(refused, read)}", flush=True)
    for kind, make, unnoticed in (
        ("folders of runs", folders, False),
        ("folders of runs, with their times as they were", folders, True),
        ("a packed folder", packed_folder, False),
        ("a packed file", packed_file, False),
        ("archives", archives, False),
    ):
        print(f"flipped bits, {kind}: {alone(flipped, make, asked.study, asked.flips, unnoticed)}", flush=True)


if __name__ == "__main__":
    main()
