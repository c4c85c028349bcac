"""Unpacking tarballs and zips that somebody else packed: only what is wanted, and never outside the folder.

tarfile's data filter judges every entry, but it makes an absolute name a relative one, lets a later entry overwrite
an earlier one, and before Python 3.11.13 and 3.12.11 chains of links get past it. So folders and files come first and
links last, checked on the real file system. The folder is the caller's to throw away when this raises.
"""

import hashlib
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from tarfile import FilterError, HeaderError, ReadError, TarInfo
from typing import IO, Self

from rqps.errors import RqpsError

MOST_BYTES = 12_000_000_000
MOST_MEMBERS = 200_000
LONGEST_TARGET, LONGEST_HEADER = 4096, 1 << 20
CHUNK_BYTES = 1 << 20

Wanted = Callable[[PurePosixPath], bool]
Open = Callable[[], IO[bytes] | None]
FETCH_AGAIN = "fetch it again; if it stays so, get the archive from somewhere else"


def sha256(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digest(archive: Path, expected: str) -> None:
    if (found := sha256(archive)) != expected:
        raise RqpsError(
            f"{archive.name}: its sha256 is {found}, not {expected} as promised",
            fix="fetch it again; if it stays so, it is not the promised archive: don't use it, or correct sha256",
        )


def unpack(
    archive: Path, folder: Path, wanted: Wanted = lambda _: True, reach: Callable[[int], None] = lambda _: None
) -> None:
    """Unpack what is `wanted` of a tarball or zip into `folder`. `reach` gets the number of bytes written."""
    try:
        _unpack(archive, folder, wanted, reach)
    except FilterError as error:
        raise RqpsError(
            f"{archive.name}: not unpacked: {error}", fix="get the archive from somewhere you trust"
        ) from error
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk; gzip and bz2 give none
            raise
        raise RqpsError(f"{archive.name}: cut off or damaged: {error}", fix=FETCH_AGAIN) from error
    except NotImplementedError as error:
        raise RqpsError(f"{archive.name}: {error}", fix="pack it as .tar.gz, .tar.xz or a plain .zip") from error


def _unpack(archive: Path, folder: Path, wanted: Wanted, reach: Callable[[int], None]) -> None:
    declared = written = 0
    links: list[tuple[TarInfo, PurePosixPath]] = []
    for count, (member, content) in enumerate(_members(archive), start=1):
        place = PurePosixPath(member.name)
        declared += member.size
        if declared > MOST_BYTES or count > MOST_MEMBERS:
            raise FilterError(f"unpacks to more than {MOST_BYTES / 1e9:.0f} GB or {MOST_MEMBERS} files")
        if place.is_absolute() or ".." in place.parts or "\0" in member.name + member.linkname:
            raise FilterError(f"{member.name!r} points outside its folder")
        if not place.parts or not wanted(place):
            continue
        tarfile.data_filter(member, str(folder))
        if member.isdir():
            _make_folder(folder, place)
        elif member.isreg():
            written += _write(folder, place, member, content)
            reach(written)
        else:
            links.append((member, place))
    _link(folder, links)


def _members(archive: Path) -> Iterator[tuple[TarInfo, Open]]:
    try:
        tarball = tarfile.open(archive, tarinfo=_StrictHeader)  # noqa: SIM115 closed below
    except ReadError:
        if not zipfile.is_zipfile(archive):
            raise RqpsError(f"{archive.name}: neither a tarball nor a zip, or cut off", fix=FETCH_AGAIN) from None
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                yield _as_in_a_tarball(packed, info), partial(packed.open, info)
        return
    with tarball:
        for entry in tarball:
            yield entry, partial(tarball.extractfile, entry)


_HEADERS = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
_HEADERS |= {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE}
_SPARSE = "is packed with its holes left out, as tar --sparse does it"


class _StrictHeader(TarInfo):
    """Only the end mark ends a tarball. Left alone, tarfile takes a damaged or missing header for the end, and reads
    into memory whatever a few bytes unpack to, as a name or as the holes of a file."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.size > LONGEST_HEADER and header.type in _HEADERS:
            raise FilterError(f"it has a name or header of {header.size:,} bytes")
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise NotImplementedError(f"{header.name} {_SPARSE}")
        return header

    def _proc_gnusparse_10(self, *_: object) -> None:
        raise NotImplementedError(f"{self.name} {_SPARSE}")

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if str(error) == "end of file header":  # its class has no public name
                raise
            raise ReadError(f"in place of a header or the end mark: {error}") from error


def _as_in_a_tarball(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> TarInfo:
    if info.flag_bits & 1:
        raise FilterError(f"{info.filename} is encrypted")
    member, kind = TarInfo(info.filename), stat.S_IFMT(info.external_attr >> 16)
    if info.is_dir():
        member.type = tarfile.DIRTYPE
    elif kind == stat.S_IFLNK:
        if info.file_size > LONGEST_TARGET:
            raise FilterError(f"{info.filename} is a link to a name of {info.file_size} bytes")
        member.type, member.linkname = tarfile.SYMTYPE, os.fsdecode(packed.read(info))
    elif kind in (0, stat.S_IFREG):
        member.size = info.file_size
    else:
        member.type = tarfile.CHRTYPE
    return member


def _make_folder(root: Path, place: PurePosixPath) -> Path:
    try:
        (root / place).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FilterError(f"{place} is both a file and a folder") from error
    return root / place


def _write(root: Path, place: PurePosixPath, member: TarInfo, opened: Open) -> int:
    target = _make_folder(root, place.parent) / place.name
    try:
        out = target.open("xb")
    except (FileExistsError, IsADirectoryError) as error:
        raise FilterError(f"{place} is in it more than once") from error
    content = opened()
    assert content is not None
    with out, content:
        shutil.copyfileobj(content, out, CHUNK_BYTES)
        if (written := out.tell()) != member.size:
            raise ReadError(f"{place} ends after {written} of {member.size} bytes")
    # Zips made by Maven lose the run bits, so the content decides: programs, libraries and scripts get them.
    with target.open("rb") as file:
        head = file.read(4)
    target.chmod(0o755 if head == b"\x7fELF" or head[:2] == b"#!" else 0o644)
    return written


def _link(root: Path, links: list[tuple[TarInfo, PurePosixPath]]) -> None:
    """Make the links, now that all files are there. No folder is made after the first link, so none through one."""
    for _, place in links:
        _make_folder(root, place.parent)
    for member, place in sorted(links, key=lambda link: link[0].issym()):  # hard links, then symlinks
        if (root / place).is_symlink() or (root / place).exists():
            raise FilterError(f"{place} is in it more than once")
        if member.issym():
            (root / place).symlink_to(member.linkname)
        elif (root / member.linkname).is_file():
            (root / place).hardlink_to(root / member.linkname)
        else:
            raise FilterError(f"{place} is a hard link to {member.linkname}, which is not a file in it")
    real_root = root.resolve()
    for member, place in links:  # only the real file system knows where a chain of links goes
        try:
            end = (root / place).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop, up to Python 3.12
            raise FilterError(f"{place} is a link to nowhere: {member.linkname}") from error
        if not end.is_relative_to(real_root):
            raise FilterError(f"{place} is a link to {member.linkname}, outside its folder")
