"""What all tests share: a private data folder, and a watch that nothing they started is left running."""

import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

collect_ignore_glob = ["notebooks/*"]  # some of them fail on purpose; tests execute them

PATIENCE_S = 20  # for a server that is still writing its pages

# Whatever a test starts has this folder in its command line, environment or working directory: servers and
# their keepers run in temporary directories, and the rest inherits TMPDIR. Others on the machine have not.
WATCHED = pytest.StashKey[Path]()
LEFT_OVER = pytest.StashKey[list[str]]()
MEASURING = "RQPS_TESTS_MEASURING"
"""The file that a test marked `measures` locks: rqps measures one study at a time on a host."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault(
        "PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir()
    )  # pytest keeps its own for a look afterwards
    config.stash[WATCHED] = Path(tempfile.mkdtemp(prefix="rqps-t-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(config.stash[WATCHED])
    os.environ.setdefault(MEASURING, str(config.stash[WATCHED] / "measuring.lock"))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = session.config.stash[WATCHED]
    deadline = time.monotonic() + PATIENCE_S
    while (left := running_from(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    if left:
        session.config.stash[LEFT_OVER] = [f"{pid}: {words}" for pid, words in left.items()]
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    shutil.rmtree(folder, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := config.stash.get(LEFT_OVER, []):
        terminalreporter.section("FAILED: processes that the tests left running", red=True)
        for line in left:
            terminalreporter.line(line[:400])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A live test or a page test that would be skipped fails: what is missing has to be seen."""
    report = yield
    needs_the_real_thing = item.get_closest_marker("live") or item.get_closest_marker("page")
    if report.skipped and needs_the_real_thing and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
    return report


@pytest.fixture(autouse=True)
def in_turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Holds back a test that measures a study while another worker's test does."""
    if not request.node.get_closest_marker("measures"):
        yield
        return
    with Path(os.environ[MEASURING]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder that `rqps` uses during the test. Downloads stay in the user's cache."""
    folder = tmp_path / "data"
    (folder / "raw").mkdir(parents=True)
    monkeypatch.setenv("RQPS_DATA", str(folder))
    return folder


def running_from(folder: Path) -> dict[int, str]:
    """Processes that have to do with this folder, by id, with their command lines; not ourselves."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            traces = [(process / name).read_bytes() for name in ("cmdline", "environ")]
            traces.append(os.fsencode((process / "cwd").readlink()))
        except OSError:  # ended meanwhile, or somebody else's
            continue
        if any(os.fsencode(folder) in trace for trace in traces) and int(process.name) != os.getpid():
            found[int(process.name)] = traces[0].replace(b"\0", b" ").decode(errors="replace")
    return found
