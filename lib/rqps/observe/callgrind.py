"""A server under callgrind: started so that only statements are counted, and asked for its counts."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from rqps.engines.sources.programs import Tool
from rqps.errors import RqpsError
from rqps.observe.callgrind_profile import COUNTED, Profile, read_profile

ORDER_PATIENCE_S = 120
"""An order waits for the server's next instruction, which is at most a second away even where all threads sleep."""
DEEPEST = 250
"""Callers that make a function a stack of its own. Stacks of servers have fifty frames; a longer one is a warning."""

OPTIONS = (
    "--tool=callgrind",
    f"--toggle-collect={COUNTED}(*)",  # not the parts that a compiler split off: they would switch it off again
    "--collect-atstart=no",
    "--instr-atstart=no",  # nothing is counted while it starts and reads its tables
    f"--separate-callers={DEEPEST}",
    "--compress-mangled=yes",  # else each stack is spelt out, in hundreds of megabytes
    "--trace-children=no",
)


@dataclass(frozen=True)
class Callgrind:
    """The command that a server runs under, and orders for it while it runs."""

    valgrind: Tool
    folder: Path
    """Private to this server: callgrind's files, and the pipes through which it takes orders."""
    log: Path
    start_patience_s: int = 900
    """Code runs fifty times slower when it is counted, and ten times when it is not."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command that runs a program under callgrind."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return (
            *self.valgrind.argv,
            *OPTIONS,
            f"--callgrind-out-file={self._out}",
            f"--vgdb-prefix={self.folder / 'vgdb'}",
            f"--log-file={self.log}",
        )

    def explained(self, error: RqpsError) -> RqpsError:
        """The error of a server that did not start, with Valgrind's own messages."""
        said = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return RqpsError(
            f"{error.message}\nit was started under callgrind, which said:\n" + "\n".join(said[-15:]),
            fix="see if it starts without (a round of throughput); if it does, this valgrind can't run this server",
        )

    def begin(self, pid: int) -> None:
        """Counts from now on. No client may have a command under way, since its end alone would be counted."""
        self._order(pid, "instrumentation", "on")

    def end(self, pid: int) -> Profile:
        """The counts since `begin`; nothing is counted after it until the next `begin`."""
        dump = self._dump(pid)
        self._order(pid, "instrumentation", "off")
        with dump.open(encoding="utf-8", errors="replace") as lines:
            profile = read_profile(lines, dump.name)
        dump.unlink()
        return profile

    @property
    def _out(self) -> Path:
        return self.folder / "callgrind.out"

    def _dump(self, pid: int) -> Path:
        before = set(self.folder.glob(f"{self._out.name}.*"))
        self._order(pid, "dump")
        new = set(self.folder.glob(f"{self._out.name}.*")) - before
        if len(new) != 1:
            raise RqpsError(
                f"callgrind wrote {len(new)} files when asked for what it counted, not one",
                fix=f"see {self.log.name}",
            )
        return new.pop()

    def _order(self, pid: int, *words: str) -> None:
        vgdb = Path(self.valgrind.argv[0]).with_name("vgdb")
        command = [str(vgdb), f"--pid={pid}", f"--vgdb-prefix={self.folder / 'vgdb'}", *words]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=ORDER_PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._refused(words, f"no answer within {ORDER_PATIENCE_S} s") from None
        if done.returncode != 0:
            raise self._refused(words, (done.stderr + done.stdout).strip()[-400:])

    def _refused(self, words: tuple[str, ...], why: str) -> RqpsError:
        return RqpsError(
            f"callgrind did not take the order {' '.join(words)!r}: {why}",
            fix=f"see {self.log.name}, and that the server still runs",
        )
