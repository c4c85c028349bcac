"""Reading what callgrind writes: exact sums whatever form a file has, and an error for one that is not whole."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rqps.errors import RqpsError
from rqps.observe.callgrind import Cost, Function, from_counted, incomplete, instruction_rows, read_profile

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
jump=5 0
0

totals: 142
"""


def test_a_file_is_read_by_hand() -> None:
    profile = read_profile(BY_HAND.splitlines(), "callgrind.out.1")
    do_command = Function("do_command(THD*)", "???")
    dispatch = Function(DISPATCH, "/opt/bin/mysqld")
    memcpy = Function("memcpy", "/lib/libc.so.6")
    assert profile.total == 142
    assert profile.costs == {
        (dispatch, do_command): Cost(105, 0),
        (memcpy, dispatch, do_command): Cost(30, 3),
        (Function("read_packet(NET*)", "/opt/bin/mysqld"), do_command): Cost(7, 0),
    }


def test_rows_are_stacks_from_the_statement_on() -> None:
    rows = instruction_rows(read_profile(BY_HAND.splitlines(), "f"), "point-query")
    assert rows.select("step", "role").unique().rows() == [("point-query", "connection")]
    assert rows.select("frames", "modules", "calls", "instructions").rows() == [
        ([DISPATCH], ["mysqld"], None, 105),
        ([DISPATCH, "memcpy"], ["mysqld", "libc.so.6"], 3, 30),
        (["do_command(THD*)", "read_packet(NET*)"], ["[unknown]", "mysqld"], None, 7),
    ]
    assert incomplete(rows) == pytest.approx(7 / 142)


def test_what_the_thread_did_before_its_connection_does_not_part_stacks() -> None:
    new, reused = (Function(name, "mysqld") for name in ("handle_connection", "block_until_new_connection"))
    counted, own = Function(DISPATCH, "mysqld"), Function("execute", "mysqld")
    assert from_counted((own, counted, new)) == from_counted((own, counted, reused)) == (counted, own)
    assert from_counted((own, new)) == (new, own)


def test_a_function_without_a_name_has_none_rather_than_an_address() -> None:
    text = "events: Ir\nob=???\nfn=0x0000000004a3b120\n0 5\ntotals: 5\n"
    rows = instruction_rows(read_profile(text.splitlines(), "f"), "s")
    assert rows.select("frames", "modules").rows() == [(["[unknown]"], ["[unknown]"])]


def test_nothing_counted_is_no_row() -> None:
    rows = instruction_rows(read_profile(["events: Ir\n", "totals: 0\n"], "f"), "s")
    assert rows.is_empty()
    assert incomplete(rows) == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 0: stops before its totals: it was cut off"),
        ("events: Ir\nfn=(1) f\n0 5\n", "line 3: stops before its totals"),
        ("events: Ir\nfn=(1) f\n0 5\ntotals: 6\n", "line 4: its lines have 5 instructions, its totals 6"),
        ("events: Ir\nfn=(1) f\ncfn=(2) g\ncalls=1 0\n", "line 4: stops in the middle of a call"),
        ("events: Ir\nfn=(1) f\ncalls=1 0\n0 5\n", "line 3: calls=1 0 is no call of a function"),
        ("events: Ir\nfn=(2)\n", r"line 2: \(2\) stands for no name so far"),
        ("events: Ir\nfn=(2) (3)'(1)\n0 5\ntotals: 5\n", r"\(3\) stands for no name, though \(2\) is called by it"),
        ("events: Dr Dw\n", "line 1: it counts Dr, Dw, not Ir"),
        ("events: Ir\n0 5\n", "line 2: a cost comes before its function"),
        ("fn=(1) f\n0 5\n", "line 2: a cost comes before its function, or before the events are named"),
        ("positions: instr line\nevents: Ir\nfn=(1) f\n0x10\n", "line 4: '0x10' is no line with 2 positions"),
        ("events: Ir\nfn=(1) f\n0 many\n", "line 3: 'many' is no number of instructions"),
        ("Samples: 12\n??\n", r"line 2: '\?\?' is not in callgrind's format"),
    ],
)
def test_an_error_about_a_broken_file_names_its_line(text: str, why: str) -> None:
    with pytest.raises(RqpsError, match=f"callgrind.out.3, .*{why}"):
        read_profile(text.splitlines(), "callgrind.out.3")


