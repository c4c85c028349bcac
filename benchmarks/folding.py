"""Speed of folding the text of `perf script` into stacks, against inferno and stackcollapse-perf.pl, on one file.

The file is made first, always the same: a million samples in 2 GB, with functions such as a server has and another
address in the leaf of every sample. Goals: at most inferno's time, better half of it; at most 200 MB; a seventh of
the time of stackcollapse-perf.pl. What the three make of it is compared stack by stack.

Get inferno by `cargo install inferno --root DIR`, stackcollapse-perf.pl from github.com/brendangregg/FlameGraph.
"""

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rqps.measure.stack_text import fold
from rqps.measure.stacks import table
from rqps.store import write_table

SEED = 20_240_229
DISTINCT = 3400
THREADS = [("connection", 7301), ("connection", 7302), ("ib_log_writer", 7250), ("ib_pg_flush_co", 7244)]
CLASSES = """ha_innobase handler Item_func Item_field THD Query_block JOIN Table_ref Field_long Protocol_classic
    Sql_cmd_dml RefIterator<false> mtr_t Buf_fetch<Buf_fetch_normal> ReadView rec_offs log_t trx_sys_t
    std::vector<unsigned_char*,Mem_root_allocator<unsigned_char*>>"""
VERBS = """row_search btr_cur_search buf_page_get lock_rec mtr_commit index_read fix_fields val_int optimize prepare
    execute send_result_set store evaluate reset init copy_fields open"""
THINGS = "mvcc to_nth_level gen loop for_update low inner row metadata end next prefix"
ARGUMENTS = [
    "",
    "THD*",
    "String*",
    "TABLE*, bool",
    "THD*, Parser_state*",
    "unsigned char*, unsigned long",
    "unsigned char*, page_cur_mode_t, row_prebuilt_t*, unsigned long",
    "dict_index_t*, dtuple_t const*, unsigned long, btr_cur_t*, mtr_t*, ut::Location",
    "page_id_t const&, page_size_t const&, rw_lock_type_t, buf_block_t*",
]
KERNEL = ["entry_SYSCALL_64_after_hwframe", "do_syscall_64", "__x64_sys_sendto", "__sys_sendto", "sock_sendmsg",
          "unix_stream_sendmsg", "sock_def_readable", "__wake_up_sync_key", "try_to_wake_up"]  # fmt: skip


def write_text(file: Path, samples: int) -> None:
    """Samples as `perf script` writes them, from a fixed seed."""
    choose = random.Random(SEED)
    names = sorted({_name(choose) for _ in range(DISTINCT)})
    ways = [_callers(choose, names) for _ in range(DISTINCT)]
    weights = [1 / (rank + 3) for rank in range(DISTINCT)]
    leaves = choose.choices(names, k=DISTINCT)
    chosen = choose.choices(range(DISTINCT), weights, k=samples)
    with file.open("w") as out:
        for number, way in enumerate(chosen):
            name, thread = THREADS[way % len(THREADS)]
            leaf, offset = leaves[(way + choose.getrandbits(2)) % DISTINCT], choose.randrange(1 << 12)
            address = 0x55D0C0000000 + (hash_of(leaf) << 12) + offset
            out.write(
                f"{name:16} 7201/{thread} {5000 + number / 999:.6f}:    1001001 cpu-clock:pppH: \n"
                f"\t{address:16x} {leaf}+0x{offset:x} (/opt/mysql/bin/mysqld)\n{ways[way]}\n\n"
            )


def hash_of(name: str) -> int:
    return sum(map(ord, name)) & 0xFFFF


def _name(choose: random.Random) -> str:
    """A function as a server has it."""
    method = f"{choose.choice(VERBS.split())}_{choose.choice(THINGS.split())}"
    owner = f"{choose.choice(CLASSES.split())}::".replace("_char", " char") if choose.random() < 0.6 else ""
    return f"{owner}{method}({choose.choice(ARGUMENTS)}){choose.choice(['', '', ' const'])}"


def _callers(choose: random.Random, names: list[str]) -> str:
    """The lines of the callers of one way to a leaf, the nearest first."""
    kernel = KERNEL[: choose.randrange(len(KERNEL))] if choose.random() < 0.3 else []
    server = choose.choices(names, k=choose.randint(10, 22))
    lines = [_line(choose, name, "[kernel.kallsyms]", 0xFFFFFFFF81000000) for name in reversed(kernel)]
    lines += [_line(choose, name, "/opt/mysql/bin/mysqld", 0x55D0C0000000) for name in server]
    return "\n".join([*lines, _line(choose, "start_thread", "/usr/lib/x86_64-linux-gnu/libc.so.6", 0x7F2A10000000)])


