"""The sysbench microbenchmarks, run by sysbench with the Lua scripts of rqps."""
