"""A seed asks for the same random sequence again, by the clock as by number."""

from collections.abc import Iterator

import pytest
from live_load import House, done, logging_server

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with logging_server(tmp_path_factory.mktemp("seeds")) as running:
        yield running


@pytest.mark.parametrize(
    "label",
    ["point-query", "random-points_range=10", "read-write_range=10", "update-zipf", "insert", "update-inlist"],
)
def test_a_seed_gives_the_same_statements_again(label: str, house: House) -> None:
    one, again, unprepared, other = (
        done(house.do(label, seed=seed, prepared=prepared, counted=counted, counted_operations=300)[1])
        for seed, prepared, counted in ((7, True, False), (7, True, True), (7, False, True), (8, True, True))
    )
    both = min(len(one), len(again), len(unprepared))
    assert both > 20
    assert one[:both] == again[:both] == unprepared[:both]
    assert one[:both] != other[:both]


def test_each_thread_has_a_sequence_of_its_own_and_has_it_again(house: House) -> None:
    first, again = (house.do("random-points_range=10", seed=7, threads=2)[1] for _ in range(2))
    begins = [
        {
            tuple(entry.statement for entry in entries if entry.command != "Prepare")[:20]
            for entries in logged.values()
        }
        for logged in (first, again)
    ]
    assert begins[0] == begins[1]
    assert len(begins[0]) == 2, "two threads that draw the same would ask for the same"
