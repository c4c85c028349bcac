"""Small archives, whose mysqld answers --version and no more, and a web server on loopback that hands them out."""

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rqps.engines.mysql.build import Build, locate
from rqps.study import BuildSpec


def mysqld_script(version: str) -> bytes:
    return f"#!/bin/sh\necho 'mysqld  Ver {version} for Linux on x86_64 (stand-in)'\n".encode()


def find(messages: list[str], **keys: str | bool) -> Build:
    """The build that these keys of runs.yaml ask for; what is said meanwhile goes to `said`."""
    return locate("mine", BuildSpec.model_validate(keys), messages.append)


def server_in(folder: Path, place: str = "bin", version: str = "8.0.40") -> Path:
    """A mysqld in a folder, as somebody's own build has it."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    mysqld = folder / place / "mysqld"
    mysqld.write_bytes(mysqld_script(version))
    mysqld.chmod(0o755)
    return mysqld


def everything_but(hidden: tuple[str, ...], folder: Path) -> str:
    """A PATH on which all programs of this machine are, but for some."""
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).glob("*"):
            if program.name not in hidden and not (link := folder / program.name).is_symlink():
                link.symlink_to(program)
    return str(folder)


def release(version: str, top: str = "mysql", filling: int = 0) -> bytes:
    """A tarball as a vendor packs it: one folder with bin and share in it, and things that no server needs."""
    contents = {
        "bin/mysqld": mysqld_script(version),
        "share/english/errmsg.sys": b"words",
        "mysql-test/t/one.test": b"select 1;",
        "lib/libmysqld.a": b"!<arch>",
        "share/filling": bytes(filling),
    }
    return packed({f"{top}/{name}": content for name, content in contents.items()})


def packed(contents: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tarball:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tarball.addfile(info, io.BytesIO(content))
    return file.getvalue()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Site:
    """Pages that a web server on loopback hands out, and those that it was asked for."""

    pages: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    send_only: int | None = None
    """Cut the answer off after so many bytes."""
    hold: threading.Event = field(default_factory=threading.Event)
    """Half of an answer waits for this event."""
    waiting: threading.Event = field(default_factory=threading.Event)
    """Set when half of an answer was sent and the rest waits."""
    url: str = ""


@contextmanager
def served(site: Site) -> Iterator[Site]:
    """The site on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            content = site.pages.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            try:
                self._send(content)
            except ConnectionError:
                return

        def _send(self, content: bytes) -> None:
            if site.send_only is not None:
                self.wfile.write(content[: site.send_only])
                return
            half = len(content) // 2
            self.wfile.write(content[:half])
            self.wfile.flush()
            site.waiting.set()
            site.hold.wait(60)
            self.wfile.write(content[half:])

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_port}"
    site.hold.set()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
