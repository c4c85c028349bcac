"""The sysbench microbenchmarks, put on the server by sysbench with our own Lua scripts."""
