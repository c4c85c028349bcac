"""Unpacks tarballs and zips that somebody else packed: only the wanted files, and never outside the folder.

tarfile's data filter checks every entry, but it turns an absolute name into a relative one, lets a later entry
overwrite an earlier one, and before Python 3.11.13 and 3.12.11 chains of links get past it. So this module makes
folders and files first and links last, and checks the links on the real file system. If `unpack` raises an error, the
caller has to remove the folder.
"""

import errno
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from tarfile import FilterError, HeaderError, ReadError, TarInfo
from typing import IO, BinaryIO, ClassVar, Self

from rqps.engines.cache import sha256
from rqps.errors import RqpsError
from rqps.numbers import megabytes

MOST_BYTES = 12_000_000_000
MOST_MEMBERS = 100_000
ALWAYS_BYTES, TIMES_READ = 64_000_000, 50
"""Maximum size of the unpacked files: the first number, plus the second number times the bytes of the archive that
were read so far."""
MEMBER_BYTES, HEADER_TIMES = 32_768, 32
"""An archive of many empty members or long headers unpacks to few bytes, but takes long to read. So the limit above
also counts MEMBER_BYTES for each member (in a tarball: each header), and HEADER_TIMES bytes for each byte of a long
header."""
LATEST_TIME = 1 << 32
LONGEST_TARGET, LONGEST_HEADER, LONGEST_LIST = 4096, 1 << 16, 1 << 23
CHUNK_BYTES = 1 << 20

Wanted = Callable[[PurePosixPath], bool]
FETCH_AGAIN = "fetch the archive again; if it is still damaged, get it from somewhere else"


def check_digest(archive: Path, expected: str) -> None:
    if (digest := sha256(archive)) != expected:
        raise RqpsError(
            f"{archive.name}: its sha256 is {digest}, not {expected}",
            fix="fetch the archive again; if its sha256 is still another, don't use it, or correct sha256",
        )


def unpack(
    archive: Path, folder: Path, wanted: Wanted = lambda _: True, reach: Callable[[int], None] = lambda _: None
) -> None:
    """Unpacks the `wanted` files of a tarball or zip into `folder`. `reach` gets the number of bytes written."""
    try:
        _unpack(archive, folder, wanted, reach)
    except (FilterError, RecursionError) as error:  # tarfile calls itself once for each long header
        raise RqpsError(
            f"{archive.name}: not unpacked: {error}", fix="get the archive from somewhere you trust"
        ) from error
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
        # Damage has no error number (gzip, bz2) or EINVAL (a zip with a wrong offset); other numbers are disk errors.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise RqpsError(f"{archive.name}: cut off or damaged: {error}", fix=FETCH_AGAIN) from error
    except NotImplementedError as error:
        raise RqpsError(f"{archive.name}: {error}", fix="pack it as .tar.gz, .tar.xz or a plain .zip") from error


def _unpack(archive: Path, folder: Path, wanted: Wanted, reach: Callable[[int], None]) -> None:
    written = 0
    links: list[tuple[TarInfo, PurePosixPath]] = []
    with archive.open("rb") as packed:
        for count, (member, content) in enumerate(_members(packed), start=1):
            place = PurePosixPath(member.name)
            if count > MOST_MEMBERS:
                raise FilterError(f"has more than {MOST_MEMBERS} files")
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


def _members(packed: BinaryIO) -> Iterator[tuple[TarInfo, Iterator[bytes]]]:
    room = _Room(packed)
    try:
        header = type("Header", (_StrictHeader,), {"room": room})
        tarball = tarfile.open(fileobj=packed, tarinfo=header)  # noqa: SIM115 closed below
    except ReadError:
        yield from _members_of_zip(packed, room)
        return
    with tarball:
        for entry in tarball:
            room.take(entry.size)
            yield entry, _chunks(partial(tarball.extractfile, entry), room.fill)


def _members_of_zip(packed: BinaryIO, room: "_Room") -> Iterator[tuple[TarInfo, Iterator[bytes]]]:
    if not zipfile.is_zipfile(packed):
        raise ReadError("neither a tarball nor a zip")
    packed.seek(max(0, room.size - LONGEST_LIST))
    zipfile.ZipFile(io.BytesIO(packed.read())).close()  # fails if its list of members is longer than LONGEST_LIST
    with zipfile.ZipFile(packed) as unpacked:
        for info in unpacked.infolist():
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others need much memory
                raise NotImplementedError(f"{info.filename} is not packed by deflate")
            room.take(MEMBER_BYTES + info.file_size)
        for info in unpacked.infolist():
            yield _as_in_a_tarball(unpacked, info), _chunks(partial(unpacked.open, info))


