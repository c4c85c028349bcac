"""The insert benchmark, put on the server by sysbench with our own Lua scripts."""
