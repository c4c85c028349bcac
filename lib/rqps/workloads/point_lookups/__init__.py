"""Point lookups: the same query again and again from each client, by mysqlslap, or in duets by sysbench."""
