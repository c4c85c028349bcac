"""Size and speed of flame graphs as large as a real server's: one, and ten on one page, in a browser.

Goals, for 13,000 stacks: a page of one in at most 400 KB compressed, and a click answered in less than 100 ms, until
what it changed is on the screen, also where ten are on the page.
"""

import argparse
import gzip
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # where the browser without a window is, and the made-up stacks

from browser import Browser, Tab, opened  # noqa: E402
from rqps.show.flame import Drawing, flame_graph, script_element  # noqa: E402
from synthetic_tree import large_stacks, tree_of  # noqa: E402

WIDTH_PX = 1280
PAGE = "<!doctype html><meta charset=utf-8><body style='margin:24px;width:880px'>{}{}"

# What a click does until the next picture is on the screen: two frames, since the first one is only being made.
CLICKS = """
(async () => {
  const graph = document.querySelectorAll('.rqps-flame')[%d].querySelector('div').shadowRoot;
  const canvas = graph.querySelector('canvas'), took = [], drew = [];
  const painted = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const press = (x, y) => {
    const { left, top } = canvas.getBoundingClientRect();
    const at = { clientX: left + x, clientY: top + y, bubbles: true };
    canvas.dispatchEvent(new MouseEvent('click', at));
  };
  for (let i = 0; i < %d; i++) {
    const start = performance.now();
    press(40 + (i * 97) %% 700, 18 * (1 + (i * 7) %% 24) + 9);
    drew.push(performance.now() - start);
    await painted();
    took.push(performance.now() - start);
    if (i %% 3 === 2) { graph.querySelector('.all').click(); await painted(); }
  }
  return [took, drew];
})()
"""
SEARCH = """
(() => {
  const words = document.querySelectorAll('.rqps-flame')[0].querySelector('div').shadowRoot.querySelector('.words');
  const start = performance.now();
  words.value = 'find';
  words.dispatchEvent(new Event('input'));
  return performance.now() - start;
})()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stacks", type=int, default=13_000)
    parser.add_argument("--graphs", type=int, default=10)
    parser.add_argument("--clicks", type=int, default=60)
    asked = parser.parse_args()
    tree = tree_of(large_stacks(asked.stacks), 0.05)
    drawing = flame_graph(tree, base="my1.base", me="my2.base")
    if not isinstance(drawing, Drawing):
        raise SystemExit(f"nothing to draw: {drawing}")
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as place, Browser() as browser:
        for graphs in (1, asked.graphs):
            page = Path(place) / f"{graphs}.html"
            page.write_text(PAGE.format(drawing.html * graphs, script_element()), encoding="utf-8")
            size = len(gzip.compress(page.read_bytes(), 9)) / 1000
            print(f"{graphs} x {asked.stacks:,} stacks, {tree.height:,} frames: {size:.0f} KB compressed")
            with opened(browser, page, WIDTH_PX) as tab:
                look(tab, graphs, asked.clicks)


def look(tab: Tab, graphs: int, clicks: int) -> None:
    """Every graph is drawn and clicked on."""
    answers: list[float] = []
    draws: list[float] = []
    for number in range(graphs):
        figure = f"document.querySelectorAll('.rqps-flame')[{number}]"
        tab.run(f"{figure}.scrollIntoView({{behavior: 'instant'}})")
        tab.wait_for(f"{figure}.dataset.drawn === 'yes'")
        took, drew = tab.run(CLICKS % (number, max(10, clicks // graphs)))
        answers += took
        draws += drew
    say("  click until it is on the screen", answers)
    say("  of it, finding the box and drawing", draws)
    print(f"  a search: {tab.run(SEARCH):.0f} ms")
    memory: dict[str, Any] = tab.call("Runtime.getHeapUsage")
    print(
        f"  memory of the page's scripts: {(memory['usedSize'] + memory.get('backingStorageSize', 0)) / 1e6:.0f} MB"
    )
    assert not tab.complaints(), tab.complaints()


def say(what: str, values: list[float]) -> None:
    cuts = quantiles(values, n=100)
    print(
        f"{what}: median {median(values):.0f} ms, 95 % {cuts[94]:.0f} ms, worst {max(values):.0f} ms, n={len(values)}"
    )


if __name__ == "__main__":
    main()
