"""The raw tables, one schema each. Units are in the column names; ratios are never stored."""

from typing import Any

import polars as pl

Columns = dict[str, Any]
"""Maps column names to their types in polars, which has no public class for them."""

IDENTITY: Columns = dict.fromkeys(("study", "run", "host", "dbms", "build", "config"), pl.String) | {
    "round": pl.Int32
}
"""The first columns of every table as it is read; they identify the run of a row."""

_PROCESS_COUNTERS: Columns = {
    "cpu_s": pl.Float64,  # exact, from the scheduler, which counts nanoseconds
    "cpu_user_s": pl.Float64,  # the kernel's split into user and system time, in ticks of 10 ms
    "cpu_system_s": pl.Float64,
    "context_switches": pl.Int64,
    "reads": pl.Int64,  # read and write system calls on files; recv and send of a socket are not counted
    "writes": pl.Int64,
    "read_kb": pl.Float64,  # read from the storage layer, not from the page cache
    "write_kb": pl.Float64,
}

_HOST_COUNTERS: Columns = {
    **{f"cpu_{name}_s": pl.Float64 for name in ("user", "system", "idle", "iowait", "steal")},
    "context_switches": pl.Int64,
    "interrupts": pl.Int64,
    "reads": pl.Int64,  # reads of the device with the data directory
    "writes": pl.Int64,
    "read_kb": pl.Float64,
    "write_kb": pl.Float64,
    "read_s": pl.Float64,  # time of all reads, from request to end, including the kernel's queue
    "write_s": pl.Float64,
    "io_some_s": pl.Float64,  # time in which some task of the host waited for a disk, from /proc/pressure/io
    "io_full_s": pl.Float64,  # time in which no task ran, because all waited for a disk
}

_COUNTERS: Columns = {
    **{f"{side}_{name}": kind for side in ("server", "client") for name, kind in _PROCESS_COUNTERS.items()},
    **{f"host_{name}": kind for name, kind in _HOST_COUNTERS.items()},
}

_LATENCIES: Columns = {f"latency_{name}_us": pl.Float64 for name in ("mean", "p50", "p95", "p99", "p99_9", "max")}

STEPS: Columns = {
    "step": pl.String,
    "position": pl.Int32,  # the position of the step in its run, from 0
    "kind": pl.String,  # the step's name without range and clients: update-index, read-only.pre, qr
    "kind_after_writes": pl.String,  # for a step before the first write, the kind of the same step after the writes
    "range": pl.Int64,  # rows or values that a query asks for; null for steps without a range
    "clients": pl.Int32,
    "group": pl.String,  # the heading under which tables show the step
    "table_position": pl.Int32,  # the position of the step in tables, from 0: by group, kind, range and clients
    "writes": pl.Boolean,  # true if rows change during the step, even if its operations are queries
    "storage_engine": pl.String,  # storage engine in the step's name, as in innodb.pk@1; null for other steps
    "unit": pl.String,  # what an operation is: query, row
    "started_at": pl.Datetime("ms", "UTC"),  # start of the measured part, after the warm-up
    "warmup_s": pl.Float64,
    "elapsed_s": pl.Float64,
    "operations": pl.Int64,
    "transactions": pl.Int64,
    "operations_per_s": pl.Float64,
    **_LATENCIES,  # latencies of a transaction
    "errors": pl.Int64,  # operations that failed for good; a step with errors gives no throughput
    "target_per_s": pl.Float64,  # null without a target rate
    "target_held": pl.Boolean,
    **_COUNTERS,  # differences between the end and the start of the step
    "server_instructions": pl.Int64,  # from the CPU's counters, user space only; null if the machine has none
    "server_cycles": pl.Int64,
    "retries": pl.Int64,  # transactions that the server refused and that were repeated
}

SLICES: Columns = {
    "step": pl.String,
    "slice": pl.Int32,  # the slice's number, counted over all servers, from 0
    "cycle": pl.Int32,  # two passes over all servers; slices are compared within a cycle
    "operations": pl.Int64,  # null if the load generator reports only a total at its end, which is in `steps`
    # Time in transactions, summed over the clients; if servers are paused between their slices, the slice's length.
    "busy_us": pl.Float64,
    "client_cpu_us": pl.Float64,
    "server_cpu_us": pl.Float64,  # of all processes of the server during the slice
}

