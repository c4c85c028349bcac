"""Reading what callgrind writes: exact sums in whatever order it has them, and an error for what is not whole."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rqps.engines.mysql import engine
from rqps.errors import RqpsError
from rqps.measure.callgrind import (
    Cost,
    Function,
    cache_miss_rows,
    from_counted,
    incomplete,
    instruction_rows,
    read_costs,
)

DISPATCH = "dispatch_command(THD*, COM_DATA const*, enum_server_command)"
BY_HAND = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 7
cmd:  /opt/mysqld --datadir=/tmp/a=b:c
part: 1


desc: I1 cache:
desc: Timerange: Basic block 0 - 100
desc: Trigger: Callgrind command

positions: line
events: Ir
summary: 99999


ob=(1) /opt/bin/mysqld
fl=(1) ???
fn=(10) do_command(THD*)
fn=(11) dispatch_command(THD*, COM_DATA const*, enum_server_command)
fn=(20) (11)'(10)
0 100
cob=(2) /lib/libc.so.6
cfi=(2) string.c
cfn=(12) memcpy
cfn=(21) (12)'(11)'(10)
calls=3 0
0 30
0 5

ob=(2)
fl=(2)
fn=(21)
17 10
+3 5
* 5
fi=(3) inlined.h
-2 10
fe=(2)

ob=(1)
fl=(1)
fn=(13) read_packet(NET*)
fn=(22) (13)'(10)
0 7

totals: 142
"""


def test_a_file_is_read_by_hand() -> None:
    costs = read_costs(BY_HAND.splitlines(), "callgrind.out.1")
    do_command = Function("do_command(THD*)", "???")
    dispatch = Function(DISPATCH, "/opt/bin/mysqld")
    memcpy = Function("memcpy", "/lib/libc.so.6")
    assert costs == {
        (dispatch, do_command): Cost(105, 0),
        (memcpy, dispatch, do_command): Cost(30, 3),
        (Function("read_packet(NET*)", "/opt/bin/mysqld"), do_command): Cost(7, 0),
    }


WITH_CACHES = """\
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
ob=(1) /opt/bin/mysqld
fn=(10) dispatch_command(THD*, COM_DATA const*, enum_server_command)
0 100 40 20 5 3 2 1 1 1
0 50 9 9 1
0 7
fn=(20) memcpy
fn=(21) (20)'(10)
0 30 10 10 0 4
totals: 187 59 39 6 7 2 1 1 1
"""


def test_misses_are_read_by_level_and_stand_beside_their_stack() -> None:
    costs = read_costs(WITH_CACHES.splitlines(), "f")
    rows = cache_miss_rows(costs, "s", engine.counted, 4096)
    levels = ("last_level_kb", "i1_misses", "d1_misses", "ll_misses")
    assert rows.select(pl.col("frames").list.last(), *levels).rows() == [
        (DISPATCH, 4096, 6, 5, 3),
        ("memcpy", 4096, 0, 4, 0),
    ]
    assert instruction_rows(costs, "s", engine.counted)["instructions"].to_list() == [157, 30]
    assert cache_miss_rows(read_costs(BY_HAND.splitlines(), "f"), "s", engine.counted, 4096).is_empty()
    with pytest.raises(RqpsError, match="is not what callgrind writes"):
        read_costs(WITH_CACHES.replace(" DLmw", "").splitlines(), "f")


def test_rows_are_stacks_from_the_statement_on() -> None:
    rows = instruction_rows(read_costs(BY_HAND.splitlines(), "f"), "point-query", engine.counted)
    assert rows.select("step", "role").unique().rows() == [("point-query", "connection")]
    assert rows.select("frames", "modules", "calls", "instructions").rows() == [
        ([DISPATCH], ["mysqld"], None, 105),
        ([DISPATCH, "memcpy"], ["mysqld", "libc.so.6"], 3, 30),
        (["do_command(THD*)", "read_packet(NET*)"], ["[unknown]", "mysqld"], None, 7),
    ]
    assert incomplete(rows, engine.counted) == pytest.approx(7 / 142)


def test_what_the_thread_did_before_its_connection_does_not_part_stacks() -> None:
    new, reused = (Function(name, "mysqld") for name in ("handle_connection", "block_until_new_connection"))
    counted, own = Function(DISPATCH, "mysqld"), Function("execute", "mysqld")
    assert (
        from_counted((own, counted, new), engine.counted)
        == from_counted((own, counted, reused), engine.counted)
        == (counted, own)
    )
    assert from_counted((own, new), engine.counted) == (new, own)


def test_a_function_without_a_name_has_none_rather_than_an_address() -> None:
    text = "events: Ir\nob=(1) ???\nfn=(1) 0x0000000004a3b120\n0 5\ntotals: 5\n"
    rows = instruction_rows(read_costs(text.splitlines(), "f"), "s", engine.counted)
    assert rows.select("frames", "modules").rows() == [(["[unknown]"], ["[unknown]"])]


