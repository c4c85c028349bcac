"""Connects to a host through SSH, inspects it, copies this checkout to it, and makes the Python environment there.

Keys, jump hosts and other settings come from ~/.ssh: a host can be used if `ssh ADDRESS` asks no question.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from rqps.engines import Say
from rqps.engines.cache import cache_dir
from rqps.errors import RqpsError
from rqps.finding import KB_PER_GB, Finding, worst
from rqps.hosts.worker import CHECKOUT, checkout_files, versions
from rqps.measure.doctor import LEAST_DISK_GB
from rqps.numbers import duration, gigabytes
from rqps.study import HostSpec

try:
    import asyncssh
except ModuleNotFoundError as error:
    fix = "pip install 'rqps[hosts]', or make the environment of the checkout anew"
    raise RqpsError(f"hosts need the package {error.name}", fix=fix) from None

KEEPALIVE_S, UNANSWERED = 15, 4
PATIENCE_S = 20
CLOCK_S = 5.0
"""Maximum difference between the host's clock and this machine's, in seconds. With a larger difference, the times
that are stored with measurements would be wrong."""
LEAST_MEMORY = 0.9
"""Minimum memory that a host must report, as a share of the memory that runs.yaml states for the host. A host
reports less memory than it has, since firmware and kernel reserve some."""
MACHINE = "Linux x86_64"
WHERE_BAD = {
    "machine": (
        "nothing can be measured there",
        "take a Linux machine of x86-64: rqps fetches servers and programs for such machines only",
    ),
    "clock": ("measurements there get wrong times", "as root: timedatectl set-ntp true"),
    "room": (
        "unpacking a server takes 1 to 2 GB, and every round of a dbms needs a copy of its loaded tables",
        "make room there, or name a folder on a larger disk as its path in runs.yaml",
    ),
    "versions": ("its results would come from another version of rqps", "rqps hosts prepare {host}"),
    "memory": (
        "tables that should fit into its memory would be read from the disk",
        "see that this is the machine that you mean, or change its memory in runs.yaml",
    ),
    "Python": ("rqps can't be installed there", "install this machine's version there"),
    "rqps": ("nothing can be measured there", "rqps hosts prepare {host}"),
}
"""Maps each check of a host to the effect if the check fails, and to the fix."""
PYTHONS = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
LOOK = """\
clock=$(date +%s.%N) machine=$(uname -sm)
folder={path}; while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
echo "$clock|$machine|$(df -Pk "$folder" | awk 'END {{print $4}}')"
for each in {pythons}; do
  $each -c 'import platform; print("{{}}|{{}}".format("'$each'", platform.python_version()))' 2>/dev/null || true
done
"""
FACTS = "import json; from rqps.hosts.worker import facts; print(json.dumps(facts({thorough})))"
RECEIVE = """\
set -e
mkdir -p {path}/cache && cd {path}
for lock in cache/.measuring-*.lock; do
  [ ! -e "$lock" ] || flock -n "$lock" true || {{ echo "another rqps run is measuring there" >&2; exit 1; }}
done
rm -rf checkout.new && mkdir checkout.new && tar -xf - -C checkout.new
if cmp -s checkout/requirements.lock checkout.new/requirements.lock &&
    [ "$(checkout/.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')" = {version} ]; then
  mv checkout/.venv checkout.new/
fi
rm -rf checkout && mv checkout.new checkout
make --silent -C checkout .venv/.made-here PYTHON={python} </dev/null
"""


def in_checkout(spec: HostSpec, program: str) -> str:
    """The command line that runs Python code on a host, in the host's checkout of rqps."""
    cache = f"exec env RQPS_CACHE=$(cd {spec.path} && pwd)/cache"
    return in_shell(f"cd {spec.path}/checkout && {cache} .venv/bin/python -c {quote(program)}")


def in_shell(script: str) -> str:
    """Turns a script into a command line that works in any login shell."""
    return f"exec sh -c {quote(script)}"


