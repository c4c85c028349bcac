"""Statements of a transaction of each published step, written by hand from the published definitions.

In the words of `live_load.shape()`: N is a number, C119 a text of 119 letters, t a table.
"""

POINTS = ["SELECT c FROM t WHERE id = N"] * 10
SIMPLE = "SELECT c FROM t WHERE id BETWEEN N AND N+{}"
SUM = "SELECT SUM(k) FROM t WHERE id BETWEEN N AND N+{}"
ORDER = "SELECT c FROM t WHERE id BETWEEN N AND N+{} ORDER BY c"
DISTINCT = "SELECT DISTINCT c FROM t WHERE id BETWEEN N AND N+{} ORDER BY c"
INDEX = "UPDATE t SET k = k + 1 WHERE id = N"
NONINDEX = "UPDATE t SET c = 'C119' WHERE id = N"
WRITES = [INDEX, NONINDEX, "DELETE FROM t WHERE id = N", "INSERT INTO t (id, k, c, pad) VALUES (N, N, 'C119', 'C59')"]


def ranges(rows: int) -> list[str]:
    return [text.format(rows - 1) for text in (SIMPLE, SUM, ORDER, DISTINCT)]


EXPECTED = {
    "point-query_range=100": ["SELECT c FROM t WHERE id = N"],
    "random-points_range=10": ["SELECT c FROM t WHERE id IN (10 N)"],
    "random-points_range=100": ["SELECT c FROM t WHERE id IN (100 N)"],
    "random-points_range=1000": ["SELECT c FROM t WHERE id IN (1000 N)"],
    "hot-points_range=100": ["SELECT c FROM t WHERE id IN (100 N)"],
    "points-covered-pk_range=100": ["SELECT id FROM t WHERE id IN (100 N)"],
    "points-notcovered-pk_range=100": ["SELECT id, c FROM t WHERE id IN (100 N)"],
    "points-covered-si_range=100": ["SELECT k FROM t WHERE k IN (100 N)"],
    "points-notcovered-si_range=100": ["SELECT k, c FROM t WHERE k IN (100 N)"],
    "range-covered-pk_range=100": ["SELECT id FROM t WHERE id BETWEEN N AND N+100"],
    "range-notcovered-pk_range=100": ["SELECT id, c FROM t WHERE id BETWEEN N AND N+100"],
    "range-covered-si_range=100": ["SELECT k FROM t WHERE k BETWEEN N AND N+100"],
    "range-notcovered-si_range=100": ["SELECT k, c FROM t WHERE k BETWEEN N AND N+100"],
    "read-only_range=10": ["BEGIN", *POINTS, *ranges(10), "COMMIT"],
    "read-only_range=100": ["BEGIN", *POINTS, *ranges(100), "COMMIT"],
    "read-only_range=10000": ["BEGIN", *POINTS, *ranges(10_000), "COMMIT"],
    "read-only-simple_range=1000": ["BEGIN", *POINTS, SIMPLE.format(999), "COMMIT"],
    "read-only-sum_range=1000": ["BEGIN", *POINTS, SUM.format(999), "COMMIT"],
    "read-only-order_range=1000": ["BEGIN", *POINTS, ORDER.format(999), "COMMIT"],
    "read-only-distinct_range=1000": ["BEGIN", *POINTS, DISTINCT.format(999), "COMMIT"],
    "read-only-count_range=1000": ["SELECT COUNT(c) FROM t WHERE id BETWEEN N AND N+999"],
    "scan_range=100": ["SELECT * FROM t WHERE LENGTH(c) < 0"],
    "update-inlist_range=100": ["UPDATE t SET c = 'C119' WHERE id IN (10 N)"],
    "update-index_range=100": [INDEX],
    "update-nonindex_range=100": [NONINDEX],
    "update-one_range=100": [NONINDEX],
    "update-zipf_range=100": [NONINDEX],
    "write-only_range=10000": ["BEGIN", *WRITES, "COMMIT"],
    "read-write_range=10": ["BEGIN", *POINTS, *ranges(10), *WRITES, "COMMIT"],
    "read-write_range=100": ["BEGIN", *POINTS, *ranges(100), *WRITES, "COMMIT"],
    "delete_range=100": ["DELETE FROM t WHERE id = N"],
    "insert_range=100": ["INSERT INTO t (id, k, c, pad) VALUES (0, N, 'C119', 'C59')"],
}
