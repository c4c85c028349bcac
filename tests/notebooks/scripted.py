"""What the scripted notebook does: a run without servers that goes wrong as it is told to."""

import faulthandler
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rqps.errors import RqpsError
from rqps.store import write_manifest
from synthetic import manifest

# Stands for a keeper: when the pipe from its owner closes, it takes a while to end, and says so.
KEEPER = """
import sys, time
sys.stdin.read()
time.sleep(float(sys.argv[3]))
with open(sys.argv[1], "a") as log: log.write(f"stopped {sys.argv[2]}\\n")
"""


class Act:
    def __init__(self, folder: str) -> None:
        self.asked = json.loads((Path(folder) / "logs/job.json").read_text())
        house = Path(self.asked["house"])
        self.log = house / "order.log"
        self.folder = Path(self.asked["folder"])
        unit, _, of_a_duet = self.asked["run"].partition("/")
        self.name = unit.partition("@")[0] if of_a_duet else f"r{self.asked['round']} {self.asked['dbms']}"
        self.fault = json.loads((house / "script.json").read_text()).get(self.name)

    def note(self, what: str) -> None:
        with self.log.open("a") as log:
            log.write(f"{what} {self.name}\n")

    def prepare(self) -> None:
        self.note("prepare")
        if self.fault == "dies at once":
            os._exit(3)
        self.keeper = subprocess.Popen(
            [sys.executable, "-S", "-c", KEEPER, str(self.log), self.name, "1.5" if self.fault == "kill" else "0.1"],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        with (self.folder / "pids.txt").open("a") as pids:
            pids.write(f"{self.keeper.pid}\n")

    def measure(self) -> None:
        self.note("run")
        (self.folder / "progress.txt").write_text("point-query 1/1")
        try:
            self._go_wrong()
        finally:
            assert self.keeper.stdin
            self.keeper.stdin.close()
            self.keeper.wait()
            self.note("cleanup")

    def _go_wrong(self) -> None:
        if self.fault == "raise":
            raise ValueError("the third wheel came off")
        if self.fault == "refuse":
            raise RqpsError("my.cnf: no such option", fix="leave it out")
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "crash":
            faulthandler.enable()
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.fault == "vanish":
            shutil.rmtree(self.folder)
        if self.fault == "vanish with all":
            shutil.rmtree(self.folder.parents[1])
        if self.fault in ("sleep", "hold on"):
            deadline = time.monotonic() + 600
            while time.monotonic() < deadline:
                try:
                    time.sleep(1)
                except KeyboardInterrupt:
                    if self.fault == "sleep":
                        raise
        if self.fault == "chatty":
            (self.folder / "logs/mysqld.err").write_bytes(b"first\n" + 3_000_000 * b"x" + b"\nlast")
        if self.fault == "fill":
            (self.folder / "steps.parquet").write_bytes(b"x" * 4_000_000)

    def conclude(self) -> None:
        if self.fault == "nothing":
            return
        changes: dict[str, Any] = {"identity": "another"} if self.fault == "other" else {}
        if self.fault == "rebuilt":
            changes |= {"build_digest": 64 * "b"}
        if self.fault == "says failed":
            changes |= {"outcome": "failed", "error": "my1 did not start"}
        for asked in self.asked["members"]:
            facts = {name: asked[name] for name in ("study", "run", "identity", "mode", "occasion")} | changes
            values = manifest(asked["dbms"], asked["round"], ended_at=datetime.now(UTC), **facts)
            write_manifest(self.folder / asked["run"].partition("/")[2], values)
        if self.fault == "garbage":
            (self.folder / "manifest.json").write_text('{"schema_version": 1, "run"')

    def after(self) -> None:
        if self.fault == "stumble":
            raise ValueError("no picture today")
        if self.fault == "kill late":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "big":
            print("x" * 4_000_000)
