// Drawings are made when they come into view. An explorer shows one of its cells at a time: the one that the address
// names, as in #step=point-query&dbms=my8033.base, or that was chosen on its map.

const MANY = ".rqps-explorer, .rqps-questions";
const graphs = new WeakMap();

function graphOf(figure) {
  if (!graphs.has(figure)) {
    const names = figure.closest(MANY)?.querySelector('[type="application/x-rqps-names"]');  // of all its drawings
    const parts = [figure.querySelector("script"), names].map((part) => part && unpack(part.textContent));
    graphs.set(figure, Promise.all(parts).then(([tree, names]) => new Graph(figure, new Tree({ names, ...tree }))));
  }
  return graphs.get(figure);
}

function seek(figure, text) {
  return graphOf(figure).then((graph) => graph.search(text));
}

// What a table names can be looked for in the drawing.
function link(part, figure) {
  const name = part.textContent, text = part.closest(".rqps-component") ? OF_COMPONENT + name : `"${name}"`;
  const pressed = button(name, text);
  pressed.style.cssText = "font:inherit;color:#0b5c8a;background:none;border:0;padding:0;text-align:left;cursor:pointer;text-decoration:underline dotted";
  pressed.title = "show it in the flame graph";
  pressed.onclick = () => seek(figure, text).then(() => figure.scrollIntoView({ block: "nearest" }));
  part.replaceChildren(pressed);
}

const inView = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    if (!isIntersecting) continue;
    inView.unobserve(target);
    graphOf(target).then(() => { target.dataset.drawn = "yes"; }, (error) => {
      target.dataset.drawn = "no";  // the picture stays
      console.error(error);
    });
  }
}, { rootMargin: "300px" });

class Explorer {
  constructor(root) {
    this.root = root;
    this.cells = [...root.querySelectorAll(".rqps-cell")];
    this.links = [...root.querySelectorAll("a.rqps-to")];
    this.note = root.querySelector(".rqps-note");
    this.inNotebook = Boolean(root.closest(".jp-OutputArea, .output_area, .cell-output"));
    root.dataset.lmSuppressShortcuts = "true";
    root.addEventListener("click", (event) => this.click(event));
    root.addEventListener("keydown", (event) => this.key(event));
    this.show(this.links.find((link) => link.classList.contains("rqps-first")).hash);
    if (this.inNotebook) return;
    window.addEventListener("hashchange", () => this.follow());
    this.follow();
  }

  click(event) {
    const link = event.target.closest("a.rqps-to");
    if (!link || !this.inNotebook) return;  // on a page the address changes, and that is followed
    event.preventDefault();
    this.show(link.hash);
  }

  // Arrows go from cell to cell of the map.
  key(event) {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const cell = by && event.target.closest(".rqps-map td");
    const row = cell && cell.closest("tbody").rows[cell.parentElement.sectionRowIndex + by[0]];
    const to = row && row.cells[cell.cellIndex + by[1]]?.querySelector("a");
    if (!to) return;
    event.preventDefault();
    to.focus();
  }

  follow() {
    const asked = new URLSearchParams(location.hash.slice(1)), { by } = this.root.dataset;
    if (!asked.has("step") || (asked.has("by") && asked.get("by") !== by)) return;
    const cell = this.show(location.hash), isMeant = asked.has("by") || this.root === document.querySelector(EXPLORER);
    if (!isMeant) return;
    const { top } = (cell || this.root).getBoundingClientRect();
    if (top < 0 || top > 0.4 * window.innerHeight) (cell || this.root).scrollIntoView();
    if (cell && asked.has("search")) seek(cell.querySelector(".rqps-flame"), asked.get("search"));
  }

  show(hash) {
    const key = keyOf(hash), chosen = this.cells.find((cell) => keyOf(cell.dataset.key) === key);
    this.note.textContent = chosen ? "" : `There is nothing here of ${key}.`;
    for (const cell of this.cells) cell.hidden = !(cell.open = cell === chosen);
    for (const link of this.links) link.setAttribute("aria-current", keyOf(link.hash) === key);
    return chosen;
  }
}

const EXPLORER = ".rqps-explorer";
// Frames have components and names; a layer has several components.
const LINKED = ".rqps-parts:not(.rqps-layer) tbody tr:has(td:last-child:not(:empty)) td:first-child";

function keyOf(hash) {
  const asked = new URLSearchParams(hash.slice(1));
  return `${asked.get("step")}, ${asked.get("dbms")}`;
}

function drawFigures(place) {
  for (const figure of place.querySelectorAll(".rqps-flame:not([data-drawn])")) {
    figure.dataset.drawn = "waits";
    const around = figure.closest(".rqps-cell, .rqps-question") || figure;
    for (const part of around.querySelectorAll(LINKED)) link(part, figure);
    inView.observe(figure);
  }
}

drawFigures(document);
for (const root of document.querySelectorAll(`${EXPLORER}:not([data-shown])`)) {
  root.dataset.shown = "yes";
  new Explorer(root);
}
