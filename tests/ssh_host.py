"""A machine for tests: an SSH server on loopback whose commands have a home, a TMPDIR and CPUs of their own.

`python ssh_host.py FOLDER` is the server, a process of its own. It is a real one, of asyncssh, which needs nothing of
the system; keys are made for the test. A disk or a network of its own comes from the kernel's namespaces.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh
from child import until
from rqps.engines.cache import cache_dir
from rqps.hosts.worker import CHECKOUT

LOOPBACK = "127.0.0.1"
NOT_SHARED = ("measuring-", ".measuring-", "scratch")


def on_a_disk(place: Path, size: str) -> tuple[str, ...]:
    """The command that a program is started under to find a disk of that size at a place."""
    place.mkdir(parents=True, exist_ok=True)
    mount = 'mount -t tmpfs -o "size=$0" none "$1" && shift && exec "$@"'
    return ("unshare", "-rm", "sh", "-c", mount, size, str(place))


class Network:
    """A cable. `near` and `far` are the commands that programs are started under to be at an end of it; `FAR` is the
    address of that end."""

    FAR = "10.9.0.2"
    _LAY = f"""\
set -e
ip link add cable type veth peer name cable netns $0
ip addr add {FAR}/30 dev cable
ip link set cable up && ip link set lo up
nsenter --target=$0 --net sh -c 'ip addr add 10.9.0.1/30 dev cable && ip link set cable up'
exec "$@"
"""

    def __init__(self) -> None:
        command = ("unshare", "-rn", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity")
        self._holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "up\n"
        pid = str(self._holder.pid)
        self.near = ("nsenter", f"--target={pid}", "--user", "--net", "--preserve-credentials")
        self.far = (*self.near, "unshare", "-n", "sh", "-c", self._LAY, pid)

    def cable(self, state: str) -> None:
        subprocess.run([*self.near, "ip", "link", "set", "cable", state], check=True)

    def remove(self) -> None:
        self._holder.terminate()
        self._holder.communicate()


class Computer:
    """A host `name` below a folder, which lets in whoever has the key in the folder's `.ssh`."""

    def __init__(self, folder: Path, name: str, cpus: Collection[int], *under: str, **environment: str) -> None:
        self.folder, self.name, self.cpus = folder / name, name, cpus
        self.rqps = self.folder / "rqps"
        self.environment = environment
        self.ssh = folder / ".ssh"
        (self.folder / "tmp").mkdir(parents=True)
        self.ssh.mkdir(exist_ok=True)
        key = self.ssh / "key"
        if not key.exists():
            made = asyncssh.generate_private_key("ssh-ed25519")
            made.write_private_key(key)
            made.write_public_key(key.with_suffix(".pub"))
        own = asyncssh.generate_private_key("ssh-ed25519")
        own.write_private_key(self.folder / "host_key")
        (self.folder / "authorized").write_bytes(key.with_suffix(".pub").read_bytes())
        self.start(*under)
        with (self.ssh / "known_hosts").open("a") as known:
            known.write(f"{name} {own.export_public_key().decode()}")
        self.called(name)

    def called(self, name: str, address: str = LOOPBACK, port: int = 0, known_hosts: str = "") -> None:
        """Writes a name for it into the user's SSH config, also with a wrong port, or without what is known of it."""
        with (self.ssh / "config").open("a") as config:
            config.write(f"Host {name}\n HostName {address}\n Port {port or self.port}\n HostKeyAlias {self.name}\n")
            config.write(f" IdentityFile {self.ssh / 'key'}\n")
            config.write(f" UserKnownHostsFile {known_hosts or self.ssh / 'known_hosts'}\n")

    def start(self, *under: str, address: str = LOOPBACK) -> None:
        """Starts its SSH server, itself under another command where one is given."""
        environment = {**os.environ, "HOME": str(self.folder), "TMPDIR": str(self.folder / "tmp")}
        environment["RQPS_HOST_LOCK"] = ""  # which all these hosts would share
        # pyenv, which a user may have, takes 0.1 s for each version of Python that rqps asks for.
        environment["PATH"] = f"{Path(sys.executable).parent}:{os.defpath}:/usr/sbin:/sbin"
        environment.pop("RQPS_CACHE", None)
        on_its_cpus = [str(shutil.which("taskset")), "--cpu-list", ",".join(map(str, self.cpus))]
        command = [
            *on_its_cpus,
            *under,
            sys.executable,
            __file__,
            str(self.folder),
            address,
            str(getattr(self, "port", 0)),
        ]
        self.server = subprocess.Popen(
            command,
            env={**environment, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.server.stdout is not None
        self.port = int(self.server.stdout.readline())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.server.send_signal(number)
        self.server.wait()

    def share_cache(self, *but: str) -> None:
        """Lets it have the builds and tables of this user, so that none is fetched twice."""
        (self.rqps / "cache").mkdir(parents=True, exist_ok=True)
        for path in cache_dir().iterdir():
            if not path.name.startswith((*NOT_SHARED, *but)):
                (self.rqps / "cache" / path.name).symlink_to(path)

    def lend_environment(self) -> None:
        """An environment in the place of the one that `rqps hosts prepare` would make for some minutes: the packages
        are those of the tests."""
        checkout = self.rqps / "checkout"
        checkout.mkdir(parents=True)
        shutil.copy(CHECKOUT / "requirements.lock", checkout)
        venv.create(checkout / ".venv", symlinks=True)
        (packages,) = (checkout / ".venv").glob("lib/python*/site-packages")
        ours = Path(asyncssh.__file__).parents[1]
        (packages / "rqps.pth").write_text(f"{checkout / 'lib'}\n{ours}\n")
        (checkout / ".venv/.made-here").write_text(f"{checkout.resolve()}\n")

    def processes(self) -> dict[int, str]:
        """Whatever runs there beside the SSH server, by its home or TMPDIR."""
        results = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                ours = f"HOME={self.folder}\0".encode() in (process / "environ").read_bytes()
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if ours and words and int(process.name) != self.server.pid:
                results[int(process.name)] = words
        return results

    def until_idle(self) -> None:
        """Waits until nothing runs there any more."""
        until(lambda: not self.processes(), patience_s=120, why=lambda: str(self.processes()))

    def worker(self) -> int | None:
        """The process of its Dask worker."""
        serves = (pid for pid, words in self.processes().items() if re.match(r"\S*python -c .*import serve", words))
        return next(serves, None)


class _Server(asyncssh.SSHServer):
    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:  # noqa: ARG002
        return dest_host == LOOPBACK

    def server_requested(self, listen_host: str, listen_port: int) -> bool:  # noqa: ARG002
        return listen_host == LOOPBACK


async def _run(process: "asyncssh.SSHServerProcess[bytes]") -> None:
    pipes: Mapping[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    home, shell = os.environ["HOME"], ("/bin/sh", "-c", process.command or "")
    child = await asyncio.create_subprocess_exec(*shell, **pipes, cwd=home, start_new_session=True)
    await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
    code = await child.wait()
    with suppress(OSError, asyncssh.Error):  # whoever asked has gone
        await process.stdout.drain()
        if code < 0:
            process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
        else:
            process.exit(code)


async def _serve(folder: Path, address: str, port: int) -> None:
    keys = {"server_host_keys": [folder / "host_key"], "authorized_client_keys": str(folder / "authorized")}
    listening = await asyncssh.create_server(
        _Server, address, port, process_factory=_run, encoding=None, reuse_address=True, **keys
    )
    print(listening.get_port(), flush=True)
    await listening.wait_closed()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
