"""Reads RocksDB's statistics of a database, the text of its property `rocksdb.stats`, which db_bench prints."""

import re
from collections.abc import Iterable

_STALL = re.compile(r"^Cumulative stall: (\d+):(\d+):([\d.]+) H:M:S, ([\d.]+) percent")
_COUNTS = re.compile(r"^(?:Stalls\(count\)|Write Stall \(count\)): (.*)")
_WRITTEN = re.compile(r"^Cumulative compaction: ([\d.]+) GB write, [\d.]+ MB/s write, ([\d.]+) GB read")
_FLUSHED = re.compile(r"^Flush\(GB\): cumulative ([\d.]+)")
_LOGGED = re.compile(r"^Cumulative WAL: .* (?:written: )([\d.]+) GB")
OF_THE_TABLE = {"Comp(sec)": "compaction_s", "CompMergeCPU(sec)": "compaction_cpu_s", "Comp(cnt)": "compactions"}
OF_THE_TABLE |= {"W-Amp": "compaction_write_amplification"}


def read_stats(lines: Iterable[str]) -> dict[str, str]:
    """Stalls, compactions and bytes since the database was opened, for any release.

    >>> read_stats(["Cumulative stall: 00:01:2.500 H:M:S, 12.5 percent", "Stalls(count): 3 level0_slowdown, 4 total"])
    {'stall_s': '62.5', 'stall_percent': '12.5', 'stalls': '3'}
    """
    stats: dict[str, str] = {}
    head: list[str] = []
    for line in lines:
        words = line.split()
        if words[:2] == ["Level", "Files"]:
            head = words
        elif words[:1] == ["Sum"] and head and "compaction_s" not in stats:
            row = dict(zip(head, [*words[:2], " ".join(words[2:4]), *words[4:]], strict=False))
            stats |= {name: row[title] for title, name in OF_THE_TABLE.items() if title in row}
        elif stall := _STALL.match(line):
            hours, minutes, seconds, percent = map(float, stall.groups())
            stats |= {"stall_s": f"{3600 * hours + 60 * minutes + seconds:g}", "stall_percent": f"{percent:g}"}
        elif counts := _COUNTS.match(line):
            stats.setdefault("stalls", str(_stalls(counts[1])))  # another line has the totals of all databases
        elif written := _WRITTEN.match(line):
            stats |= {"compaction_written_gb": written[1], "compaction_read_gb": written[2]}
        elif flushed := _FLUSHED.match(line):
            stats["flushed_gb"] = flushed[1]
        elif logged := _LOGGED.match(line):
            stats["wal_written_gb"] = logged[1]
    return stats


def _stalls(text: str) -> int:
    """The sum of all kinds of waits, without the totals and duplicates in these lines.

    >>> _stalls("1 level0_slowdown, 1 level0_slowdown_with_compaction, 2 memtable_compaction, interval 0 total count")
    3
    >>> _stalls("l0-file-count-limit-stops-with-ongoing-compaction: 1, l0-file-count-limit-delays: 4, total-stops: 2")
    4
    """
    parts = (part.strip() for part in text.split(","))
    counted = (part for part in parts if not any(word in part for word in ("with", "total", "interval")))
    return sum(int(number) for part in counted for number in re.findall(r"(?:^|: )(\d+)\b", part))
