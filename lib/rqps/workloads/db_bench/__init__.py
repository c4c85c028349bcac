"""db_bench, RocksDB's own benchmark: its published steps, put on a library by our driver, or done by a db_bench."""
