"""The text of `perf script` becomes stacks: every sample counts once, whatever its names, however it is cut."""

import io
from collections import Counter
from collections.abc import Callable

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from rqps.measure.stack_text import Folded, Frame, Stack, Thread, fold, read_frame
from rqps.measure.stacks import table
from rqps.store.schemas import STACKS

REAL = b"""\
connection  7201/7301  5000.000001:    1001001 cpu-clock:pppH:\x20
\t    55d0c8a1b2c3 row_search_mvcc(unsigned char*, page_cur_mode_t, row_prebuilt_t*)+0x1c3 (/opt/my/mysqld)
\t    55d0c8a1c000 ha_innobase::index_read(unsigned char*, unsigned int)+0x10 (/opt/my/mysqld)
\t    7f2a10089134 start_thread+0x304 (/usr/lib/x86_64-linux-gnu/libc.so.6)

connection  7201/7301 [001]  5000.001002:    1001001 cpu-clock:pppH:\x20
\t    55d0c8a1b2ff row_search_mvcc(unsigned char*, page_cur_mode_t, row_prebuilt_t*)+0x1ff (/opt/my/mysqld)
\t    55d0c8a1c004 ha_innobase::index_read(unsigned char*, unsigned int)+0x14 (/opt/my/mysqld)
\t    7f2a10089134 start_thread+0x304 (/usr/lib/x86_64-linux-gnu/libc.so.6)

mysqld 7201 [001] 5000.002: PERF_RECORD_LOST lost 17
connection  7201/7301  5000.003003:    1001001 cpu-clock:pppH:\x20
\tffffffff81e0009b do_syscall_64+0x3b ([kernel.kallsyms])
\t    7f2a10111111 __send+0x4d (/usr/lib/x86_64-linux-gnu/libc.so.6)

"""


def folded(text: bytes) -> Folded:
    return fold(io.BytesIO(text).read)


def samples(result: Folded) -> int:
    return sum(stack.samples for stack in result.stacks())


def by_path(stacks: Folded) -> dict[tuple[str, ...], tuple[int, int]]:
    return {tuple(name for name, _ in stack.frames): (stack.samples, stack.weight) for stack in stacks.stacks()}


def test_what_differs_in_addresses_only_is_one_stack_and_the_root_comes_first() -> None:
    search = "row_search_mvcc(unsigned char*, page_cur_mode_t, row_prebuilt_t*)"
    result = folded(REAL)
    assert by_path(result) == {
        ("start_thread", "ha_innobase::index_read(unsigned char*, unsigned int)", search): (2, 2002002),
        ("__send", "do_syscall_64"): (1, 1001001),
    }
    assert {stack.thread for stack in result.stacks()} == {Thread("connection", 7201, 7301)}
    assert {stack.event for stack in result.stacks()} == {"cpu-clock"}
    assert (result.lost, result.unreadable, result.cut_off, samples(result)) == (17, 0, False, 3)


def test_a_text_that_ends_in_a_sample_is_seen_to_be_cut_off() -> None:
    assert folded(REAL[:-40]).cut_off
    assert samples(folded(REAL[:-40])) == 2
    assert not folded(b"").cut_off


def test_a_text_that_ends_with_a_message_of_lost_records_is_whole() -> None:
    message = b"mysqld 7201 [001] 5000.004: PERF_RECORD_LOST lost 1\n"
    result = folded(REAL + 2 * message)
    assert (result.lost, result.unreadable, result.cut_off, samples(result)) == (19, 0, False, 3)
    assert all(folded(REAL + message[:length]).cut_off for length in range(1, message.index(b" lost 1") + 6))


def test_what_is_no_sample_is_counted_and_spoils_nothing() -> None:
    result = folded(b"# a comment\n\nno sample at all\n\tnor this\n\n" + REAL)
    assert (samples(result), result.unreadable) == (3, 1)


def test_a_sample_without_callers_and_one_without_a_stack_count() -> None:
    result = folded(
        b"mysqld 7/8 1.0: 5 cycles: \n\t    55d0c8a1b2c3 main+0x1 (/opt/my/mysqld)\n\n"
        b"mysqld 7/8 1.0: 6 cycles: \n\n"
        b"mysqld 7/8 1.0: 7 cycles: \n\t               0 [unknown] ([unknown])\n\n"
    )
    assert by_path(result) == {("main",): (1, 5), (): (1, 6), ("[unknown]",): (1, 7)}


def test_threads_with_odd_names_stay_different_threads() -> None:
    leaf = b"\n\t    55d0c8a1b2c3 f (/m)\n\n"
    names = [b"my thread", b"kworker/0:1", b"", b"a 1/2 b", b"%s;\"'<script>"]
    result = folded(b"".join(name + b" 7/%d 1.0: 1 cycles:" % number + leaf for number, name in enumerate(names, 8)))
    assert {stack.thread for stack in result.stacks()} == {
        Thread(name.decode(), 7, number) for number, name in enumerate(names, 8)
    }


