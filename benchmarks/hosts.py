"""What does a run cost more on another host? Its wall time beside what that host itself takes for it; beside a step,
all that rqps does there: CPU time and context switches of the Dask worker and of the SSH server that it talks to, and
their CPUs. The same run is made here, too.

The host is this machine, through an SSH server on loopback, made ready from nothing by `rqps hosts prepare`. The goal
is less than 1 % of the wall time, and nothing on the CPUs that are measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import yaml
from bench import RUNS_YAML
from rqps.measure.counters import read_processes, thread_ids
from rqps.store.manifest import read_manifest

sys.path.insert(0, str(RUNS_YAML.parent / "tests"))
from ssh_host import Computer

WARMUP_S = 5
options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--runs", type=int, default=3)
options.add_argument("--seconds", type=int, default=60)
asked = options.parse_args()


with tempfile.TemporaryDirectory(prefix="rqps-bench-") as name:
    folder = Path(name)
    (folder / "data").mkdir()
    runs = yaml.safe_load(RUNS_YAML.read_text())
    study = runs["studies"]["demo"] | {"dbms": ["my8033.common"], "base": "my8033.common", "method": "rounds"}
    study.pop("budget", None)
    study["rounds"] = asked.runs
    study["parameters"] |= {"seconds": asked.seconds, "warmup_seconds": WARMUP_S, "steps": ["point-query"]}
    runs |= {"hosts": {"far": {"ssh": "far"}}, "studies": {"here": study, "there": study | {"hosts": ["far"]}}}
    (folder / "runs.yaml").write_text(json.dumps(runs))  # JSON is YAML, and quotes the versions
    far = Computer(folder, "far", os.sched_getaffinity(0))
    far.share_cache()
    environment = os.environ | {"HOME": str(folder), "RQPS_CACHE": os.environ.get("RQPS_CACHE", "~/.cache/rqps")}
    environment["RQPS_CACHE"] = str(Path(environment["RQPS_CACHE"]).expanduser())

    def call(*words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "rqps.cli", *words, "--runs-yaml", str(folder / "runs.yaml")]
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, text=True)

    def one(study: str, round_: int) -> tuple[float, float]:
        """Seconds from the beginning of a run to its end, as its folder shows them here, and at its host."""
        place, afar = (at / f"data/raw/study={study}" for at in (folder, far.rqps))
        process = call("run", study, "--rounds", str(round_))
        while not (partials := list(place.glob(".run=*"))):
            assert process.poll() is None, f"{study} ended early"
            time.sleep(0.01)
        seen_s, beside, began = [], "", time.monotonic()
        while partials[0].exists():
            if list(afar.glob(".run=*")):
                seen_s.append(time.monotonic())
            doing = partials[0] / "progress.txt"
            if study == "there" and not beside and doing.exists() and "point-query" in doing.read_text():
                beside = beside_a_step()
            time.sleep(0.01)
        took_s = time.monotonic() - began
        assert process.wait() == 0
        facts = read_manifest(next(place.glob(f"run=r{round_:02}*")))
        there_s = seen_s[-1] - seen_s[0] if seen_s else took_s
        own_s = took_s - there_s
        print(f"{study}: {took_s:.1f} s, {own_s:.2f} s of it ({own_s / took_s:.1%}) not at the host", flush=True)
        if beside:
            measured = {*facts.placement.server_cpus, *facts.placement.client_cpus}
            print(f"  a step is measured on CPUs {measured}; beside it: {beside}", flush=True)
        return took_s, own_s

    def beside_a_step() -> str:
        time.sleep(WARMUP_S + 1)
        worker = far.worker()
        assert worker
        ours = [worker, far.server.pid]
        before = read_processes(ours)
        time.sleep(asked.seconds / 2)
        after = read_processes(ours)
        assert before
        assert after
        used = after - before
        cpus = {cpu for pid in ours for thread in thread_ids(pid) for cpu in os.sched_getaffinity(thread)}
        switches = f"{used.context_switches} context switches in {asked.seconds / 2:.0f} s"
        return f"{used.cpu_s:.2f} s of CPU time, {switches}, on CPUs {cpus}"

    try:
        began = time.monotonic()
        assert call("hosts", "prepare").wait() == 0
        print(f"made ready in {time.monotonic() - began:.0f} s", flush=True)
        took: dict[str, list[tuple[float, float]]] = {"there": [], "here": []}
        for number in range(1, asked.runs + 1):
            for study in sorted(took, reverse=bool(number % 2)):
                took[study].append(one(study, number))
    finally:
        far.stop()
    there_s, own_s = (median(seconds) for seconds in zip(*took["there"], strict=True))
    here_s = median(seconds for seconds, _ in took["here"])
    print(f"a run takes {there_s:.1f} s there, {own_s:.2f} s of it ({own_s / there_s:.1%}) for coming and going")
    print(f"here it takes {here_s:.1f} s")