CYCLES: Columns = {
    "step": pl.String,
    "cycle": pl.Int32,  # as in `slices`; a cycle includes the time between its slices
    "cpu_us": pl.Float64,  # elapsed time of the cycle × number of CPUs of servers and load generators
    "outside_us": pl.Float64,  # the part of `cpu_us` that was not idle, and not used by servers or load generators
}

INTERVALS: Columns = {
    "step": pl.String,
    "kind": pl.String,  # the kind of operation: the step's own name, or query, insert, delete, index
    "second": pl.Int32,  # 0 is the first measured second; warm-up seconds are negative
    "operations": pl.Int64,
    "transactions": pl.Int64,
    "errors": pl.Int64,
    **_LATENCIES,
    "retries": pl.Int64,
}

LATENCIES: Columns = {
    "step": pl.String,
    "kind": pl.String,  # as in `intervals`; in `insert due` and `delete due`, latency counts from the due time
    "second": pl.Int32,
    "from_us": pl.Float64,  # a bucket counts from_us <= latency < below_us
    "below_us": pl.Float64,
    "transactions": pl.Int64,
}

COUNTERS: Columns = {
    "step": pl.String,
    "second": pl.Float64,  # seconds from the beginning of the measured part to the end of this interval
    "interval_s": pl.Float64,
    **_COUNTERS,  # differences over the interval
    "server_rss_kb": pl.Int64,
    "client_rss_kb": pl.Int64,
    "host_load_1min": pl.Float64,
    "host_memory_available_kb": pl.Int64,
    "host_frequency_mhz": pl.Float64,  # null if the machine does not report it
}

MACHINE_STATE: Columns = {
    "step": pl.String,
    "moment": pl.String,  # before or after the step
    "kb": pl.Int64,  # working set, in KB, of the timed reads from memory; 0: an add instruction is timed instead
    "load_ns": pl.Float64,  # CPU time of one read; if `kb` is 0, of one add instruction: the time of a CPU cycle
}

STATUS: Columns = {
    "step": pl.String,
    "moment": pl.String,  # before or after the step
    "name": pl.String,  # name of the status variable, in lower case
    "object": pl.String,  # the latch, instrument, kind of file or LSM level; null for the server
    "value": pl.String,
}

SETTINGS: Columns = {
    "kind": pl.String,  # variable, instrument, consumer, timer, actor, object, thread
    "name": pl.String,
    "value": pl.String,  # the value of a variable; YES or NO for a kind that can be enabled
    "timed": pl.String,  # YES if events of an instrument or object are timed; null for other kinds
}

PLANS: Columns = {
    "step": pl.String,
    "statement": pl.String,
    "access": pl.String,  # the column `type` of EXPLAIN: const, ref, ALL
    "possible_keys": pl.String,
    "key": pl.String,  # null without an index
    "rows": pl.Int64,  # number of rows to read, as the server estimates it
    "extra": pl.String,
}

_STACK: Columns = {
    "step": pl.String,
    "role": pl.String,  # the role of the thread: connection, page cleaner, log writer, …; or unknown
    "frames": pl.List(pl.String),  # from the root to the leaf, by symbol name
    "modules": pl.List(pl.String),  # the file of each frame: the program, libc.so.6, [kernel]
}

INLINED = " (inlined)"
"""The end of the names of inlined functions in `frames`, as perf writes them. The frame before an inlined function is
the function whose code contains it."""

CALLERS = "callers"
"""The event of rows in `stacks` that have no cost (weight 0). The frames of such a row are an observed call path to
the last frame; call paths complete stacks whose outer frames perf could not read."""

RUNNING, READY, WAITING = "running", "ready", "off-cpu"
UNSEEN, LOST = "unseen", "lost"
"""The events `running`, `ready`, `off-cpu`, `unseen` and `lost` of rows in `stacks` come from recorded thread
switches; together they cover all time of a thread. `ready` is time without a free CPU. `unseen` is time off the CPU
that began before the recording. `lost` is time between switches that contradict each other. `ready` and `off-cpu`
have the stacks at which threads left the CPU; the others have no stacks."""
SYSTEM_CALL = "[system call]"
"""The first frame of a stack that was sampled from /proc. The next frames are the thread's system call and, if the
kernel shows it, the kernel's function that waits. Of such runs, `unseen` is time in waits whose system call could not
be read, and `ready` has no stack."""

