"""What does it take to pack 400 folders of runs, and what is it good for? Seconds to pack them, and to load them
packed, in one file and not; files and bytes of each.

The folders are copies of the sample's real runs, under numbers of rounds of their own. The goals: 5 s to pack, and to
load a packed study at least ten times faster than its folders.
"""

import argparse
import re
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

import rqps
from bench import compare, save
from rqps.store import read_manifest, write_manifest
from rqps.store.manifest import finished_runs
from rqps.store.packing import pack, unpack

DATA = Path(__file__).parent.parent / "data"
RUNS = 400

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--pairs", type=int, default=20)
options.add_argument("--study", default="releases", help="of the sample")
options.add_argument("--json", type=Path, help="where to write all numbers")


def write(study: str, scratch: Path) -> Path:
    """A study of so many folders with tables, of copies of a sample's runs."""
    [file, *_] = pack(study, scratch / "sample.rqps", DATA)
    [folder, *_] = unpack(str(file), scratch)
    real = finished_runs(folder)
    rounds = max(read_manifest(run_folder).round for run_folder in real)
    for number in range(len(real), RUNS):
        like = real[number % len(real)]
        manifest = read_manifest(like)
        round_ = manifest.round + number // len(real) * rounds
        run = re.sub(r"\d+", f"{round_:02}", manifest.run, count=1)
        shutil.copytree(like, folder / f"run={run}")
        facts = {"run": run, "round": round_, "position": number}
        write_manifest(folder / f"run={run}", manifest.model_copy(update=facts))
    return folder


def main() -> None:
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as name:
        folders = write(asked.study, Path(name))
        packed, file = Path(name) / "packed" / folders.name, Path(name) / "packed.rqps"

        def seconds_to_pack(to: Path) -> float:
            began = time.perf_counter()
            pack(str(folders), to)
            return time.perf_counter() - began

        print(f"seconds to pack {RUNS} folders: {seconds_to_pack(packed.parent):.2f}, {seconds_to_pack(file):.2f}")
        for place in (folders, packed, file):
            files = [path for path in (place, *place.rglob("*")) if path.is_file()]
            print(f"{place.name}: {len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")

        def seconds_to_load(place: Path) -> float:
            began = time.perf_counter()
            rqps.load(place)
            return time.perf_counter() - began

        seconds_to_load(folders)
        results = [
            compare(
                f"seconds to load {RUNS} runs: {what} (me) against their folders (base)",
                asked.pairs,
                partial(seconds_to_load, place),
                partial(seconds_to_load, folders),
            )
            for what, place in (("packed", packed), ("in one file", file))
        ]
        save(asked.json, {"benchmark": "packing", "found": results})


main()
