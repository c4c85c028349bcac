"""Instructions: counted one by one under callgrind, or by the CPU's own counters where it has them."""
