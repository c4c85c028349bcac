"""The insert benchmark, run by sysbench with our own Lua scripts."""
