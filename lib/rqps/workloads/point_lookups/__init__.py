"""Point lookups, put on the server by mysqlslap: the same query again and again from each of its clients."""
