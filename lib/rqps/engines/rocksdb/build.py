"""Finds builds of RocksDB, which are either a library, opened by the driver, or a db_bench, and reads facts about
them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rqps import engines
from rqps.engines import Say, sources
from rqps.engines.asked import BuildSpec
from rqps.engines.compiled import how_compiled
from rqps.engines.rocksdb.flags import Flags, db_bench_arguments, driver_arguments
from rqps.engines.sources import Sought, Source
from rqps.engines.sources.programs import ask, compiled, located
from rqps.errors import RqpsError
from rqps.scratch import Scratch

DB_BENCH = "db_bench"
LIBRARIES = ("librocksdbjni-linux64.so", "librocksdb.so")
DRIVER_FLAGS = ("-O2", "-std=gnu11", "-fno-omit-frame-pointer", "-g1", "-rdynamic")
_VERSION = re.compile(r"RocksDB version: (\d+\.\d+\.\d+)")
_ASSERTION = re.compile(rb"rocksdb::Status rocksdb::DBImpl::\w+\(")
"""A function's name as assert() stores it in a program; a release build contains no such name."""


@dataclass(frozen=True)
class Build(engines.Build):
    """A library and the driver that opens it, or a db_bench."""

    words: str = ""
    """The compiler of the build, and the compression libraries in it."""

    @property
    def db_bench(self) -> bool:
        return self.program.name == DB_BENCH

    def command(self, flags: Flags) -> list[str]:
        """The command line with these flags; the driver needs further arguments of its own."""
        if self.db_bench:
            return [*self.argv, *db_bench_arguments(flags, self.number)]
        return [*self.argv, *driver_arguments(flags, self.number)]


def source(name: str, spec: BuildSpec) -> Source:
    if spec.source == "path" and Path(str(spec.path)).name == DB_BENCH:
        folder = spec.model_copy(update={"path": str(Path(str(spec.path)).parent)})
        return Source(folder, Sought(DB_BENCH, _db_bench_in, "rocksdb-tools", (DB_BENCH, "*.so*")))
    sought = Sought("librocksdb", _library_in, "librocksdb-dev", ("*librocksdb*.so*",))
    version = str(spec.version)
    if spec.source is None and not any(
        version == known or version.startswith(f"{known}.") for known in sources.catalogue("rocksdb")
    ):
        near = min(sources.catalogue("rocksdb"), key=lambda known: _distance(known, version))
        raise RqpsError(
            f"builds.{name}: rocksdb {version} is not in the catalogue; the nearest version in it is {near}",
            fix="take one that `rqps servers` lists, or the path of a db_bench or a librocksdb.so of your own, as in "
            f'{{path: ~/rocksdb/db_bench, rocksdb: "{version}"}}',
        )
    return sources.source_of(name, spec, sought)


def _distance(one: str, other: str) -> list[int]:
    """The differences between the numbers of two versions: [1, 2, 0] for 8.1.0 and 9.3.0."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    return [abs(int(left) - int(right)) for left, right in pairs]


def _library_in(tree: Path) -> Path | None:
    places = (tree, tree / "lib", tree / "lib64", tree / "usr/lib/x86_64-linux-gnu", tree / "build")
    return next((place / name for place in places for name in LIBRARIES if (place / name).is_file()), None)


def _db_bench_in(tree: Path) -> Path | None:
    program = tree / DB_BENCH
    return program if program.is_file() and program.stat().st_mode & 0o111 else None


def locate(name: str, spec: BuildSpec, say: Say) -> Build:
    def argv(program: Path) -> tuple[str, ...]:
        return (str(program),) if program.name == DB_BENCH else (str(driver(say)), str(program))

    origin = source(name, spec)
    build = located(Build, name, origin, spec, _facts, say, argv)
    facts = sources.asked_before(build.program)
    if facts["assertions"]:
        raise RqpsError(
            f"builds.{name}: {build.program.name} of {origin.words} was built with assertions, which cost 10 to 30 %",
            fix="build it as a release: make DEBUG_LEVEL=0 db_bench, or cmake -DCMAKE_BUILD_TYPE=Release",
        )
    return replace(build, words=facts["words"])


def driver(say: Say) -> Path:
    """The load generator, which drives RocksDB through the C API of its library."""
    return compiled(Path(__file__).with_name("driver.c"), DRIVER_FLAGS, ("-ldl", "-lpthread", "-lm"), say)


def _facts(argv: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The facts about a build: its version, whether it has assertions, and a description in words."""
    program = Path(argv[-1])
    content = program.read_bytes()
    output, log = _asked(argv, environment)
    version = _VERSION.search(log)
    if version is None:
        raise RqpsError(
            f"{program.name} does not open an empty database: {output[-400:].strip()}",
            fix=f"make this work first: {' '.join(argv)}",
        )
    inside = [line.removeprefix("fact ") for line in output.splitlines() if line.startswith("fact ")]
    checksum = "hardware" if re.search(r"Fast CRC32 supported: (1|Supported)", log) else "software"
    return {
        "version": version[1],
        "assertions": bool(_ASSERTION.search(content)) or "Assertions are enabled" in output,
        "words": ", ".join([how_compiled(program)["compiler"], *inside, f"crc32c in {checksum}"]),
    }


def _asked(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """The output of a build's program when it opens an empty database, and the LOG that RocksDB then wrote."""
    with Scratch() as folder:
        database = folder / "database"
        if len(argv) == 1:
            own = ["--benchmarks=fillseq", "--num=1", "--compression_type=none", f"--db={database}"]
            output = ask([*argv, *own], environment).stdout
        else:
            facts = ask([*argv, "facts"], {})
            if facts.returncode != 0:
                raise RqpsError(
                    f"{Path(argv[1]).name}: {facts.stdout.removeprefix('error: ').strip()}",
                    fix="take a library with RocksDB's whole C API, of 5.18 or later",
                )
            output = facts.stdout + ask([*argv, f"db={database}", "create=1"], {}).stdout
        log = database / "LOG"
        return output, log.read_text(errors="replace") if log.exists() else ""