STACKS: Columns = {
    **_STACK,
    "event": pl.String,  # cpu-clock, cycles; or running, ready, off-cpu, unseen, lost; or callers, see above
    "samples": pl.Int64,  # number of samples; for running, ready and off-cpu, how often threads left this state
    "weight": pl.Int64,  # in cycles for the event cycles, 0 for callers, in nanoseconds for all other events
}

THREADS: Columns = {
    "step": pl.String,
    "role": pl.String,
    "threads": pl.Int32,  # threads of this role that ran
    "elapsed_s": pl.Float64,  # length of the sampling
    "running_s": pl.Float64,  # sum over the threads of this role, exact, from the scheduler
    "waiting_s": pl.Float64,  # time in which the threads were ready to run, but had no CPU
    "seen_running": pl.Int64,  # samples in which threads of this role ran; null if they could not be sampled
    **{f"seen_{name}": pl.Int64 for name in ("network", "lock", "disk", "timer", "other")},  # samples by kind of wait
}

INSTRUCTIONS: Columns = {
    **_STACK,
    "calls": pl.Int64,  # how often the last frame was called with this stack; null if unknown
    "instructions": pl.Int64,  # of the last frame itself, without the functions that it calls
}

CACHE_MISSES: Columns = {
    **_STACK,
    "last_level_kb": pl.Int64,  # size of the simulated last-level cache: as in this CPU, or 4 MB
    "i1_misses": pl.Int64,  # of the last frame itself, in the first-level instruction cache
    "d1_misses": pl.Int64,  # of the last frame itself, in the first-level data cache
    "ll_misses": pl.Int64,  # of the last frame itself, in the last-level cache
}

CLIENTS: Columns = {
    "step": pl.String,
    "client": pl.Int32,  # from 1
    "kind": pl.String,  # insert, delete, query, index
    "second": pl.Int32,  # from 0; a second without operations has a row, too
    "operations": pl.Int64,  # number of queries, or of rows inserted, deleted or indexed
    "transactions": pl.Int64,  # number of statements
    "errors": pl.Int64,
    "retries": pl.Int64,
    "latency_max_us": pl.Float64,
}

ENGINE: Columns = {
    "step": pl.String,
    "moment": pl.String,  # before, during or after the step; settling: during the wait before the step
    "second": pl.Float64,  # second of the step, or of the wait before it; null before and after the step
    "waited_s": pl.Float64,  # length of the wait, in the row `before`; null without a wait
    "history_length": pl.Int64,  # transactions that are not purged yet, or dead rows that wait for a vacuum
    "dirty_kb": pl.Float64,  # dirty pages of the buffer pool; null if the server does not count them
    "buffer_pool_kb": pl.Float64,
    "checkpoint_age_kb": pl.Float64,  # redo log that crash recovery would have to read
    "redo_capacity_kb": pl.Float64,
    "tables_kb": pl.Float64,  # size of the tables with their indexes; sparse files count in full
    "datadir_kb": pl.Float64,  # the size of all files of the server, including its logs
    "rows_low": pl.Int64,  # the lowest and highest primary key over all tables; null if not read
    "rows_high": pl.Int64,
}

TABLES = {
    name: pl.Schema(columns)
    for name, columns in {
        "steps": STEPS,
        "slices": SLICES,
        "cycles": CYCLES,
        "intervals": INTERVALS,
        "latencies": LATENCIES,
        "counters": COUNTERS,
        "machine_state": MACHINE_STATE,
        "status": STATUS,
        "settings": SETTINGS,
        "plans": PLANS,
        "stacks": STACKS,
        "threads": THREADS,
        "instructions": INSTRUCTIONS,
        "cache_misses": CACHE_MISSES,
        "clients": CLIENTS,
        "engine": ENGINE,
    }.items()
}

MODE_TABLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("stacks", "threads"), ("stacks", "waits")),
    **dict.fromkeys(("instructions", "cache_misses"), ("instructions",)),
}
"""The modes of each table that is written in some modes only."""

WORKLOAD_TABLES: dict[str, str] = {"clients": "insert-benchmark", "engine": "insert-benchmark"}
"""The workload of each table that is written by one workload only."""

NEWER_TABLES = ("cycles", "machine_state", "cache_misses")
"""Tables that were introduced after manifests got digests of files: a run whose manifest has no digests does not
have these tables."""