@asynccontextmanager
async def connected(spec: HostSpec) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Opens a connection to a host; raises an RqpsError with the reason if that fails."""
    user, _, place = spec.ssh.rpartition("@")
    address, _, port = place.partition(":")
    given: dict[str, Any] = {**({"username": user} if user else {}), **({"port": int(port)} if port else {})}
    command = " ".join(["ssh", *(["-p", port] if port else []), f"{user}@{address}" if user else address])
    patience = {"connect_timeout": PATIENCE_S, "login_timeout": PATIENCE_S}
    beats = {"keepalive_interval": KEEPALIVE_S, "keepalive_count_max": UNANSWERED}
    try:
        connection = await asyncssh.connect(address, **patience, **beats, **given)
    except (OSError, asyncssh.Error) as error:
        problem = f"is not reachable: {'no answer' if isinstance(error, TimeoutError) else error}"
        fix = f"see that the host is up, and that `{command} true` works"
        if isinstance(error, asyncssh.PermissionDenied):
            problem = "asks for a password, or does not know your key"
            fix = f"see that `{command} true` works without a question: ssh-copy-id copies your key to the host"
        elif isinstance(error, asyncssh.HostKeyNotVerifiable):
            problem = "is a machine that you have not logged in to: its key is not in known_hosts"
            fix = f"run `{command}` once by hand, and accept the host's key if it is the right one"
        raise RqpsError(f"{spec.ssh} {problem}", fix=fix) from None
    async with connection:
        yield connection


@contextmanager
def explained() -> Iterator[None]:
    """Turns an error of a connection into an RqpsError with a fix."""
    try:
        yield
    except asyncssh.ChannelListenError:
        fix = "let its sshd forward ports: AllowTcpForwarding yes"
        raise RqpsError("its SSH server forwards no ports", fix=fix) from None
    except (OSError, asyncssh.Error) as error:
        fix = "see what rqps hosts says, then run the same command again"
        raise RqpsError(f"the connection broke: {error}", fix=fix) from error


@dataclass(frozen=True)
class Looked:
    """The results of inspecting a host."""

    findings: list[Finding]
    """The findings that decide whether the host can measure."""
    python: str = ""
    """The command of a Python on the host that has the version of this machine's Python; empty if there is none."""
    doctor: Sequence[Finding] = ()
    """The doctor's findings on the host."""
    machine: tuple[str, frozenset[int]] | None = None
    """An id of the machine, independent of its addresses, and the CPUs that rqps may use on the host; None if rqps
    does not run there."""

    @classmethod
    def of(
        cls, name: str, spec: HostSpec, facts: Mapping[str, Any], before: Sequence[Finding] = (), python: str = ""
    ) -> "Looked":
        """Makes findings from the facts that rqps on a host reports. `before` has the findings of
        the checks before, which do not need rqps on the host."""
        here, their_versions, memory_gb = versions(), facts["versions"], facts["memory_gb"]
        other = [
            f"{what} {their_versions.get(what)}, here {here[what]}"
            for what in here
            if their_versions.get(what) != here[what]
        ]
        same = ", ".join(f"{what} {version}" for what, version in here.items())
        enough = spec.memory is None or memory_gb >= LEAST_MEMORY * spec.memory
        less = "" if enough else f", and runs.yaml says {spec.memory:g} GB"
        findings = [_finding("versions", not other, "; ".join(other) or same, name)]
        findings.append(_finding("memory", enough, f"{gigabytes(memory_gb)}{less}"))
        doctor = [Finding(*finding_fields) for finding_fields in facts["doctor"]]
        return cls([*before, *findings], python, doctor, (facts["machine"], frozenset(facts["cpus"])))

    def same_as(self, other: "Looked") -> bool:
        """True if both hosts are one machine and share CPUs: simultaneous measurements would disturb each other."""
        if self.machine is None or other.machine is None:
            return False
        return self.machine[0] == other.machine[0] and bool(self.machine[1] & other.machine[1])

    def refuse(self, but: Collection[str] = ()) -> None:
        """Raises an error with the findings that keep a host from measuring; findings named in `but` are ignored."""
        bad = [finding for finding in self.findings if finding.level == "bad" and finding.name not in but]
        if bad:
            raise RqpsError("; ".join(f"{finding.name}: {finding.observed}" for finding in bad), fix=bad[0].fix)


