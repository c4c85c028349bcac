"""Is the report of a big study light enough to send? 47 steps by 10 builds as one file: its size, with the data and
without, and the seconds that a browser takes to open it, and its longest page until every chart is drawn.

Goals: 5 MB without the data, and open in 2 s.
"""

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # where the browser without a window is

from browser import Browser, opened  # noqa: E402
from rqps.report import build, one_file  # noqa: E402
from synthetic import shape_of_many, write_study  # noqa: E402

PAGE, WIDTH_PX = "relative_throughput.html", 1280
OPENED = "performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"
FRAME = "document.querySelector('iframe')?.contentDocument"
DRAWN = f"""
(async () => {{
  const start = performance.now();
  document.querySelector('main a[href="{PAGE}"]').click();
  while (!{FRAME}?.documentElement?.dataset.charts) await new Promise(requestAnimationFrame);
  return (performance.now() - start) / 1000;
}})()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--opens", type=int, default=5)
    asked = parser.parse_args()
    shape = replace(shape_of_many(), rounds=asked.rounds)
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as place, Browser() as browser:
        data = write_study(Path(place), shape)
        print(f"{len(shape.steps)} steps, {len(shape.dbms)} builds, {shape.rounds} rounds")
        for with_data in (True, False):
            index = build("synthetic", data, with_data=with_data)
            file = one_file(index.parent)
            size_mb = file.stat().st_size / 1e6
            print(f"one file {'with' if with_data else 'without'} the data: {size_mb:.1f} MB")
        loaded, drawn = [], []
        for _ in range(asked.opens):
            with opened(browser, file, WIDTH_PX) as tab:
                loaded.append(tab.run(OPENED))
                drawn.append(tab.run(DRAWN))
        for what, seconds in (("opened", loaded), (f"{PAGE} drawn, after a click", drawn)):
            print(f"{what}: median {median(seconds):.2f} s, longest {max(seconds):.2f} s of {asked.opens}")


main()
