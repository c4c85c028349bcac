"""Unpacking tarballs and zips that somebody else packed: only what is wanted, and never outside the folder.

Nothing is written through a link: folders and files come first, each opened with O_EXCL, links last. The folder is
the caller's to throw away when this raises.
"""

import hashlib
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tarfile import HeaderError, ReadError
from typing import IO, Literal, Self

from rqps.errors import RqpsError

MOST_BYTES = 12_000_000_000
MOST_MEMBERS = 200_000
CHUNK_BYTES = 1 << 20

Wanted = Callable[[PurePosixPath], bool]
FETCH_AGAIN = "fetch it again; if it stays so, get the archive from somewhere else"


@dataclass(frozen=True)
class Member:
    """One entry of an archive, with its name as it was written there."""

    name: str
    kind: Literal["file", "folder", "symlink", "hardlink", "other"]
    size_bytes: int
    open: Callable[[], IO[bytes]]
    target: str = ""


def sha256(path: Path, update: Callable[[int], None] = lambda _: None) -> str:
    """The digest of a file, read in pieces. `update` is told how many bytes are done."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            digest.update(piece)
            done += len(piece)
            update(done)
    return digest.hexdigest()


def check_digest(archive: Path, expected: str, update: Callable[[int], None] = lambda _: None) -> None:
    if (found := sha256(archive, update)) != expected:
        raise RqpsError(
            f"{archive.name}: its sha256 is {found}, not {expected} as promised",
            fix="fetch it again; if it stays so, it is not the promised archive: don't use it, or correct sha256",
        )


def unpack(
    archive: Path, folder: Path, wanted: Wanted = lambda _: True, update: Callable[[int], None] = lambda _: None
) -> None:
    """Unpack what is `wanted` of a tarball or zip into `folder`. `update` is told how many bytes were written."""
    try:
        _unpack(archive, folder, wanted, update)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise RqpsError(f"{archive.name}: cut off or damaged: {error}", fix=FETCH_AGAIN) from error
    except NotImplementedError as error:
        raise RqpsError(f"{archive.name}: {error}", fix="pack it as .tar.gz, .tar.xz or a plain .zip") from error


def _unpack(archive: Path, folder: Path, wanted: Wanted, update: Callable[[int], None]) -> None:
    declared = written = 0
    links: list[tuple[Member, PurePosixPath]] = []
    for count, member in enumerate(_members(archive), start=1):
        place = _inside(archive, member.name)
        declared += member.size_bytes
        if declared > MOST_BYTES or count > MOST_MEMBERS:
            raise _refused(archive, f"unpacks to more than {MOST_BYTES / 1e9:.0f} GB or {MOST_MEMBERS} files")
        if member.kind == "other":
            raise _refused(archive, f"{member.name} is a device or a pipe")
        if not place.parts or not wanted(place):
            continue
        if member.kind == "folder":
            _make_folder(archive, folder, place)
        elif member.kind == "file":
            written += _write(archive, folder, place, member)
            update(written)
        else:
            links.append((member, place))
    _link(archive, folder, links)


def _members(archive: Path) -> Iterator[Member]:
    try:
        tarball = tarfile.open(archive, tarinfo=_StrictHeader)  # noqa: SIM115 closed below
    except tarfile.ReadError:
        if not zipfile.is_zipfile(archive):
            raise RqpsError(f"{archive.name}: neither a tarball nor a zip, or cut off", fix=FETCH_AGAIN) from None
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                yield _zip_member(archive, packed, info)
        return
    with tarball:
        for entry in tarball:
            yield _tar_member(tarball, entry)


class _StrictHeader(tarfile.TarInfo):
    """Only the end mark ends a tarball. Left alone, tarfile takes a damaged or missing header for the end."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if str(error) == "end of file header":  # its class has no public name
                raise
            raise ReadError(f"in place of a header or the end mark: {error}") from error