def _line(choose: random.Random, name: str, file: str, base: int) -> str:
    offset = choose.randrange(1 << 12)
    return f"\t{base + (hash_of(name) << 12) + offset:16x} {name}+0x{offset:x} ({file})"


def ours(text: Path, folder: Path) -> None:
    """As a run does it: folded and written as the table `stacks`."""
    with text.open("rb", buffering=0) as file:
        stacks = list(fold(file.read).stacks())
    roles = {stack.thread.tid: stack.thread.name for stack in stacks}
    write_table(folder, "stacks", table("step", stacks, roles))


def as_others_write_it(text: Path) -> Counter[str]:
    """Our stacks in the form of the other two: without arguments, joined by semicolons, samples as their weight."""
    with text.open("rb", buffering=0) as file:
        stacks = fold(file.read).stacks()
        folded_stacks: Counter[str] = Counter()
        for stack in stacks:
            names = (_tidied(frame.name) for frame in stack.frames)
            folded_stacks[";".join((stack.thread.name, *names))] += stack.weight
    return folded_stacks


def _tidied(name: str) -> str:
    """A name as both other programs change it."""
    name = name.replace(";", ":")
    if not re.search(r"\.\(.*\)\.", name):
        name = re.sub(r"\((?!anonymous namespace\)).*", "", name)
    return name.translate({ord("'"): None, ord('"'): None})


def folded(output: str) -> Counter[str]:
    stacks: Counter[str] = Counter()
    for line in output.splitlines():
        stack, _, count = line.rpartition(" ")
        stacks[stack] += int(count)
    return stacks


def measured(command: list[str], output: Path) -> tuple[float, float]:
    """Seconds and megabytes that a command takes."""
    with output.open("wb") as out:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=out)
        _, status, used = os.wait4(process.pid, 0)
        took_s = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} ended with code {process.returncode}")
    return took_s, used.ru_maxrss / 1024


def compare(text: Path, folder: Path, others: dict[str, list[str]], rounds: int) -> None:
    """Takes turns in random order and prints what each took; then compares what came out."""
    commands = {"rqps": [sys.executable, __file__, "--fold", str(text)], **others}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(rounds):
        for name in random.sample(list(commands), len(commands)):
            if number == 0 or not commands[name][0].endswith("perl"):
                times[name].append(measured(commands[name], folder / name))
    size_mb = text.stat().st_size / 1e6
    for name, values in times.items():
        seconds = sorted(took_s for took_s, _ in values)
        print(
            f"{name:24} {statistics.median(seconds):6.2f} s ({', '.join(f'{second:.2f}' for second in seconds)}), "
            f"{size_mb / statistics.median(seconds):5.0f} MB/s, {max(used for _, used in values):4.0f} MB of memory"
        )
    mine = as_others_write_it(text)
    for name in others:
        same = folded((folder / name).read_text()) == mine
        print(f"{name}: {'the same' if same else 'NOT the same'} {len(mine)} stacks")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--inferno", type=Path, help="the program inferno-collapse-perf")
    options.add_argument("--stackcollapse", type=Path, help="the script stackcollapse-perf.pl; it does one round")
    options.add_argument("--folder", type=Path, help="where to put the 2 GB; removed afterwards")
    options.add_argument("--fold", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="rqps-folding-", dir=asked.folder) as name:
        folder = Path(name)
        if asked.fold:
            ours(asked.fold, folder)
            return
        others = {}
        if asked.inferno:
            others["inferno-collapse-perf"] = [str(asked.inferno), "-n", "1", str(folder / "perf.txt")]
        if asked.stackcollapse:
            others["stackcollapse-perf.pl"] = [
                shutil.which("perl") or "perl",
                str(asked.stackcollapse),
                str(folder / "perf.txt"),
            ]
        write_text(folder / "perf.txt", asked.samples)
        print(f"{asked.samples:,} samples, {(folder / 'perf.txt').stat().st_size / 1e9:.2f} GB", flush=True)
        compare(folder / "perf.txt", folder, others, asked.rounds)


if __name__ == "__main__":
    main()
