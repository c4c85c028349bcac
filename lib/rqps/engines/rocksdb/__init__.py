"""RocksDB: the facts that are known before any of its builds is on this machine. `engine` opens its databases."""

from collections.abc import Mapping

from rqps.engines import Counters, Facts

_WRITTEN_GB = {"wal_written_gb": "write-ahead log", "flushed_gb": "flush", "compaction_written_gb": "compaction"}


def _written_kb(grew: Mapping[str, float], _now: Mapping[str, float]) -> dict[str, float]:
    return {purpose: grew[name] * 2**20 for name, purpose in _WRITTEN_GB.items() if name in grew}


def _read_kb(grew: Mapping[str, float], _now: Mapping[str, float]) -> dict[str, float]:
    """The KB that compactions read. RocksDB counts reads for clients only if its statistics are on; they are off."""
    return {"compaction": grew["compaction_read_gb"] * 2**20} if "compaction_read_gb" in grew else {}


def _syncs(grew: Mapping[str, float], _now: Mapping[str, float]) -> dict[str, float]:
    return {"write-ahead log": grew["wal_syncs"]} if "wal_syncs" in grew else {}


facts = Facts(
    name="rocksdb",
    title="RocksDB",
    program="db_bench",
    log="driver.log",
    example="8.0.0",
    memory="cache_size",
    roles={"client": "client", "writer": "writer"},
    counters=Counters(
        gauges=r"level_(files|kb)|(block_cache|filter|memtables|pending_compaction|rss_peak)_kb|estimated_keys"
        r"|stall_percent|compaction_write_amplification",
        constants=r"elapsed_s|settled_\w+",
    ),
    written=_written_kb,
    read=_read_kb,
    syncs=_syncs,
)
