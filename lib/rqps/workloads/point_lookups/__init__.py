"""Point lookups: each client repeats the same query, by mysqlslap, or in duets by sysbench."""
