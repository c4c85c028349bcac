"""RocksDB: all that is known of it before any build is here. `engine` opens its databases."""

from rqps.engines import Facts

facts = Facts(
    name="rocksdb",
    title="RocksDB",
    program="db_bench",
    log="driver.log",
    example="8.0.0",
    memory="cache_size",
    roles={"client": "client", "writer": "writer"},
)