def test_nothing_counted_is_no_row() -> None:
    rows = instruction_rows(read_costs(["events: Ir\n", "totals: 0\n"], "f"), "s", engine.counted)
    assert rows.is_empty()
    assert incomplete(rows, engine.counted) == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 0: the file stops before its totals: it was cut off"),
        ("events: Ir\nob=(1) o\nfn=(1) f\n0 5\n", "line 4: the file stops before its totals"),
        ("ob=(1) o\nfn=(1) f\n0 5\ntotals: 6\n", "line 4: 'totals: 6' .*its lines have 5 instructions"),
        ("ob=(1) o\nfn=(1) f\ncfn=(2) g\ncalls=1 0\n", "line 4: the file stops before"),
        ("fn=(1) f\ncalls=1 0\n0 5\ntotals: 0\n", "line 4"),
        ("fn=(2)\n", r"line 1: 'fn=\(2\)' is not what callgrind writes with our options"),
        ("ob=(1) o\nfn=(2) (3)'(1)\n0 5\ntotals: 5\n", r"\(3\)"),
        ("events: Dr Dw\n", "line 1: 'events: Dr Dw' is not what callgrind writes .*not Ir"),
        ("positions: instr line\n", "line 1: 'positions: instr line' is not .*not line"),
        ("0 5\n", "line 1: '0 5' is not what callgrind writes"),
        ("ob=(1) o\nfn=(1) f\n0 many\n", "line 3: '0 many' is not what callgrind writes"),
        ("Samples: 12\n??\n", r"line 2: '\?\?' is not what callgrind writes"),
    ],
)
def test_an_error_about_a_broken_file_names_its_line(text: str, why: str) -> None:
    with pytest.raises(RqpsError, match=f"callgrind.out.3, .*{why}"):
        read_costs(text.splitlines(), "callgrind.out.3")


# -----------------------------------------------------------------------------------------------------------------
# Files as callgrind writes them: names by numbers, places absolute or relative
# -----------------------------------------------------------------------------------------------------------------


@dataclass
class Writer:
    """Writes a profile as callgrind would, with places relative to the last one or not."""

    relative: bool
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    last: int = 0

    def name(self, table: str, spelt: str) -> str:
        if (table, spelt) in self.numbers:
            return f"({self.numbers[table, spelt]})"
        number = self.numbers[table, spelt] = len(self.numbers) + 1
        return f"({number}) {spelt}"

    def chain(self, word: str, chain: tuple[str, ...]) -> Iterator[str]:
        """A function and its callers: each of them is named before, the outermost first."""
        for one in reversed(chain):
            if ("fn", one) not in self.numbers or len(chain) == 1:
                yield f"{word}={self.name('fn', one)}"
        if len(chain) > 1:
            yield f"{word}={self.name('fn', chr(39).join(self.name('fn', one) for one in chain))}"

    def place(self, line: int) -> str:
        place = "*" if line == self.last else f"{line - self.last:+}"
        self.last = line
        return place if self.relative else str(line)

    def cost(self, line: int, instructions: int) -> str:
        return f"{self.place(line)} {instructions}" if instructions else self.place(line)


texts = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"), include_characters=" "), max_size=12)
names = st.one_of(
    st.sampled_from([DISPATCH, "f<a;b>()", "it's", "<script>", "operator()(int)", "(anonymous namespace)::f"]),
    texts.map(lambda text: f"f{text}".rstrip()),
)
chains = st.lists(names, min_size=1, max_size=6, unique=True).map(tuple)
entries = st.tuples(
    chains,
    st.sampled_from(["/opt/bin/mysqld", "/lib/libc.so.6"]),
    st.lists(st.integers(0, 10**15), max_size=4),
    st.lists(st.integers(1, 10**9), max_size=3),
)


@given(st.lists(entries, max_size=12), st.booleans(), st.booleans())
def test_sums_are_exact_whatever_a_file_has_in_it(
    profile: list[tuple[tuple[str, ...], str, list[int], list[int]]], relative: bool, noise: bool
) -> None:
    writer = Writer(relative)
    lines = ["positions: line", "events: Ir"]
    own: dict[tuple[str, ...], int] = {}
    calls: dict[tuple[str, ...], int] = {}
    for number, (chain, module, costs, called) in enumerate(profile):
        lines.append(f"ob={writer.name('ob', module)}")
        lines.extend(writer.chain("fn", chain))
        lines.extend(writer.cost(number + place, cost) for place, cost in enumerate(costs))
        if noise:
            lines += [f"fi={writer.name('fl', 'a.h')}", "", "# a comment", "fe=b.c"]
        for count in called:
            lines.extend(writer.chain("cfn", chain))
            lines += [f"calls={count} {writer.place(9)}", writer.cost(10, 77)]
        if costs:
            own[chain] = own.get(chain, 0) + sum(costs)
        if called:
            calls[chain] = calls.get(chain, 0) + sum(called)
    total = sum(own.values())
    lines.append(f"totals: {total}")
    read = read_costs((f"{line}\n" for line in lines), "f")
    assert total == sum(cost.instructions for cost in read.values())
    by_names = {tuple(one.name for one in chain): cost for chain, cost in read.items()}
    assert {chain: cost.instructions for chain, cost in by_names.items() if cost.instructions} == {
        chain: cost for chain, cost in own.items() if cost
    }
    assert {chain: cost.calls for chain, cost in by_names.items() if cost.calls} == calls
    rows = instruction_rows(read, "s", engine.counted)
    assert rows["instructions"].sum() == total


@given(st.integers(0, len(BY_HAND) - 2))
def test_a_file_that_is_cut_off_anywhere_is_refused(length: int) -> None:
    with pytest.raises(RqpsError, match=re.escape("callgrind.out.1, line")):
        read_costs(BY_HAND[:length].splitlines(), "callgrind.out.1")