def _chunks(opened: Callable[[], IO[bytes] | None], fill: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    content = opened()
    assert content is not None
    with content:
        while chunk := content.read(CHUNK_BYTES):
            fill(len(chunk))
            yield chunk


class _Room:
    """Limits the size of the unpacked files by the size of the archive, and by the number of archive bytes read so
    far."""

    def __init__(self, packed: BinaryIO) -> None:
        self.size = os.fstat(packed.fileno()).st_size
        self._packed, self._taken, self._filled = packed, 0, 0

    def take(self, more: int) -> None:
        """Reserves room for the next member. Raises an error if the members unpacked so far are too large for the
        compressed bytes read."""
        if more < 0:
            raise FilterError(f"has a member of {more} bytes")
        self._filled = self._taken
        self.fill(0)
        self._taken += more
        self._refuse(self._taken, self.size)

    def fill(self, more: int) -> None:
        self._filled += more
        self._refuse(self._filled, self._packed.tell())

    def _refuse(self, unpacked: int, read: int) -> None:
        if unpacked > (most := min(MOST_BYTES, ALWAYS_BYTES + TIMES_READ * read)):
            raise FilterError(f"unpacks to more than {megabytes(most)}, too much for {megabytes(self.size)}")


_HEADERS = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
_HEADERS |= {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE}
_SPARSE = "is packed with its holes left out, as tar --sparse does it"


class _StrictHeader(TarInfo):
    """The header of a member. Without this class, tarfile takes a damaged or missing header for the end of the
    tarball, and reads names and lists of holes into memory however large they are. Here only the end mark ends a
    tarball, and long headers are refused."""

    room: ClassVar[_Room]

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        is_long = header.type in _HEADERS
        if header.size > LONGEST_HEADER and is_long:
            raise FilterError(f"it has a name or header of {header.size:,} bytes")
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise NotImplementedError(f"{header.name} {_SPARSE}")
        cls.room.take(MEMBER_BYTES + is_long * HEADER_TIMES * header.size)
        return header

    def _proc_gnusparse_10(self, *_: object) -> None:
        raise NotImplementedError(f"{self.name} {_SPARSE}")

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if str(error) == "end of file header":  # the class of this error has no public name
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
        member.type, member.linkname = tarfile.SYMTYPE, os.fsdecode(packed.open(info).read(LONGEST_TARGET))
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


def _write(root: Path, place: PurePosixPath, member: TarInfo, content: Iterator[bytes]) -> int:
    target = _make_folder(root, place.parent) / place.name
    try:
        out = target.open("xb")
    except (FileExistsError, IsADirectoryError) as error:
        raise FilterError(f"{place} is in it more than once") from error
    with out:
        out.writelines(content)
        if (written := out.tell()) != member.size:
            raise ReadError(f"{place} ends after {written} of {member.size} bytes")
    # Zips made by Maven lose the execute bits, so files get them by content: programs, libraries and scripts.
    with target.open("rb") as file:
        head = file.read(4)
    target.chmod(0o755 if head == b"\x7fELF" or head[:2] == b"#!" else 0o644)
    # Files keep their times: make would run generators again if generated files were not newer than their sources.
    if 0 < member.mtime < LATEST_TIME:
        os.utime(target, (member.mtime, member.mtime))
    return written


def _link(root: Path, links: list[tuple[TarInfo, PurePosixPath]]) -> None:
    """Makes the links after all files. All folders are made before the first link, so that no folder is made through
    a link."""
    for _, place in links:
        _make_folder(root, place.parent)
    # Hard links are made before symlinks, so that no hard link is made through a symlink.
    for member, place in sorted(links, key=lambda link: link[0].issym()):
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
        except (OSError, RuntimeError) as error:  # up to Python 3.12, a loop of links is a RuntimeError
            raise FilterError(f"{place} is a link to nowhere: {member.linkname}") from error
        if not end.is_relative_to(real_root):
            raise FilterError(f"{place} is a link to {member.linkname}, outside its folder")
