"""What does a hostile or damaged file take until rqps refuses it? Seconds, and the peak of memory with all libraries.

First each runs.yaml of tests/test_excess.py, by `rqps plan` as a whole command, beside one that is good. Then flipped
bits, by a seed, in all files that are read: each kind in a process of its own, without the start of Python. The
goals: 2 s and 500 MB.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rqps.engines.sources.archives import unpack as unpack_archive
from rqps.errors import RqpsError
from rqps.store.packing import pack, unpack

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # where the files are that have too much of something

from test_damage import files_of, flip, numbers, peak_bytes  # noqa: E402
from test_excess import BOMBS  # noqa: E402
from test_fuzz import packed  # noqa: E402
from test_runs_yaml import GOOD  # noqa: E402

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--flips", type=int, default=300, help="of each kind")
options.add_argument("--study", default="releases", help="of the sample")

Read = Callable[[], object]


def planned(text: str, folder: Path) -> str:
    """The seconds and memory of `rqps plan` on a file with this text."""
    (file := folder / "runs.yaml").write_text(text)
    command = [sys.executable, "-m", "rqps.cli", "plan", "demo", "--runs-yaml", str(file)]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took_s = time.perf_counter() - began
    return f"{took_s:.2f} s, {used.ru_maxrss / 1024:.0f} MB, exit code {process.returncode}"


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
        file.write_bytes(packed(file.name[1:]))

    def read() -> None:
        for file in files:
            with tempfile.TemporaryDirectory(dir=scratch) as tree:
                unpack_archive(file, Path(tree))

    return files, read


def flipped(make: Callable[[str, Path], tuple[list[Path], Read]], study: str, flips: int, unnoticed: bool) -> str:
    """The worst seconds and the peak of memory of files that have another bit."""
    chance, refused_s = random.Random(16), []
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as scratch:
        files, read = make(study, Path(scratch))
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
    return f"{len(refused_s)} of {flips} refused, {max(refused_s):.2f} s at most, {peak_bytes() / 1e6:.0f} MB"


def main() -> None:
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as folder:
        more = {"a good one": GOOD, "10 MB": GOOD + f"# {'x' * 10_000_000}\n", "1 MB": GOOD + "# x\n" * 240_000}
        for kind, text in {**more, **BOMBS}.items():
            print(f"runs.yaml, {kind}: {planned(text, Path(folder))}", flush=True)
    for kind, make, unnoticed in (
        ("folders of runs", folders, False),
        ("folders of runs, with their times as they were", folders, True),
        ("a packed folder", packed_folder, False),
        ("a packed file", packed_file, False),
        ("archives", archives, False),
    ):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            words = process.submit(flipped, make, asked.study, asked.flips, unnoticed).result()
        print(f"flipped bits, {kind}: {words}", flush=True)


if __name__ == "__main__":
    main()