# -----------------------------------------------------------------------------------------------------------------
# Files of every form that callgrind can write
# -----------------------------------------------------------------------------------------------------------------


@dataclass
class Writer:
    """Writes a profile as callgrind would, with the choices that it has."""

    numbered: bool
    relative: bool
    instr: bool
    more_events: bool
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    last: int = 0
    lines: list[str] = field(default_factory=list)

    def name(self, table: str, spelt: str) -> str:
        if not self.numbered:
            return spelt
        if (table, spelt) in self.numbers:
            return f"({self.numbers[table, spelt]})"
        number = self.numbers[table, spelt] = len(self.numbers) + 1
        return f"({number}) {spelt}"

    def chain(self, word: str, chain: tuple[str, ...]) -> Iterator[str]:
        """A function and its callers: each of them is named before, the outermost first."""
        for each in reversed(chain):
            if ("fn", each) not in self.numbers or len(chain) == 1:
                yield f"{word}={self.name('fn', each)}"
        if len(chain) > 1:
            yield f"{word}={self.name('fn', chr(39).join(self.name('fn', each) for each in chain))}"

    def position(self, line: int) -> str:
        place = f"+{line - self.last}" if self.relative and line > self.last else str(line)
        if self.relative and line == self.last:
            place = "*"
        self.last = line
        return f"0x{line:x} {place}" if self.instr else place

    def cost(self, line: int, instructions: int) -> str:
        place = self.position(line)
        if self.more_events:
            return f"{place} 3 {instructions} 9" if instructions else f"{place} 3"
        return f"{place} {instructions}" if instructions else place


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


@settings(deadline=None)
@given(st.lists(entries, max_size=12), st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_sums_are_exact_whatever_form_a_file_has(
    profile: list[tuple[tuple[str, ...], str, list[int], list[int]]],
    numbered: bool,
    relative: bool,
    instr: bool,
    more_events: bool,
    noise: bool,
) -> None:
    writer = Writer(numbered, relative, instr, more_events)
    lines = [f"positions:{' instr' if instr else ''} line", "events: Dr Ir Dw" if more_events else "events: Ir"]
    own: dict[tuple[str, ...], int] = {}
    calls: dict[tuple[str, ...], int] = {}
    for number, (whole_chain, module, costs, called) in enumerate(profile):
        chain = whole_chain if numbered else whole_chain[:1]
        lines.append(f"ob={writer.name('ob', module)}")
        lines.extend(writer.chain("fn", chain))
        lines.extend(writer.cost(number + place, cost) for place, cost in enumerate(costs))
        if noise:
            lines += [f"fi={writer.name('fl', 'a.h')}", "", "# a comment", "jump=4 0", "0", "fe=b.c"]
        for count in called:
            lines.extend(writer.chain("cfn", chain))
            lines += [f"calls={count} {writer.position(9)}", writer.cost(10, 77)]
        if costs:
            own[chain] = own.get(chain, 0) + sum(costs)
        if called:
            calls[chain] = calls.get(chain, 0) + sum(called)
    total = sum(own.values())
    lines.append(f"totals: 3 {total} 9" if more_events else f"totals: {total}")
    read = read_profile((f"{line}\n" for line in lines), "f")
    assert read.total == total == sum(cost.instructions for cost in read.costs.values())
    by_names = {tuple(each.name for each in chain): cost for chain, cost in read.costs.items()}
    assert {chain: cost.instructions for chain, cost in by_names.items() if cost.instructions} == {
        chain: cost for chain, cost in own.items() if cost
    }
    assert {chain: cost.calls for chain, cost in by_names.items() if cost.calls} == calls
    rows = instruction_rows(read, "s")
    assert rows["instructions"].sum() == total


@settings(deadline=None)
@given(st.integers(0, len(BY_HAND) - 2))
def test_a_file_that_is_cut_off_anywhere_is_refused(length: int) -> None:
    with pytest.raises(RqpsError, match=re.escape("callgrind.out.1, line")):
        read_profile(BY_HAND[:length].splitlines(), "callgrind.out.1")
