"""db_bench, RocksDB's own benchmark: its published steps, run by our driver with a library, or by a db_bench."""
