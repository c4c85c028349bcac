"""Fixtures for all tests: private folders, made-up studies, a browser; and a watch that nothing is left running."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import rqps
from browser import Browser
from child import running_from, share_cache, until
from compilers import clang_in
from hypothesis import HealthCheck, settings
from releases import Site, served
from rqps.engines.cache import cache_dir
from rqps.measure.machine import STATE_MS
from rqps.scratch import Scratch
from rqps.show.renderer import PICTURES
from synthetic import shape_of_many, write_study

collect_ignore_glob = ["notebooks/*", "toy/*"]  # some notebooks fail on purpose; tests execute both

# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile("rqps", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rqps")

ROOT = Path(__file__).parent.parent
PATIENCE_S = 60  # for a server that is still writing its pages

# Whatever a test starts has this folder in its command line, environment or working directory: servers and
# their keepers run in temporary directories, and the rest inherits TMPDIR. Others on the machine have not.
WATCHED = pytest.StashKey[Path]()
LEFT_OVER = pytest.StashKey[list[str]]()
CACHE = pytest.StashKey[Scratch]()
LONGEST = ["test_live_builds.py", "test_hosts.py", "test_campaign.py", "test_live_rocksdb.py", "test_every_page.py"]
"""Files of four minutes and more: those that mostly wait, then the one that computes."""
SHARED_OUT = "test_every_page.py"
"""The file whose tests two workers share. More of them would each start a kernel and make the page of all studies."""
LAST_CHARACTERS = 1500
"""As much of a failure is shown at once."""
USERS_CACHE = "RQPS_TESTS_CACHE"
"""The user's cache, in which nothing is fetched twice."""


def pytest_configure(config: pytest.Config) -> None:
    # Whoever starts tests in the background may have them ignore signals, and so would all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    rqps.save_cpu()
    # What tests write need not outlive a power cut, and the disk is slow while servers write gigabytes to it.
    pytest.MonkeyPatch().setattr("rqps.store.write.flush", lambda _path: None)
    os.environ.setdefault(
        "PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir()
    )  # pytest keeps its own for a look afterwards
    config.stash[WATCHED] = Path(tempfile.mkdtemp(prefix="rqps-t-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(config.stash[WATCHED])
    # Each worker has a cache of its own with all that is in the user's: rqps measures one study at a time in each.
    users = Path(os.environ.setdefault(USERS_CACHE, str(cache_dir())))
    config.stash[CACHE] = Scratch(users / "tests")
    os.environ["RQPS_CACHE"] = str(config.stash[CACHE].path)
    os.environ["RQPS_HOST_LOCK"] = ""  # so does each test that has a cache of its own
    os.environ[STATE_MS] = "2"
    share_cache(config.stash[CACHE].path, users, "data")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest come first, or one worker would be at them when all others have ended: the longest of
    all, then those of tests that wait."""
    marked = {mark: {item.path for item in items if item.get_closest_marker(mark)} for mark in ("live", "page")}
    first = {name: place for place, name in enumerate(LONGEST)}
    items.sort(
        key=lambda item: (first.get(item.path.name, len(first)), *(item.path not in of for of in marked.values()))
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keeps the tests of a file together, but for those that one worker would be at when all others have ended."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    scheduler = LoadFileScheduling(config, log)
    file_of = scheduler._split_scope
    scheduler._split_scope = lambda test: file_of(test) + str(len(test) % 2) * (SHARED_OUT in test)
    return scheduler


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = session.config.stash[WATCHED]
    with suppress(AssertionError):
        until(lambda: not running_from(folder), patience_s=PATIENCE_S)
    for pid in (left := running_from(folder)):
        os.kill(pid, signal.SIGKILL)
    if left:
        session.config.stash[LEFT_OVER] = [f"{pid}: {words}" for pid, words in left.items()]
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    shutil.rmtree(folder, ignore_errors=True)
    session.config.stash[CACHE].remove()


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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name what failed at once: a run that is ended from outside never comes to its summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid}\n{str(report.longrepr)[-LAST_CHARACTERS:]}", flush=True)


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder that `rqps` uses during the test. Downloads stay in the user's cache."""
    folder = tmp_path / "data"
    (folder / "raw").mkdir(parents=True)
    monkeypatch.setenv("RQPS_DATA", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for downloads that `rqps` uses during the test."""
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def never_missing() -> Iterator[list[Path]]:
    """Takes paths that a reader has to find at each step that Python takes on the disk, from then on."""
    paths: list[Path] = []
    missing: set[str] = set()
    sys.addaudithook(lambda event, _: missing.update(f"{path}, at {event}" for path in paths if not path.exists()))
    yield paths
    paths.clear()
    assert missing == set()


@pytest.fixture
def messages() -> list[str]:
    """Takes what is reported meanwhile."""
    return []


@pytest.fixture(scope="module")
def undrawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Notebooks leave their charts to another process, and nobody draws them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PICTURES, str(tmp_path_factory.mktemp("pictures")))
        yield


@pytest.fixture(scope="session")
def reader_of_reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from rqps.report.site import reading

    with reading(tmp_path_factory.mktemp("kernel") / "executed") as reader:
        yield reader


@pytest.fixture(scope="module")
def one_kernel(reader_of_reports: Any) -> Iterator[None]:
    """Reports share a kernel, and the process that draws their charts: these take 2 s of CPU to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rqps.report.site.reading", lambda _folder: nullcontext(reader_of_reports))
        yield


@pytest.fixture
def site() -> Iterator[Site]:
    with served(Site()) as running:
        yield running


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the committed samples, and nothing that was measured here since."""
    folder = tmp_path_factory.mktemp("samples")
    (folder / "sample").symlink_to(ROOT / "data/sample")
    return folder


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> rqps.Study:
    """A made-up study of two steps on three dbms in six rounds."""
    return rqps.load("synthetic", data=write_study(tmp_path_factory.mktemp("study")))


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> rqps.Study:
    """A made-up study of 47 steps on ten builds."""
    return rqps.load("synthetic", data=write_study(tmp_path_factory.mktemp("many"), shape_of_many()))


@pytest.fixture(scope="session")
def clang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A clang on PATH: Debian's where this machine has none."""
    with pytest.MonkeyPatch.context() as patch:
        if not shutil.which("clang"):
            patch.setenv("PATH", f"{clang_in(tmp_path_factory.mktemp('clang'))}:{os.environ['PATH']}")
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a path short enough for a socket, which does not outlive the test: servers write much."""
    folder = tmp_path_factory.mktemp("s")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
