"""Point lookups: each client of mysqlslap, or of sysbench in duets and on PostgreSQL, repeats the same query."""
