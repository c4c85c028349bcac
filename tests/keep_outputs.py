"""Keep what the samples show, after one was measured anew or pages changed: notebooks as they ran, and pictures.

python tests/keep_outputs.py                                                # everything
python tests/keep_outputs.py notebooks/analysis/relative_throughput.ipynb
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from browser import Browser, opened
from nbclient import NotebookClient
from rqps.report import build

ROOT = Path(__file__).parent.parent
PICTURED = "releases"
"""The study whose first page is the README's picture."""
WIDTH_PX, HEIGHT_PX = 960, 1100


def keep(notebook: Path) -> None:
    """Runs a notebook, and keeps its outputs."""
    content = nbformat.read(notebook, as_version=4)
    NotebookClient(content, kernel_name="python3", timeout=300).execute()
    for cell in content.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code" and not cell.outputs:
            cell.execution_count = None
    content.metadata.language_info = {"name": "python"}
    nbformat.write(content, notebook)


def keep_pictures(data: Path) -> None:
    """Takes the picture of a report's first page, and draws that of a duet."""
    index = build(PICTURED, data, data / "report")
    with Browser() as browser, opened(browser, index, WIDTH_PX) as tab:
        tab.screenshot(ROOT / "docs/demo-page.png", HEIGHT_PX)
    subprocess.run([sys.executable, ROOT / "benchmarks/verdicts", "picture", "--study", PICTURED], check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sample").symlink_to(ROOT / "data/sample")  # and nothing that was measured here
        os.environ["RQPS_DATA"] = folder
        named = [Path(each) for each in sys.argv[1:]]
        every = (*ROOT.glob("notebooks/analysis/*.ipynb"), *ROOT.glob("notebooks/investigate/*.ipynb"))
        for each in named or every:
            keep(each)
        if not named:
            keep_pictures(Path(folder))
