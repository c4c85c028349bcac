"""What mysqlslap says, which is believed of time, and what the server counts, which is believed of queries."""

import re
from dataclasses import dataclass
from typing import Self

from rqps.engines.instance import Server, query

_CSV = re.compile(r"^[^,]*,[^,]*,(\d+\.\d{3}),(\d+\.\d{3}),(\d+\.\d{3}),(\d+),(\d+)$")


@dataclass(frozen=True)
class Told:
    """What mysqlslap says of itself: in milliseconds, from when its clients may connect until all have gone."""

    elapsed_s: float
    clients: int
    queries: int
    """Those that each client was to do. Whether it did, mysqlslap does not look."""


def read_told(lines: list[str]) -> Told | None:
    r"""Its one line of comma-separated values, if it came to that.

    >>> read_told(["rqps begin\n", ",mixed,1.234,1.234,1.234,4,2500\n"])
    Told(elapsed_s=1.234, clients=4, queries=2500)
    """
    for line in lines:
        if found := _CSV.match(line.rstrip("\n")):
            return Told(float(found[1]), int(found[4]), int(found[5]))
    return None


def complaints(lines: list[str]) -> list[str]:
    r"""Lines in which mysqlslap speaks of itself, each once.

    >>> complaints(["rqps begin\n", "/opt/bin/mysqlslap: Cannot run\n", "/opt/bin/mysqlslap: Cannot run\n"])
    ['mysqlslap: Cannot run']
    """
    said = (re.sub(r"^\S*mysqlslap: ", "mysqlslap: ", line.rstrip()) for line in lines)
    return list(dict.fromkeys(line for line in said if line.startswith("mysqlslap: ")))


def failed(lines: list[str]) -> int:
    """Queries that came back with an error: the last of a client, which then leaves."""
    return sum("mysqlslap: Cannot run query" in line for line in lines)


@dataclass(frozen=True)
class Counted:
    """What a server counts of its own."""

    selects: int
    """SELECT statements, failed ones too; none of ours for control is one."""
    refused: int
    """Connections. mysqlslap tries again a tenth of a second later, and says nothing if that goes well."""
    threads_ended: int
    """Threads of connections that are no more, neither at work nor kept for the next; their counters went, too."""

    @classmethod
    def of(cls, server: Server) -> Self:
        connection = server.connect()
        told = dict(
            query(
                connection, "SHOW GLOBAL STATUS WHERE variable_name RLIKE '^(Com_select|Aborted_connects|Threads_)'"
            )
        )
        connection.close()
        there = int(told["Threads_cached"]) + int(told["Threads_connected"])
        return cls(int(told["Com_select"]), int(told["Aborted_connects"]), int(told["Threads_created"]) - there)

    def since(self, earlier: Self) -> Self:
        return type(self)(
            self.selects - earlier.selects,
            self.refused - earlier.refused,
            self.threads_ended - earlier.threads_ended,
        )
