"""RocksDB, a library without a server: it runs in the process of the load generator, which each step starts anew."""

import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rqps.engines import Counted, Say, Start, Watch
from rqps.engines.asked import Asked
from rqps.engines.cache import cache_dir, made_once
from rqps.engines.rocksdb import flags
from rqps.engines.rocksdb.build import Build, locate, source
from rqps.engines.rocksdb.flags import Flags, plain
from rqps.engines.sources.programs import ask, refuse_here
from rqps.errors import RqpsError, no_room

counted = Counted("one_operation", "client")
"""The function of rqps's own driver for one operation. db_bench has no such function, so instructions of db_bench are
not counted."""
USUAL_CACHE_BYTES = 1 << 30
BESIDE_THE_CACHE_BYTES = 256 << 20
"""An estimate of the memory for memtables, for files that are being read and written, and for the program."""
CACHE_TYPES = {
    "LRUCache": "lru_cache",
    "HyperClockCache": "hyper_clock_cache",
    "FixedHyperClockCache": "hyper_clock_cache",
    "AutoHyperClockCache": "auto_hyper_clock_cache",
}
"""Maps the class of the block cache in RocksDB's LOG to the value of db_bench's flag `cache_type`; OPTIONS files do
not name the class."""
_CACHE = re.compile(r"block_cache_name: (\w+)")
_SECTION = re.compile(r'\[(\S+)(?: "(.*)")?\]')


def memory_bytes(asked: Asked) -> int:
    option = asked.options.get("cache_size")
    size = plain(option.value) if option else str(USUAL_CACHE_BYTES)
    # `prepare` refuses a size that is no number.
    return BESIDE_THE_CACHE_BYTES + (int(size) if size.isdecimal() else 0)


def foresee(asked: Asked) -> None:
    """Raises the errors of `prepare` that can be found without fetching or starting anything: a path without a
    library, and flags that db_bench does not have."""
    refuse_here(asked, source(asked.build, asked.build_spec), locate)
    for name in asked.options:
        flags.flag_of(name, asked.dbms)


def prepare(asked: Asked, say: Say) -> "PreparedLibrary":
    """Prepares the dbms of a run: fetches the build if needed, and checks the config against the flags that the build
    has."""
    build = locate(asked.build, asked.build_spec, say)
    options, left_out = flags.checked(asked.options, build, asked.dbms, build.db_bench)
    return PreparedLibrary(asked.dbms, asked.config, build, options, tuple(left_out))


@dataclass(frozen=True)
class PreparedLibrary:
    """A dbms whose build is on this machine, with the flags of its config."""

    dbms: str
    config: str
    build: Build
    options: Mapping[str, str]
    left_out: tuple[str, ...] = ()

    @property
    def in_words(self) -> Mapping[str, str]:
        how = "its own db_bench" if self.build.db_bench else "the driver, which is the same for all releases"
        return {
            "load put by": how,
            "built by": self.build.words,
            "flags left out": ", ".join(self.left_out) or "none",
        }

    def loaded(self, name: str, load: Callable[["Database"], None], say: Say) -> Path:
        """A directory with loaded databases, the same for all builds: `name` contains the release that wrote the
        databases, and the way in which they were written.

        A run's copy has links to the databases' table files, which are never written again. So all runs read the same
        disk blocks, and a file's number, which older releases hash into the keys of the block cache, is the same in
        each run.
        """
        form = self.options.get("format_version")
        folder = (cache_dir() / "data").resolve() / "rocksdb" / (f"{name}-format-{form}" if form else name)

        def make(work: Path) -> None:
            (work / "data").mkdir()
            load(Database(self, work / "data", Start(log=work / "load.log")))
            for table in [*(work / "data").glob("*/*.sst")]:
                place = Path("tables", table.parent.name, table.name)
                (work / place).parent.mkdir(parents=True, exist_ok=True)
                table.rename(work / place)
                table.symlink_to(folder / place)

        return made_once(folder, make, say) / "data"

    def open(self, directory: Path, asked: Start) -> "Database":
        return Database(self, directory, asked)


prepared = PreparedLibrary


class _Watch:
    """A watch that reads no status: the load generator reports the status of a step itself, since the database is
    in its process."""

    def begin(self) -> Mapping[str, str]:
        return {}

    def end(self, transactions: int) -> Mapping[str, str]:  # noqa: ARG002 there is no status to compare
        return {}

    def lost(self) -> tuple[str, ...]:
        return ()


