"""The description of the machine: what files say, nothing where they are missing, nothing private."""

import getpass
import json
import socket
import subprocess
from pathlib import Path

import pytest
from rqps.measure.machine import can_reflink, describe_machine, disk_facts

LAPTOP = {
    "proc/cpuinfo": "cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: A CPU @ 3 GHz\nstepping\t: 1\n"
    "microcode\t: 0xa1\ncpu MHz\t\t: 1000.0\nflags\t: fpu\n\ncpu MHz\t\t: 2000.0\n",
    "proc/meminfo": "MemTotal:  16000 kB\nMemAvailable:  9000 kB\nSwapTotal:  4000 kB\nSwapFree:  3500 kB\n",
    "proc/loadavg": "0.50 0.20 0.10 1/100 999\n",
    "proc/uptime": "100.5 200.0\n",
    "proc/sys/kernel/osrelease": "6.1.0-test\n",
    "proc/sys/kernel/perf_event_paranoid": "-1\n",
    "proc/sys/vm/swappiness": "10\n",
    "etc/os-release": 'NAME="X"\nPRETTY_NAME="X Linux 3 (\'y\')"\n',
    "sys/devices/system/cpu/online": "0-3\n",
    "sys/devices/system/cpu/smt/active": "1\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0,2\n",
    "sys/devices/system/cpu/cpu1/topology/thread_siblings_list": "1,3\n",
    "sys/devices/system/cpu/cpu2/topology/thread_siblings_list": "0,2\n",
    "sys/devices/system/cpu/cpu3/topology/thread_siblings_list": "1,3\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "4200000\n",
    "sys/devices/system/cpu/vulnerabilities/meltdown": "Not affected\n",
    "sys/devices/system/cpu/vulnerabilities/mds": "Vulnerable\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/kernel/mm/damon/admin/kdamonds/0/state": "on\n",
    "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action": "pageout\n",
    "sys/fs/cgroup/cpu.max": "max 100000\n",
    "sys/fs/cgroup/box/cpu.max": "150000 100000\n",
    "proc/self/cgroup": "0::/box/inner\n",
}

AS_FACTS = {
    "cpu_model": "A CPU @ 3 GHz",
    "cpu_family": "25",
    "cpu_model_number": "17",
    "cpu_stepping": "1",
    "microcode": "0xa1",
    "cpu_flags_sha256": "9581c838953e",
    "cpus": 4,
    "cpu_quota_cpus": 1.5,
    "cores": 2,
    "smt": True,
    "frequency_mhz": 1500.0,
    "frequency_max_mhz": 4200.0,
    "governor": "performance, powersave",
    "turbo": False,
    "mitigations": {"mds": "Vulnerable"},
    "virtualised": False,
    "kernel": "6.1.0-test",
    "distribution": "X Linux 3 ('y')",
    "memory_kb": 16000,
    "memory_available_kb": 9000,
    "swap_kb": 4000,
    "swap_used_kb": 500,
    "swappiness": 10,
    "transparent_huge_pages": "always",
    "pages_out_cold_memory": True,
    "perf_event_paranoid": -1,
    "uptime_s": 100.5,
    "load_1min": 0.5,
}


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, item in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(item)
    return root


def test_every_fact_is_read_from_its_file(tmp_path: Path) -> None:
    about_us = {"cpus_allowed", "libc", *disk_facts(tmp_path)}
    result = describe_machine(tmp_path, root=write_tree(tmp_path, LAPTOP))
    assert {name: value for name, value in result.items() if name not in about_us} == AS_FACTS


@pytest.mark.parametrize("missing", sorted(LAPTOP))
def test_a_missing_file_costs_its_own_facts_only(tmp_path: Path, missing: str) -> None:
    rest = {name: item for name, item in LAPTOP.items() if name != missing}
    result = describe_machine(tmp_path, root=write_tree(tmp_path, rest))
    changed = {name for name, value in AS_FACTS.items() if result.get(name) != value}
    assert len(changed) <= 8, changed


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        ({"sys/devices/system/cpu/cpufreq/boost": "1\n"}, {"turbo": True}),
        ({"sys/hypervisor/type": "xen\n"}, {"hypervisor": "xen"}),
        (
            {"proc/cpuinfo": "flags : fpu hypervisor\n", "sys/class/dmi/id/sys_vendor": "QEMU\n"},
            {"virtualised": True, "hypervisor": "QEMU"},
        ),
        ({"run/.containerenv": ""}, {"container": "podman"}),
        (
            {
                "proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/box\n",
                "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            },
            {"cpu_quota_cpus": 0.5},
        ),
    ],
)
def test_other_machines_say_it_elsewhere(tmp_path: Path, files: dict[str, str], facts: dict[str, object]) -> None:
    assert describe_machine(tmp_path, root=write_tree(tmp_path, files)).items() >= facts.items()


def test_this_machine_is_described_in_json(tmp_path: Path) -> None:
    result = describe_machine(tmp_path / "not" / "yet" / "there")
    assert json.loads(json.dumps(result)) == result
    assert result.keys() >= {"cpu_model", "cpus", "kernel", "memory_kb", "file_system", "virtualised"}


def test_the_description_names_no_user_and_no_host(tmp_path: Path) -> None:
    text = json.dumps(describe_machine(tmp_path)).lower().replace(str(tmp_path), "")
    words = set(text.replace('"', " ").replace(",", " ").replace("=", " ").replace("/", " ").split())
    assert not words & {getpass.getuser(), socket.gethostname().lower()}
    assert str(tmp_path).lower() not in json.dumps(describe_machine(tmp_path)).lower()


def test_reflink_is_what_cp_finds_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(8192))
    copied = subprocess.run(["cp", "--reflink=always", tmp_path / "file", tmp_path / "copy"], capture_output=True)
    (tmp_path / "copy").unlink(missing_ok=True)
    assert can_reflink(tmp_path) == (copied.returncode == 0)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
