"""speedscope itself, from its npm package: the app that its users open, and the schema of its file format."""

import base64
import tarfile
from pathlib import Path

from rqps.engines.cache import cache_dir, made_once
from rqps.engines.sources.clients import find_client, run_client

PACKAGE = "speedscope@1.25.0"


def app() -> Path:
    """The folder with index.html and file-format-schema.json; fetched once."""
    folder = made_once(cache_dir() / "npm" / PACKAGE.replace("@", "-"), _fetch)
    return folder / "package/dist/release"


def _fetch(folder: Path) -> None:
    npm = find_client("npm", "install npm (Debian and Ubuntu: apt install npm)")
    work = folder / "work"
    work.mkdir()
    run_client([npm, "pack", PACKAGE, "--cache", str(work / "cache"), "--fetch-retries=1", "--ignore-scripts"], work)
    (archive,) = work.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


def opening(profile: Path, folder: Path) -> str:
    """What makes the app open the profile, in the way of speedscope's own command: the end of its address."""
    text = base64.b64encode(profile.read_bytes()).decode()
    loader = folder / "profile.js"
    loader.write_text(f'speedscope.loadFileFromBase64("{profile.name}", "{text}")')
    return f"#localProfilePath={loader.resolve()}"