def _zip_member(archive: Path, packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    if info.flag_bits & 1:
        raise _refused(archive, f"{info.filename} is encrypted")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.is_dir():
        return Member(info.filename, "folder", 0, lambda: packed.open(info))
    if kind == stat.S_IFLNK:
        if info.file_size > 4096:
            raise _refused(archive, f"{info.filename} is a link to a name of {info.file_size} bytes")
        return Member(info.filename, "symlink", 0, lambda: packed.open(info), os.fsdecode(packed.read(info)))
    return Member(
        info.filename, "file" if kind in (0, stat.S_IFREG) else "other", info.file_size, lambda: packed.open(info)
    )


def _tar_member(tarball: tarfile.TarFile, entry: tarfile.TarInfo) -> Member:
    def content() -> IO[bytes]:
        opened = tarball.extractfile(entry)
        if opened is None:
            raise tarfile.ReadError(f"{entry.name} has no content")
        return opened

    if entry.isreg():
        return Member(entry.name, "file", entry.size, content)
    if entry.isdir():
        return Member(entry.name, "folder", 0, content)
    if entry.issym() or entry.islnk():
        return Member(entry.name, "symlink" if entry.issym() else "hardlink", 0, content, entry.linkname)
    return Member(entry.name, "other", 0, content)


def _inside(archive: Path, name: str) -> PurePosixPath:
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts or "\0" in name:
        raise _refused(archive, f"{name!r} points outside its folder")
    return place


def _make_folder(archive: Path, root: Path, place: PurePosixPath) -> Path:
    try:
        (root / place).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise _refused(archive, f"{place} is both a file and a folder") from error
    return root / place


def _write(archive: Path, root: Path, place: PurePosixPath, member: Member) -> int:
    target = _make_folder(archive, root, place.parent) / place.name
    try:
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except (FileExistsError, IsADirectoryError) as error:
        raise _refused(archive, f"{place} is there twice") from error
    written, head = 0, b""
    with os.fdopen(file, "wb") as out, member.open() as content:
        while piece := content.read(CHUNK_BYTES):
            head = head or piece[:4]
            written += len(piece)
            out.write(piece)
        if written != member.size_bytes:
            raise tarfile.ReadError(f"{place} ends after {written} of {member.size_bytes} bytes")
        # Zips made by Maven lose the run bits, so the content decides: programs, libraries and scripts get them.
        out.flush()
        os.fchmod(file, 0o755 if head == b"\x7fELF" or head[:2] == b"#!" else 0o644)
    return written


def _link(archive: Path, root: Path, links: list[tuple[Member, PurePosixPath]]) -> None:
    """Make the links, now that all files are there. No folder is made after the first link, so none through one."""
    for _, place in links:
        _make_folder(archive, root, place.parent)
    for member, place in sorted(links, key=lambda link: link[0].kind):  # hard links, then symlinks
        if (root / place).is_symlink() or (root / place).exists():
            raise _refused(archive, f"{place} is there twice")
        if member.kind == "hardlink":
            target = root / _inside(archive, member.target)
            if not target.is_file():
                raise _refused(archive, f"{place} is a hard link to {member.target}, which is not a file in it")
            (root / place).hardlink_to(target)
        elif PurePosixPath(member.target).is_absolute() or not member.target or "\0" in member.target:
            raise _refused(archive, f"{place} is a link to {member.target}, outside its folder")
        else:
            (root / place).symlink_to(member.target)
    _check_where_links_lead(archive, root, links)


def _check_where_links_lead(archive: Path, root: Path, links: list[tuple[Member, PurePosixPath]]) -> None:
    """Only the real file system knows where a chain of links ends, so all are looked at when all are there."""
    real_root = root.resolve()
    for member, place in links:
        try:
            end = (root / place).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop, up to Python 3.12
            raise _refused(archive, f"{place} is a link that leads nowhere: {member.target}") from error
        if not end.is_relative_to(real_root):
            raise _refused(archive, f"{place} is a link to {member.target}, outside its folder")


def _refused(archive: Path, reason: str) -> RqpsError:
    return RqpsError(f"{archive.name}: not unpacked: {reason}", fix="get the archive from somewhere you trust")