async def look(
    name: str, spec: HostSpec, connection: asyncssh.SSHClientConnection, *, thorough: bool = False
) -> Looked:
    """Inspects a host: its machine, clock, memory and versions; `thorough` adds the doctor's findings."""
    began = time.time()
    done = await connection.run(in_shell(LOOK.format(path=spec.path, pythons=" ".join(PYTHONS))))
    ended = time.time()
    first, *others = str(done.stdout).splitlines() or [""]
    try:
        clock, machine, free_kb = first.split("|")
        off_s = min(float(clock) - began, 0.0) or max(float(clock) - ended, 0.0)
        free_gb = int(free_kb) / KB_PER_GB
    except ValueError:
        message = (str(done.stderr) or first).strip()[:200]
        fix = f"check the output of `ssh {spec.ssh} 'uname -sm; date'`"
        raise RqpsError(f"the host's shell does not run date, uname and df as on Linux: {message}", fix=fix) from None
    off = f"{duration(abs(off_s))} {'ahead of' if off_s > 0 else 'behind'} this machine's"
    findings = [
        _finding("machine", machine == MACHINE, machine),
        _finding("clock", abs(off_s) <= CLOCK_S, off if off_s else "right"),
        _finding("room", free_gb >= LEAST_DISK_GB, f"{gigabytes(free_gb)} free for {spec.path}"),
    ]
    every = dict(line.split("|") for line in others)
    wanted = versions()["Python"]
    python = next((program for program, version in every.items() if version.startswith(f"{wanted}.")), "")
    asked = await connection.run(in_checkout(spec, FACTS.format(thorough=thorough)))
    if asked.exit_status == 0:
        return Looked.of(name, spec, json.loads(str(asked.stdout).splitlines()[-1]), findings, python)
    version_names = ", ".join(sorted(set(every.values()))) or "none"
    findings.append(
        _finding("Python", bool(python), version_names + f", and this machine has {wanted}" * (not python))
    )
    words = str(asked.stderr).strip().splitlines()[-1:]
    missing = not words or "No such file" in words[0] or "can't cd" in words[0]
    return Looked([*findings, _finding("rqps", False, "not there yet" if missing else words[0], name)], python)


def _finding(what: str, fine: bool, observed: str, host: str = "") -> Finding:
    effect, fix = WHERE_BAD[what]
    return Finding(what, "ok" if fine else "bad", observed, effect, fix.format(host=host))


async def prepare(name: str, spec: HostSpec, say: Say) -> None:
    """Copies this checkout to a host and makes its Python environment there, unless the host has both already."""
    async with connected(spec) as connection:
        looked = await look(name, spec, connection)
        looked.refuse(but=("rqps", "versions"))  # this function installs rqps, or replaces another version of it
        if worst(looked.findings) != "bad":
            say(f"{name}: has this rqps already")
            return
        say(f"{name}: getting this checkout and its environment; the first time, this takes some minutes")
        version = versions()["Python"]
        script = RECEIVE.format(path=spec.path, version=version, python=looked.python or "python3")
        if error := await _send(connection, CHECKOUT, checkout_files(), script):
            raise RqpsError(
                f"could not be prepared: {error}",
                fix=f"correct this on the host, then run: rqps hosts prepare {name}",
            )
        (await look(name, spec, connection)).refuse()
        say(f"{name}: ready")


async def send_builds(
    spec: HostSpec, connection: asyncssh.SSHClientConnection, trees: Iterable[Path], say: Say
) -> None:
    """Sends the builds that a host lacks from this machine's cache, since the host may be unable to fetch them. A
    host has a build if it has the build's folder, whose name contains a hash of the build's source."""
    for folder in sorted({tree.parent for tree in trees if tree.is_relative_to(cache_dir())}):
        target = f"{spec.path}/cache/{folder.relative_to(cache_dir())}"
        if (await connection.run(in_shell(f"test -d {target}"))).exit_status == 0:
            continue
        say(f"gets {folder.name} from here")
        arriving = f"{target}.arriving"
        script = f"set -e; rm -rf {arriving}; mkdir -p {arriving}; tar -xf - -C {arriving}; mv {arriving} {target}"
        if error := await _send(connection, folder, ["."], script):
            raise RqpsError(f"{folder.name} could not be sent: {error}", fix=f"make room for {spec.path} on the host")


async def _send(connection: asyncssh.SSHClientConnection, folder: Path, names: Iterable[str], script: str) -> str:
    """Sends files as a tar archive to a script on the host; returns an error message, empty if all went well."""
    command = ("tar", "-C", str(folder), "-cf", "-", *names)
    packed = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    done = await connection.run(in_shell(script), stdin=packed.stdout, encoding=None)
    message = done.stderr.decode(errors="replace").strip() if isinstance(done.stderr, bytes) else ""
    return "" if done.exit_status == 0 == await packed.wait() else message or f"exit code {done.exit_status}"
