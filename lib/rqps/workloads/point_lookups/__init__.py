"""Point lookups: each client repeats the same query, by mysqlslap, or by sysbench in duets and on PostgreSQL."""
