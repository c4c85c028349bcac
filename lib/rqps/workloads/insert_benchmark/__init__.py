"""The insert benchmark, run by sysbench with the Lua scripts of rqps."""
