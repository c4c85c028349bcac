"""What-ifs on real servers, in a notebook's kernel: one measured, one that doesn't start, one that is stopped."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import rqps
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from live_study import OLD_AND_SMALL, Place
from rqps import stats
from test_one_regression import executed, sections

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

RUNS = (
    OLD_AND_SMALL
    + """\
  ps0: {extends: base, performance_schema: OFF}
studies:
  small:
    question: What does the performance schema of 5.6 cost?
    workload: sysbench
    dbms: [my5624.base, my5624.ps0]
    base: my5624.base
    rounds: 1
    seed: 1
    parameters: {steps: [point-query, update-index], table_rows: 2000, seconds: 1, warmup_seconds: 0}
"""
)
CALL = "rqps.what_if('small', step='point-query', data={data!r}, config={config!r})"


class Cell:
    """A cell that is executed: what it printed, what it showed, and its error."""

    def __init__(self, client: BlockingKernelClient, source: str) -> None:
        self.printed = self.shown = self.error = ""
        self.client, self.asked = client, client.execute(source)

    def wait(self, for_: str = "\0") -> "Cell":
        """Until it has printed that, or has ended."""
        deadline_s = time.monotonic() + 240
        while time.monotonic() < deadline_s:
            message: dict[str, Any] = self.client.get_iopub_msg(timeout=240)
            if message["parent_header"].get("msg_id") != self.asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                self.printed += content["text"]
            elif kind in ("execute_result", "display_data"):
                self.shown += content["data"]["text/plain"]
            elif kind == "error":
                self.error = content["ename"]
            if for_ in self.printed or (kind == "status" and content["execution_state"] == "idle"):
                return self
        raise AssertionError(self.printed)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("what-if"), RUNS)
    place.run()
    return place


@pytest.fixture(scope="module")
def kernel(place: Place) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(place.path / "notebooks/investigate"))
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    Cell(client, "import rqps; from rqps import experiment; experiment.SECONDS, experiment.BUDGET_S = 1, 15").wait()
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def left(place: Place) -> list[str]:
    return [path.name for path in (place.path / "data/raw").glob("study=small-if-*/.run=*")]


def test_a_change_is_measured_and_stands_on_the_screen(
    place: Place, kernel: tuple[KernelManager, BlockingKernelClient]
) -> None:
    data = str(place.path / "data")
    cell = Cell(kernel[1], CALL.format(data=data, config={"performance_schema": "OFF"})).wait()
    assert not cell.error
    assert "round 1: 2 dbms in turns" in cell.printed, "its progress"
    assert cell.shown.startswith("What if: performance_schema = OFF (small-if-point-query-")
    assert "operations/s relative to my5624.base" in cell.shown
    results = [path for path in (place.path / "data/raw").glob("study=small-if-*") if path.is_dir()]
    tried = rqps.load(results[0].name.removeprefix("study="), data)
    assert set(tried.runs["mode"]) == {"throughput"}, "no time is spent on the base with itself"
    settings = tried.settings.filter(kind="variable", name="performance_schema").collect()
    assert dict(zip(settings["dbms"].str.len_chars() > len("my5624.base"), settings["value"], strict=True)) == {
        False: "ON",
        True: "OFF",
    }
    assert set(stats.what_ifs(rqps.load("small", data))["change"]) == {"performance_schema = OFF"}
    screens = sections(executed("small", place.path / "data")["screen"])
    assert all(
        "<td>performance_schema = OFF<" in html for (step, *_), html in screens.items() if step == "point-query"
    )


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"innodb_log_group_home_dir": "/nowhere"}, "nowhere"),
        ({"performance_shema": "OFF"}, "has no option performance_shema (did you mean performance_schema?)"),
        ({"datadir": "elsewhere"}, "datadir"),
        ({}, "give build= or config={…}"),
    ],
)
def test_a_change_that_can_t_be_measured_says_why(
    config: dict[str, str], why: str, place: Place, kernel: tuple[KernelManager, BlockingKernelClient]
) -> None:
    cell = Cell(kernel[1], CALL.format(data=str(place.path / "data"), config=config)).wait()
    assert not cell.error, "no traceback"
    assert why in cell.shown
    assert not place.servers()
    assert not left(place)


def test_an_interrupt_leaves_nothing_behind_and_the_same_call_goes_on(
    place: Place, kernel: tuple[KernelManager, BlockingKernelClient]
) -> None:
    manager, client = kernel
    call = CALL.format(data=str(place.path / "data"), config={"innodb_adaptive_hash_index": "OFF"})
    cell = Cell(client, call).wait(for_="point-query 1/1")
    manager.signal_kernel(signal.SIGINT)
    cell.wait()
    assert not cell.error
    assert "It was stopped" in cell.shown
    assert not place.servers()
    assert not left(place)
