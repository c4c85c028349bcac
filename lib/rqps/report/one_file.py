"""Writes a report as one file: the first page, which contains the other pages and the data in packed form, and a
script that unpacks and opens them."""

import base64
import gzip
import re
import zlib
from pathlib import Path
from urllib.parse import unquote

from rqps.errors import RqpsError
from rqps.report.render import asset, vega, write_page
from rqps.store.packed import SUFFIX

_PICTURE = re.compile(r'(<div class="chart"[^>]*>\s*)<img [^>]*>')
_FLAME = re.compile(r'(<img alt="Flame graph\.[^"]*") src="[^"]*"')
_LINK = re.compile(r'<a\b[^>]*?\bhref="([^"#]+)[^"]*"[^>]*>(.*?)</a>', re.DOTALL)
_OF_ANOTHER = re.compile(r'<li><a href="\.\./[^"]*">.*?</a></li>\n')
"""Matches an entry of the contents that leads to a page outside of the report."""
_PACKED = re.compile(r'<script type="text/plain" data-file="([^"/]+)">([^<]*)</script>\n')
_BUNDLE = "vega"
MOST_TIMES = 200
"""Maximum factor by which a packed page may grow when it is unpacked; the usual factor is ten. A file that grows more
is refused: it could fill the memory."""
_CLOSED = (
    '<noscript><p class="wide nothing">This report is one file, whose other pages need scripts to open. '
    "Scripts are off here.</p></noscript>"
)


def one_file(folder: Path) -> Path:
    """Write STUDY.html beside a report's folder. To keep the file small, it omits the pages of runs, and the images
    that replace charts if scripts are off."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.html"))}
    data = {path.name: path.read_bytes() for path in folder.glob(f"*{SUFFIX}")}
    names = pages.keys() | data.keys()

    def linked(link: re.Match[str]) -> str:
        return link[0] if "://" in link[1] or unquote(link[1]) in names else link[2]

    pages = {name: _LINK.sub(linked, _OF_ANOTHER.sub("", _slim(page))) for name, page in pages.items()}
    before, body, after = pages.pop("index.html").partition("<body>")
    after, end, rest = after.rpartition("</body>")
    files = data | {name: text.encode() for name, text in {**pages, _BUNDLE: vega()}.items()}
    packed = {name: base64.b64encode(gzip.compress(file, mtime=0)).decode() for name, file in files.items()}
    scripts = [f'<script type="text/plain" data-file="{name}">{text}</script>\n' for name, text in packed.items()]
    scripts.append(f"<script>{asset('one_file.js')}</script>\n")
    page = "".join([before, body, _CLOSED, after, *scripts, end, rest])
    return write_page(folder.with_name(f"{folder.name}.html"), page)


def unpacked(file: Path) -> dict[str, bytes]:
    """Maps the names of the pages and data in a report of one file to their content."""
    try:
        text = file.read_text(encoding="utf-8")
        pages = {name: _unzipped(base64.b64decode(packed)) for name, packed in _PACKED.findall(text)}
    except (ValueError, zlib.error) as error:
        raise RqpsError(f"{file}: can't be read as a report: {error}", fix="get the file again") from error
    pages.pop(_BUNDLE, None)
    return {"index.html": _PACKED.sub("", text).encode(), **pages}


def _unzipped(packed: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    page = stream.decompress(packed, MOST_TIMES * len(packed))
    if not stream.eof:
        raise ValueError("a page is cut off, or unpacks to far more than usual")
    return page


def _slim(page: str) -> str:
    for picture in (_PICTURE, _FLAME):
        page = picture.sub(r"\1", page)
    return page.replace(f"<script>{vega()}</script>", f"<script>/*{_BUNDLE}*/</script>")
