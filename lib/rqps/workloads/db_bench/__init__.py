"""The published steps of db_bench, RocksDB's benchmark, run by our driver with a library, or by a db_bench binary."""
