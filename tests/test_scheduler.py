"""A study on the workers of a Dask scheduler that is there already: with TLS only, and of this very version."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from child import PATIENCE_S, until
from distributed import Client, Security
from live_study import Place, ended
from rqps.engines.cache import cache_dir
from rqps.hosts.worker import SLOT
from ssh_host import NOT_SHARED
from test_hosts import RUNS

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

DASK = "import sys, distributed; {}from distributed.cli.dask_{} import main; sys.exit(main())"
OLDER = "from distributed import versions; versions._version_cached = lambda _: '2020.1.0'; "


class Site:
    """A scheduler with its keys, the host `a` as its worker, and a place to call rqps from."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "a/cache"
        self.cache.mkdir(parents=True)
        for path in cache_dir().iterdir():
            if not path.name.startswith(NOT_SHARED):
                (self.cache / path.name).symlink_to(path)
        self.keys = Security.temporary()
        (folder / "key").write_text(str(self.keys.tls_client_key))
        (folder / "certificate").write_text(str(self.keys.tls_client_cert))
        files = {"CA_FILE": "certificate", "CLIENT__KEY": "key", "CLIENT__CERT": "certificate"}
        keys = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(folder / file) for name, file in files.items()}
        self.environment = os.environ | keys
        self.processes: list[subprocess.Popen[str]] = []
        self.place = Place(folder / "here", RUNS)

    def start(
        self, what: str, *options: str, before: str = "", under: Sequence[str] = (), **popen: object
    ) -> "subprocess.Popen[str]":
        keys = [f"--tls-{name}={self.folder / file}" for name, file in (("ca-file", "certificate"), ("key", "key"))]
        command = [
            *under,
            sys.executable,
            "-c",
            DASK.format(before, what),
            "--host=127.0.0.1",
            "--no-dashboard",
            *keys,
        ]
        command += [f"--tls-cert={self.folder / 'certificate'}", *options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "text": True}
        self.processes.append(subprocess.Popen(command, **quiet | popen))  # type: ignore[call-overload]
        return self.processes[-1]

    def scheduler(self, before: str = "") -> str:
        """Starts a scheduler; its address."""
        file = self.folder / f"scheduler-{len(self.processes)}.json"
        self.start("scheduler", "--port=0", "--protocol=tls", f"--scheduler-file={file}", before=before)
        until(file.exists)
        until(lambda: file.read_text().endswith("}"))
        return str(json.loads(file.read_text())["address"])

    def worker(self, address: str, *options: str) -> None:
        """Starts a worker; it has joined."""
        cpu = max(os.sched_getaffinity(0))
        self.start(
            "worker",
            *(address, "--name=a", "--nthreads=1", "--no-nanny", *options),
            env=os.environ | {"RQPS_CACHE": str(self.cache), "TMPDIR": str(self.folder / "a")},
            cwd=self.folder / "a",
            under=["taskset", "--cpu-list", str(cpu)],
        )
        with Client(address, security=self.keys) as client:
            client.wait_for_workers(1, timeout=PATIENCE_S)

    def begin(self, address: str) -> "subprocess.Popen[str]":
        return self.place.start("--scheduler", address, env=self.environment)

    def run(self, address: str, code: int = 0) -> str:
        return ended(self.begin(address), code)

    def in_a_step(self) -> bool:
        notes = (self.cache.parent / "data/raw/study=small").glob(".run=*/progress.txt")
        return any("nap" in note.read_text() for note in notes)

    def below_the_worker(self) -> list[str]:
        return [str(one) for one in psutil.Process(self.processes[-1].pid).children(recursive=True)]


@pytest.fixture
def site(short: Path) -> Iterator[Site]:
    result = Site(short)
    yield result
    for process in reversed(result.processes):
        process.terminate()
        process.wait(240)


def test_what_its_workers_measure_comes_home_and_whoever_is_gone_is_waited_for_no_longer(site: Site) -> None:
    address = site.scheduler()
    site.worker(address, f"--resources={SLOT}=1")
    process = site.begin(address)
    site.place.wait("step", site.in_a_step, process)
    process.send_signal(signal.SIGINT)
    words = ended(process, 130)
    assert "b: tls://127.0.0.1:" in words
    assert "has no worker b; its workers are: a" in words
    assert site.below_the_worker() == []

    process = site.begin(address)
    site.place.wait("step", site.in_a_step, process)
    process.kill()
    process.communicate()
    until(lambda: site.below_the_worker() == [], patience_s=120, why=lambda: str(site.below_the_worker()))

    words = site.run(address, code=1)
    assert "a: small: 2 runs measured in" in words
    assert len(list(site.place.study.glob("run=*@a"))) == 2
    assert list(site.place.study.glob(".run=*")) == []


def test_a_scheduler_without_keys_out_of_reach_or_of_another_version_is_refused(site: Site) -> None:
    assert "rqps uses only a scheduler with TLS" in site.run("tcp://127.0.0.1:8786", code=1)
    assert "is not reachable" in site.run("tls://127.0.0.1:9", code=1)
    words = site.run(site.scheduler(before=OLDER), code=1)
    assert "has version 2020.1.0 of distributed, this machine has" in words
    address = site.scheduler()
    site.worker(address)
    assert "a: the worker a of tls://127.0.0.1:" in site.run(address, code=1)
    keys = {name: value for name, value in site.environment.items() if not name.startswith("DASK_")}
    assert "Dask's configuration names no TLS key and certificates" in ended(
        site.place.start("--scheduler", address, env=keys), 1
    )
