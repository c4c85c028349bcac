"""Archives that others packed: what is wanted comes out whole, and nothing is ever written outside the folder."""

import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from rqps.engines.sources import archives
from rqps.engines.sources.archives import unpack
from rqps.errors import RqpsError

ELF = b"\x7fELF" + bytes(60)
SCRIPT = b"#!/bin/sh\n"


def tarball(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w" if path.suffix == ".tar" else f"w:{path.suffix[1:]}") as packed:  # type: ignore[call-overload]
        for info, content in members:
            packed.addfile(info, io.BytesIO(content))
    return path


def regular(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return special(name, tarfile.SYMTYPE, target)


def hardlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return special(name, tarfile.LNKTYPE, target)


def everything_below(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    results: dict[str, tuple[int, bytes | str]] = {}
    for path in folder.rglob("*"):
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        results[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return results


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder for archives, beside a file that no archive may touch."""
    (tmp_path / "precious").write_text("untouched")
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.xz"])
def test_a_tarball_comes_out_as_it_went_in(tmp_path: Path, here: Path, suffix: str) -> None:
    packed = tarball(
        tmp_path / f"mysql{suffix}",
        regular("mysql/bin/mysqld", ELF),
        regular("mysql/share/errmsg.sys", b"words"),
        symlink("mysql/lib/libssl.so", "libssl.so.3"),
        regular("mysql/lib/libssl.so.3", ELF),
        hardlink("mysql/bin/mysqld_safe", "mysql/bin/mysqld"),
    )
    unpack(packed, here)
    assert (here / "mysql/bin/mysqld").read_bytes() == ELF
    assert (here / "mysql/lib/libssl.so").read_bytes() == ELF
    assert (here / "mysql/share/errmsg.sys").read_bytes() == b"words"
    assert (here / "mysql/bin/mysqld_safe").samefile(here / "mysql/bin/mysqld")


def test_only_what_is_wanted_is_unpacked(tmp_path: Path, here: Path) -> None:
    packed = tarball(tmp_path / "a.tar", regular("bin/mysqld"), regular("mysql-test/t/x.test"), symlink("a", "b"))
    unpack(packed, here, lambda place: place.parts[0] == "bin")
    assert set(everything_below(here)) == {"bin", "bin/mysqld"}


def test_programs_and_scripts_get_the_run_bits_that_a_zip_lost(tmp_path: Path, here: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        for name, content in {"bin/mysqld": ELF, "scripts/install": SCRIPT, "share/errmsg.sys": b"words"}.items():
            packed.writestr(zipfile.ZipInfo(name), content)  # no mode at all, as Maven's zips may have it
    unpack(tmp_path / "a.zip", here)
    runs = {name: bool(mode & 0o111) for name, (mode, _) in everything_below(here).items() if stat.S_ISREG(mode)}
    assert runs == {"bin/mysqld": True, "scripts/install": True, "share/errmsg.sys": False}


def test_set_user_id_bits_are_not_taken_over(tmp_path: Path, here: Path) -> None:
    info, content = regular("bin/mysqld", ELF)
    info.mode = 0o6777
    unpack(tarball(tmp_path / "a.tar", (info, content)), here)
    assert stat.S_IMODE((here / "bin/mysqld").stat().st_mode) == 0o755


HOSTILE: dict[str, tuple[list[tuple[tarfile.TarInfo, bytes]], str]] = {
    "absolute name": ([regular("/tmp/rqps-was-here")], "outside"),
    "name that climbs": ([regular("bin/../../precious")], "outside"),
    "name that only climbs": ([special("..", tarfile.DIRTYPE)], "outside"),
    "symlink to an absolute place": ([symlink("a", "/etc")], "absolute path"),
    "symlink that climbs": ([symlink("bin/a", "../../precious")], "outside"),
    "symlinks that climb together": (
        [special("a/b", tarfile.DIRTYPE), symlink("a/b/up", "../.."), symlink("out", "a/b/up/../precious")],
        "outside",
    ),
    "file through a symlink": ([symlink("a", ".."), regular("a/precious", b"overwritten")], "outside"),
    "file in place of a symlink": ([symlink("a", "../precious"), regular("a", b"overwritten")], "outside"),
    "folder through a symlink": ([symlink("a", ".."), special("a/b/c", tarfile.DIRTYPE)], "outside"),
    "symlink through a symlink": ([symlink("a", ".."), symlink("a/b/c", "x")], "outside"),
    "file in place of a symlink inside": ([symlink("a", "b"), regular("a", b"1")], "more than once"),
    "file through a symlink inside": ([symlink("a", "b"), regular("b/c"), regular("a/c")], "more than once"),
    "symlink in a loop": ([symlink("a", "b"), symlink("b", "a")], "a"),
    "hard link to outside": ([hardlink("a", "../precious")], "outside"),
    "hard link to an absolute place": ([hardlink("a", "/etc/passwd")], "absolute path"),
    "hard link through a symlink": ([symlink("a", "bin"), regular("bin/b"), hardlink("b", "a")], "hard link"),
    "hard link to nothing": ([hardlink("a", "nothing")], "hard link"),
    "device": ([special("null", tarfile.CHRTYPE)], "special file"),
    "block device": ([special("disk", tarfile.BLKTYPE)], "special file"),
    "pipe": ([special("pipe", tarfile.FIFOTYPE)], "special file"),
    "the same file twice": ([regular("a", b"1"), regular("a", b"2")], "more than once"),
    "the same file twice, spelt differently": ([regular("a", b"1"), regular("./a", b"2")], "more than once"),
    "a file that is also a folder": ([regular("a"), regular("a/b")], "both"),
    "a folder that is also a file": ([regular("a/b"), regular("a")], "more than once"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_tarball_is_refused_and_writes_nothing_outside(tmp_path: Path, here: Path, kind: str) -> None:
    members, reason = HOSTILE[kind]
    packed = tarball(tmp_path / "a.tar", *members)
    outside = {name: what for name, what in everything_below(tmp_path).items() if not name.startswith("tree")}
    with pytest.raises(RqpsError, match=reason):
        unpack(packed, here)
    assert {n: w for n, w in everything_below(tmp_path).items() if not n.startswith("tree")} == outside
    assert not Path("/tmp/rqps-was-here").exists()


def test_what_is_not_wanted_is_refused_too_when_it_is_hostile(tmp_path: Path, here: Path) -> None:
    with pytest.raises(RqpsError, match="outside"):
        unpack(tarball(tmp_path / "a.tar", regular("../a")), here, lambda _: False)


def zipped(path: Path, name: str, content: bytes = b"x", mode: int = 0) -> Path:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(info, content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "mode"),
    [
        ("/tmp/rqps-was-here", b"x", 0),
        ("../precious", b"overwritten", 0),
        ("bin/../../precious", b"overwritten", 0),
        ("a", b"../precious", stat.S_IFLNK | 0o777),
        ("a", b"/etc/passwd", stat.S_IFLNK | 0o777),
        ("a", b"x" * 5000, stat.S_IFLNK | 0o777),
        ("a", b"", stat.S_IFCHR | 0o666),
    ],
)
def test_a_hostile_zip_is_refused(tmp_path: Path, here: Path, name: str, content: bytes, mode: int) -> None:
    packed = zipped(tmp_path / "a.zip", name, content, mode)
    with pytest.raises(RqpsError, match="not unpacked"):
        unpack(packed, here)
    assert (tmp_path / "precious").read_text() == "untouched"


def test_a_zip_that_holds_more_than_it_says_is_refused(tmp_path: Path, here: Path) -> None:
    packed = zipped(tmp_path / "a.zip", "bomb", bytes(5_000_000))
    raw = bytearray(packed.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", raw, raw.index(mark) + offset, 10)
    packed.write_bytes(raw)
    with pytest.raises(RqpsError, match="damaged"):
        unpack(packed, here)
    assert sum(path.stat().st_size for path in here.iterdir()) <= 10


def test_a_zip_without_its_begin_is_refused(tmp_path: Path, here: Path) -> None:
    packed = zipped(tmp_path / "a.zip", "bin/mysqld", ELF)
    packed.write_bytes(packed.read_bytes()[20:])
    with pytest.raises(RqpsError, match="cut off or damaged"):
        unpack(packed, here)


def test_an_encrypted_zip_is_refused(tmp_path: Path, here: Path) -> None:
    packed = zipped(tmp_path / "a.zip", "bin/mysqld", ELF)
    raw = bytearray(packed.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    packed.write_bytes(raw)
    with pytest.raises(RqpsError, match="encrypted"):
        unpack(packed, here)


@pytest.mark.parametrize(
    "pack",
    [lambda p: zipped(p / "a.zip", "a", bytes(2000)), lambda p: tarball(p / "a.tar.gz", regular("a", bytes(2000)))],
)
def test_a_bomb_is_refused_before_it_is_written(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[Path], Path]
) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 1999)
    with pytest.raises(RqpsError, match="unpacks to more"):
        unpack(pack(tmp_path), here)
    assert everything_below(here) == {}


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.xz"])
@pytest.mark.parametrize("members", [1, 30])
def test_a_tarball_that_becomes_far_more_than_was_read_of_it_is_refused_by_then(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch, members: int, suffix: str
) -> None:
    monkeypatch.setattr(archives, "ALWAYS_BYTES", 300_000)
    monkeypatch.setattr(archives, "CHUNK_BYTES", 10_000)
    nothing = [regular(str(number), bytes(3_000_000 // members)) for number in range(members)]
    packed = tarball(tmp_path / f"a{suffix}", *nothing, regular("b", os.urandom(200_000)))
    with pytest.raises(RqpsError, match="unpacks to more than"):
        unpack(packed, here)
    # What a few of its blocks of 8 KB may become, and never all that the whole would be allowed.
    assert sum(path.stat().st_size for path in here.iterdir()) < 2_000_000
    assert 50 * packed.stat().st_size > 10_000_000


def test_one_that_is_large_itself_may_become_as_much(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "ALWAYS_BYTES", 0)
    monkeypatch.setattr(archives, "MEMBER_BYTES", 0)
    unpack(tarball(tmp_path / "a.tar.gz", *(regular(str(number), os.urandom(9_000)) for number in range(9))), here)
    assert len(everything_below(here)) == 9


def test_what_a_zip_lists_is_refused_before_any_of_it_is_written(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "ALWAYS_BYTES", 1_000_000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for number in range(20):
            packed.writestr(str(number), bytes(100_000))
    with pytest.raises(RqpsError, match="unpacks to more than 1 MB"):
        unpack(tmp_path / "a.zip", here)
    assert everything_below(here) == {}
    monkeypatch.setattr(archives, "ALWAYS_BYTES", 3_000_000)
    monkeypatch.setattr(archives, "LONGEST_LIST", 500)
    with pytest.raises(RqpsError, match="central directory"):
        unpack(tmp_path / "a.zip", here)


def test_many_headers_in_a_few_bytes_are_refused(tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ALWAYS_BYTES", 3_000_000)
    with pytest.raises(RqpsError, match="unpacks to more than 3 MB"):
        unpack(tarball(tmp_path / "a.tar.gz", *(regular(f"{number:03}", b"") for number in range(500))), here)
    assert 50 < len(everything_below(here)) < 400
    nested, _ = special("a", tarfile.GNUTYPE_LONGNAME)
    (tmp_path / "a.tar").write_bytes(nested.tobuf() * 2000)
    with pytest.raises(RqpsError, match="not unpacked: maximum recursion depth"):
        unpack(tmp_path / "a.tar", here)


def test_a_zip_whose_members_are_unpacked_at_once_is_refused(tmp_path: Path, here: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_BZIP2) as packed:
        packed.writestr("bin/mysqld", bytes(100_000))
    with pytest.raises(RqpsError, match="not packed by deflate") as caught:
        unpack(tmp_path / "a.zip", here)
    assert "a plain .zip" in caught.value.fix


def test_a_sparse_bomb_is_refused_by_what_it_declares(tmp_path: Path, here: Path) -> None:
    info = tarfile.TarInfo("a")
    info.size = 1 << 50
    (tmp_path / "a.tar").write_bytes(info.tobuf() + bytes(2048))
    with pytest.raises(RqpsError, match="unpacks to more"):
        unpack(tmp_path / "a.tar", here)


def sparse(header: dict[str, str], content: bytes = b"") -> tuple[tarfile.TarInfo, bytes]:
    info, _ = regular("a", content)
    info.pax_headers = {f"GNU.sparse.{name}": value for name, value in header.items()}
    return info, content


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (special("a", tarfile.GNUTYPE_SPARSE), "holes"),
        (sparse({"major": "1", "minor": "0", "realsize": "9"}, b"9999999\n" + b"0\n" * 100_000), "holes"),
        (sparse({"map": f"0,{'9' * 5000}"}), "damaged"),
    ],
)
def test_a_map_of_holes_is_refused_before_it_is_read(
    member: tuple[tarfile.TarInfo, bytes], reason: str, tmp_path: Path, here: Path
) -> None:
    with pytest.raises(RqpsError, match=reason):
        unpack(tarball(tmp_path / "a.tar", member), here)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_name_that_takes_all_memory_is_refused(kind: bytes, tmp_path: Path, here: Path) -> None:
    info = tarfile.TarInfo("a")
    info.type, info.size = kind, 1 << 32
    (tmp_path / "a.tar").write_bytes(info.tobuf() + bytes(2048))
    with pytest.raises(RqpsError, match="a name or header of 4,294,967,296 bytes"):
        unpack(tmp_path / "a.tar", here)


def test_too_many_files_are_refused(tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    with pytest.raises(RqpsError, match="3 files"):
        unpack(tarball(tmp_path / "a.tar", *(regular(name) for name in "abcd")), here)


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.xz", ".zip"])
def test_an_archive_cut_off_anywhere_is_an_error_or_whole(tmp_path: Path, suffix: str) -> None:
    contents = {"bin/mysqld": ELF + os.urandom(3000), "share/errmsg.sys": b"words" * 300}
    complete = tmp_path / f"a{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(complete, "w") as packed:
            for name, content in contents.items():
                packed.writestr(name, content)
    else:
        tarball(complete, *(regular(name, content) for name, content in contents.items()))
    raw, errors = complete.read_bytes(), list[str]()
    cuts = range(0, len(raw), 97)
    for cut in cuts:
        (tmp_path / "cut").write_bytes(raw[:cut])
        (tree := tmp_path / f"tree{cut}").mkdir()
        try:
            unpack(tmp_path / "cut", tree)
        except RqpsError as error:
            errors.append(str(error))
        else:
            assert {name: (tree / name).read_bytes() for name in contents} == contents
    assert all("cut off" in error for error in errors)
    # Only the padding after a tarball's end mark may be missing.
    assert len(errors) >= len(cuts) / 3


def test_a_damaged_header_in_the_middle_is_an_error(tmp_path: Path, here: Path) -> None:
    packed = tarball(tmp_path / "a.tar", regular("a", bytes(512)), regular("b", bytes(512)))
    raw = bytearray(packed.read_bytes())
    raw[1024:1100] = b"\xff" * 76
    packed.write_bytes(raw)
    with pytest.raises(RqpsError, match="end mark"):
        unpack(packed, here)


@pytest.mark.parametrize(
    "content", [b"", b"not an archive", gzip.compress(b"no tar in it", mtime=0), lzma.compress(b"nor in this")]
)
def test_what_is_no_archive_is_an_error(tmp_path: Path, here: Path, content: bytes) -> None:
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(RqpsError, match="neither a tarball nor a zip"):
        unpack(tmp_path / "a.tar.gz", here)


def test_progress_hears_how_many_bytes_are_written(tmp_path: Path, here: Path) -> None:
    reached: list[int] = []
    unpack(tarball(tmp_path / "a.tar", regular("a", bytes(10)), regular("b", bytes(5))), here, reach=reached.append)
    assert reached == [10, 15]
