"""The sysbench microbenchmarks, run by sysbench with our own Lua scripts."""