def test_names_that_would_break_other_formats_stay_whole() -> None:
    names = [
        "a;b",
        "operator()(char const*, int) const",
        "f(\"x\", 'y')",
        "<script>alert(1)</script>",
        "std::function<void (int)>::operator()(int) const",
        "g(int (*) [3])",
        "лук",
    ]
    for name in names:
        for module, short in {
            "/opt/my (old)/mysqld": "mysqld",
            "/x/libc.so.6 (deleted)": "libc.so.6",
            "[kernel.kallsyms]": "[kernel]",
            "[nf_tables]": "[kernel]",
            "[vdso]": "[vdso]",
            "//anon": "[data]",
            "[unknown]": "[unknown]",
        }.items():
            line = f"{name} ({module})".encode()
            assert read_frame(line) == Frame(name, short)
            assert read_frame(line.replace(b" (" + module.encode(), b"+0x1f (" + module.encode())) == Frame(
                name, short
            )


FRAMES = st.builds(
    Frame,
    st.sampled_from(["f", "g(int)", "h<a>::operator()(b) const", "[unknown]", "x;y", "lambda(auto:1)#1"]),
    st.sampled_from(["mysqld", "libc.so.6", "[kernel]"]),
)
FILES = {"mysqld": "/opt/my/mysqld", "libc.so.6": "/usr/lib/libc.so.6", "[kernel]": "[kernel.kallsyms]"}
SAMPLES = st.lists(
    st.tuples(
        st.sampled_from([Thread("mysqld", 7, 7), Thread("ib log", 7, 9)]),
        st.sampled_from(["cycles", "cpu-clock"]),
        st.lists(FRAMES, max_size=5).map(tuple),
        st.integers(1, 10**12),
    ),
    max_size=40,
)


@given(SAMPLES, st.randoms(use_true_random=False), st.booleans(), st.integers(1, 400))
def test_every_sample_is_counted_once_however_the_text_comes(samples, random, offsets, piece) -> None:  # type: ignore[no-untyped-def]
    text = b""
    for thread, event, frames, weight in samples:
        text += f"{thread.name} {thread.pid}/{thread.tid}   1.5:  {weight} {event}:u: \n".encode()
        for frame in reversed(frames):
            offset = f"+0x{random.getrandbits(12):x}" if offsets and frame.name != "[unknown]" else ""
            text += f"\t{random.getrandbits(47):16x} {frame.name}{offset} ({FILES[frame.module]})\n".encode()
        text += b"\n"
    file = io.BytesIO(text)
    result = fold(lambda _: file.read(piece))
    expected: Counter[tuple[object, ...]] = Counter()
    weights: Counter[tuple[object, ...]] = Counter()
    for thread, event, frames, weight in samples:
        expected[thread, event, frames] += 1
        weights[thread, event, frames] += weight
    stacks = list(result.stacks())
    assert {(s.thread, s.event, s.frames): s.samples for s in stacks} == expected
    assert {(s.thread, s.event, s.frames): s.weight for s in stacks} == weights
    assert not result.cut_off
    assert len(stacks) == len(expected)


def stack(role: str, *names: str, samples: int = 1, event: str = "cycles") -> Stack:
    frames = tuple(Frame(name, "mysqld") for name in names)
    return Stack(Thread(role, 7, len(role)), event, frames, samples, samples * 10)


def test_threads_of_one_role_are_one_in_the_table() -> None:
    stacks = [stack("a", "main", "f"), stack("bb", "main", "f", samples=3), stack("ccc", "main", "f", samples=5)]
    frame = table("point-query", stacks, {1: "connection", 2: "connection", 3: "io"})
    assert frame.schema == STACKS
    assert frame.select("step", "role", "samples", "weight").rows() == [
        ("point-query", "connection", 4, 40),
        ("point-query", "io", 5, 50),
    ]
    assert frame["frames"].to_list() == [["main", "f"]] * 2
    assert table("point-query", [], {}).schema == STACKS


def test_a_million_distinct_stacks_stay_distinct() -> None:
    """No more than a tenth of them here; what each needs is the same."""
    count = 100_000

    def lines() -> Callable[[int], bytes]:
        numbers = iter(range(count))

        def read(_: int) -> bytes:
            return b"".join(
                b"mysqld 7/7 1.0: 3 cycles:\n\t    55d0c8a1b2c3 leaf+0x3 (/m)\n\t    55d0%08x f%d+0x1 (/m)\n\n"
                % (number, number)
                for _, number in zip(range(1000), numbers, strict=False)
            )

        return read

    frame = table("s", fold(lines()).stacks(), {7: "main"})
    assert frame.height == count
    assert frame.select(pl.col("samples", "weight").sum()).rows() == [(count, 3 * count)]
