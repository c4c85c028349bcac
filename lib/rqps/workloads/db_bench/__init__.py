"""The published steps of db_bench, RocksDB's benchmark. They are run by a C program of rqps (the driver), which is
linked with a RocksDB library, or by a db_bench binary."""