@dataclass
class Database:
    """A directory with the databases of a run. They are open while a step's process runs."""

    prepared: PreparedLibrary
    directory: Path
    start: Start
    pids: tuple[int, ...] = field(default=(), init=False)
    """The process of the running step, which contains RocksDB."""
    _written: dict[str, dict[str, str]] = field(default_factory=dict, init=False)
    """Maps the name of each database of the run to the options with which the database was written."""

    @property
    def build(self) -> Build:
        return self.prepared.build

    @property
    def name(self) -> str:
        return self.prepared.dbms

    @property
    def version(self) -> str:
        return self.build.version

    @property
    def version_comment(self) -> str:
        return self.build.words

    @property
    def places(self) -> Mapping[str, str]:
        return {str(self.directory.parent): "<scratch>", str(self.build.directory): "<build>"}

    def command(self, asked: Flags, *own: str) -> list[str]:
        """The command line of a step, with the step's flags `asked` and the config's flags. If both have a flag, it
        gets the config's value."""
        return [*self.start.under, *self.build.command({**asked, **self.prepared.options}), *own]

    def verify(self) -> list[tuple[str, str, str]]:
        """Opens an empty database with the flags of the config, and compares the flags with the options in the
        OPTIONS file that RocksDB then wrote."""
        with tempfile.TemporaryDirectory(prefix="rqps-verify-", dir=self.directory.parent) as folder:
            if self.build.db_bench:
                own = ["--benchmarks=fillseq", "--num=1", f"--db={folder}"]
            else:
                own = ["create=1", f"db={folder}"]
            call = [*self.build.command({"compression_type": "none", **self.prepared.options}), *own]
            done = ask(call, self.build.environment)
            if done.returncode < 0:
                killed = f"it was killed by {signal.Signals(-done.returncode).name}"
                raise self.refused(f"{done.stdout}\nerror: {killed}")
            if done.returncode != 0:
                raise self.refused(done.stdout)
            written = written_options(Path(folder))
            if cache := _CACHE.search((Path(folder) / "LOG").read_text(errors="replace")):
                written["cache_type"] = CACHE_TYPES.get(cache[1], cache[1])
        verified, wrong = [("version", self.build.version, self.build.version)], []
        for name, value in self.prepared.options.items():
            flag, asked = flags.known()[name], flags.written(name, value, self.prepared.options)
            called = flag.option or flag.table or flag.driver
            if asked is None or called not in written:
                continue
            if not _same(asked, written[called]):
                wrong.append(f"{name}: asked for {asked}, RocksDB has {written[called]}")
            verified.append((name, asked, written[called]))
        if wrong:
            message = f"{self.name}: RocksDB does not have what was asked for:\n  " + "\n  ".join(wrong)
            raise RqpsError(message, fix=self._other_config)
        return verified

    @property
    def _other_config(self) -> str:
        return f"change config {self.prepared.config!r} in runs.yaml to what this release can do"

    def refused(self, output: str) -> RqpsError:
        """The error for a database that can't be opened."""
        why = (
            "\n".join(line for line in output.splitlines() if "rror" in line or "nvalid" in line)[-600:]
            or output[-300:]
        )
        fix = self.way_out(why) or self._other_config
        return RqpsError(f"{self.name}: RocksDB {self.version} does not open: {why.strip()}", fix=fix)

    def way_out(self, output: str) -> str:
        """The fix to print with an error message of RocksDB about a full disk or a missing O_DIRECT; empty for any
        other message."""
        if no_room(output):
            return "make room on the disk, set RQPS_SCRATCH to a folder on a larger one, or ask for fewer keys"
        if "irect I/O" in output or "O_DIRECT" in output:
            return (
                "this file system has no O_DIRECT: set RQPS_SCRATCH (and RQPS_CACHE, if written_by is set) to a "
                "folder on a file system with O_DIRECT, or leave iodir out"
            )
        return ""

    def settings(self) -> list[dict[str, Any]]:
        """All options in the OPTIONS files of the databases. If an option differs between databases, its row has the
        value of each database."""
        self._read_options()
        written = {}
        for name in sorted({name for options in self._written.values() for name in options}):
            values = {setup: options[name] for setup, options in self._written.items() if name in options}
            by_setup = (f"{setup}: {value}" for setup, value in values.items())
            written[name] = ", ".join(by_setup) if len({*values.values()}) > 1 else next(iter(values.values()))
        return [{"kind": "variable", "name": name, "value": value, "timed": None} for name, value in written.items()]

    def _read_options(self) -> None:
        for folder in sorted(self.directory.glob("*/"), key=lambda path: path.stat().st_mtime):
            if options := written_options(folder):
                self._written[folder.name] = options

    def clear(self) -> None:
        """Removes all databases; the options that were read from them stay in memory."""
        self._read_options()
        for old in self.directory.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()

    def thread_names(self) -> Mapping[int, str]:
        """Empty, since the operating system already knows the threads by their names: `client` and `writer` of the
        driver, `rocksdb:low` and `rocksdb:high` of RocksDB."""
        return {}

    @contextmanager
    def watching(self, step: str) -> Iterator[Watch]:  # noqa: ARG002
        yield _Watch()

    def explaining(self, step: str) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def close(self) -> str:
        for folder in self.start.scratch:
            shutil.rmtree(folder, ignore_errors=True)
        return ""


def written_options(folder: Path) -> dict[str, str]:
    """The options in the newest OPTIONS file of a database: options of the database, of its column families and of
    their tables."""
    written = sorted(folder.glob("OPTIONS-*[0-9]"))
    options, section = {}, ""
    for line in written[-1].read_text(errors="replace").splitlines() if written else ():
        if heading := _SECTION.match(line.strip()):
            section = heading[1]
        elif section != "Version" and "=" in line:
            name, _, value = line.strip().partition("=")
            options[name] = value
    return options


def _same(asked: str, written: str) -> bool:
    """True if two texts mean the same value, such as 0.5 and 0.500000."""
    try:
        return float(asked) == float(written)
    except ValueError:
        return asked == written or asked.rpartition(":")[0] == written or written.startswith(f"{asked}:")
