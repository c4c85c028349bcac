"""RocksDB: all that is known of it before any build is here. `engine` opens its databases."""

from rqps.engines import Counters, Facts

facts = Facts(
    name="rocksdb",
    title="RocksDB",
    program="db_bench",
    log="driver.log",
    example="8.0.0",
    memory="cache_size",
    roles={"client": "client", "writer": "writer"},
    counters=Counters(
        gauges=r"level\d+_(files|kb)|(block_cache|filter|memtables|pending_compaction|rss_peak)_kb|estimated_keys"
        r"|stall_percent|compaction_write_amplification",
        constants=r"elapsed_s|settled_\w+",
    ),
)
