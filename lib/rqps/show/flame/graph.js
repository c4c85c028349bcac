// One drawing: what it shows now, and what a reader can do with it. It lives in a shadow tree of its own, so that no
// style, id or script of the page around it meets those of another.

class Graph {
  constructor(figure, tree) {
    Object.assign(this, { tree, every: tree, mode: "both", zoomed: 0, chosen: 0, back: [], found: null });
    Object.assign(this, { boxes: [], width: 0, height: 0 });
    const host = make("div");
    host.dataset.lmSuppressShortcuts = "true";  // JupyterLab leaves the keys to the drawing
    this.shadow = host.attachShadow({ mode: "open" });
    this.shadow.innerHTML = MARKUP;  // a constant; names only ever go in as text
    for (const part of this.shadow.querySelectorAll("[class]")) this[part.className] = part;
    this.sheet.textContent = STYLE;
    const modes = { both: `both sides`, base: tree.base, me: tree.me, change: "what changed",
      gone: `only in ${tree.base}`, added: `only in ${tree.me}` };
    for (const [mode, name] of Object.entries(modes)) this.modes.append(new Option(name, mode));
    this.graph.setAttribute("aria-label", tree.claim);
    this.legend.append(...legend(tree));
    this.listen();
    figure.querySelector(".rqps-drawn").replaceWith(host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    const resize = () => host.clientWidth && host.clientWidth !== this.width && this.show({ width: host.clientWidth });
    new ResizeObserver(resize).observe(host);
    resize();
  }

  listen() {
    const { tree } = this;
    this.modes.onchange = () => this.show({ mode: this.modes.value });
    this.words.oninput = () => this.search(this.words.value);
    this.words.onkeydown = (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.search("") || this.graph.focus();
    };
    this.all.onclick = () => this.zoom(0, this.every);
    this.save.append(...["Save …", ...Object.keys(SAVES)].map((kind) => new Option(kind)));
    this.save.onchange = () => this.download(this.save.value);
    this.canvas.onclick = (event) => this.zoom(this.at(event));
    this.canvas.onpointermove = (event) => this.hover(event);
    this.canvas.onpointerleave = () => { this.tip.hidden = true; };
    this.graph.onkeydown = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.key(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
    };
    this.graph.onfocus = this.graph.onblur = () => this.redraw();
    this.path.onclick = (event) => event.target.value && this.zoom(Number(event.target.value));
    this.card.onclick = (event) => event.target.value && this.search(OF_COMPONENT + event.target.value);
    this.keys.textContent = `${tree.frames.toLocaleString("en")} frames. ${this.keys.textContent}`;
  }

  key(key) {
    const move = { ArrowDown: () => this.below(), ArrowUp: () => this.tree.parent[this.chosen], Home: () => 0 };
    if (key === "ArrowLeft" || key === "ArrowRight") this.choose(this.beside(key === "ArrowLeft" ? -1 : 1));
    else if (move[key]) this.choose(move[key]());
    else if (key === "Enter" || key === " ") this.zoom(this.chosen);
    else if (key === "Escape" && this.back.length) this.zoom(...this.back.pop(), false);
    else if (key === "Escape" && this.found) this.search("");
    else if (key === "/") this.words.focus();
    else return false;
    return true;
  }

  show(change) {
    Object.assign(this, change);
    const { tree, card, path } = this, sums = tree.sums[this.mode];
    while (this.zoomed && sums[tree.end[this.zoomed]] === sums[this.zoomed]) this.zoomed = tree.parent[this.zoomed];
    if (this.zoomed > this.chosen || this.chosen >= tree.end[this.zoomed]) this.chosen = this.zoomed;
    card.replaceChildren(...described(tree, this.chosen), ...this.calls());
    path.replaceChildren(...[tree.about, only(tree, this.mode)].filter(Boolean).map((text) => `${text}. `), ...steps(tree, this.zoomed));
    this.all.disabled = !this.zoomed && tree === this.every;
    this.redraw();
  }

  view() {
    const { tree, mode, zoomed, width, found } = this, sums = tree.sums[mode];
    return { mode, sums, from: sums[zoomed], to: sums[tree.end[zoomed]], width, zoomed, marks: found && found.marks };
  }

  redraw() {
    const { tree, canvas, graph, chosen } = this, view = this.view();
    if (!view.width) return;
    this.boxes = [];
    eachBox(tree, view, (i, left, right) => this.boxes.push({ i, left, right, depth: tree.depth[i] }));
    const deepest = this.boxes.reduce((depth, box) => Math.max(depth, box.depth), 0), high = (deepest + 1) * LOOK.row;
    this.height = this.zoomed ? Math.max(this.height, high) : high;
    const pen = new CanvasPen(canvas, view.width, this.height);
    this.letter = pen.letter;
    draw(tree, view, pen);
    if (view.to <= view.from) pen.text("Nothing: choose another width.", 0, 0, view.width, LOOK.ink);
    const box = this.shadow.activeElement === graph && this.boxes.find((each) => each.i === chosen);
    if (box) pen.frame(box.left, box.depth * LOOK.row, box.right - box.left, LOOK.row - 1, LOOK.chosen, 2.5);
  }

  // Into a frame, of this tree or of another one of the same frames.
  zoom(i, tree = this.tree, remember = true) {
    if (i < 0) return;
    const other = tree !== this.tree;
    if (remember && (other || i !== this.zoomed)) this.back.push([this.zoomed, this.tree]);
    this.show({ tree, zoomed: i, chosen: i, ...(other && { found: null }) });
    if (other) this.search(this.words.value);
    this.tip.hidden = true;
    this.speak();
  }

  // Buttons that lead to all that calls the chosen function, and to all that it calls.
  calls() {
    const { tree, chosen, every } = this, wanted = tree.columns.name[chosen];
    if (!chosen && tree === every) return [];  // the whole operation
    const leads = ["what calls it", "what it calls"].map((text, at) => {
      const pressed = button(text, "");
      pressed.onclick = () => this.zoom(0, every.around(wanted, !at)) || this.graph.focus();
      return pressed;
    });
    return [make("p", "From everywhere: ", leads[0], " · ", leads[1])];
  }

  choose(i) {
    if (i < 0) return;
    if (i < this.zoomed) this.zoomed = i;
    this.show({ chosen: i });
    this.speak();
  }

  speak() {
    const { tree, chosen: i } = this, cost = (side) => `${figure(tree.total(side, i))} in ${tree[side]}`;
    this.said.textContent = `${tree.name(i)}, ${tree.component(i)}, row ${tree.depth[i] + 1}: ${cost("base")}, ` +
      `${cost("me")}, ${change(tree, i)} ${tree.unit}.`;
  }

  // The widest of the frames below, or where there is none this one.
  below() {
    const called = this.boxes.filter((box) => this.tree.parent[box.i] === this.chosen);
    return called.sort((a, b) => b.right - b.left - (a.right - a.left))[0]?.i ?? this.chosen;
  }

  beside(by) {
    const row = this.boxes.filter((box) => box.depth === this.tree.depth[this.chosen]);
    return row[row.findIndex((box) => box.i === this.chosen) + by]?.i ?? this.chosen;
  }

  search(text) {
    const { tree } = this;
    if (this.words.value !== text) this.words.value = text;
    this.found = text.trim() ? tree.find(text.trim()) : null;
    this.count.textContent = "";
    if (this.found) {
      const share = (side) => `${figure(this.found[side])} (${percent(this.found[side], tree.whole[side])})`;
      const many = `${this.found.count.toLocaleString("en")} ${this.found.count === 1 ? "frame" : "frames"}`;
      this.count.textContent = `${many}: ${share("base")} → ${share("me")} ${tree.unit}, ` +
        `${figure(this.found.me - this.found.base, true)}`;
    }
    this.redraw();
  }

  // To the next frame that was found, zooming out where it is not in view.
  step(by) {
    const { tree, found, chosen } = this;
    if (!found || !found.count) return;
    let i = chosen;
    do i = (i + by + tree.frames) % tree.frames; while (!found.marks[i]);
    if (i < this.zoomed || i >= tree.end[this.zoomed]) this.zoomed = 0;
    this.choose(i);
  }

  at(event) {
    const { offsetX: x, offsetY: y } = event, row = Math.floor(y / LOOK.row);
    return this.boxes.find(({ depth, left, right }) => depth === row && x >= left && x < right)?.i ?? -1;
  }

  hover(event) {
    const i = event.pointerType === "touch" ? -1 : this.at(event), { tip } = this;
    this.canvas.style.cursor = i < 0 ? "" : "pointer";
    tip.hidden = i < 0;
    if (i < 0) return;
    tip.replaceChildren(...described(this.tree, i));
    const { clientX: x, clientY: y } = event, { innerWidth, innerHeight } = window;
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 20 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 12 : y + 20}px`;
  }

  svg() {
    const { tree } = this, view = this.view(), pen = new SvgPen(tree, this.letter);
    draw(tree, view, pen);
    const width = `Width: ${this.modes.selectedOptions[0].text}. ${LOOK.meaning.replace("{base}", tree.base)}`;
    return pen.file(view.width, this.height, [`${tree.claim} ${tree.name(this.zoomed)}.`, width]);
  }

  download(kind) {
    const [ending, type, write] = SAVES[kind], name = `${this.tree.title} ${this.tree.me}-${this.tree.base}`;
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([write(this)], { type }));
    link.download = `${name.trim().replace(/[^\w.=@-]+/g, "-")}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    this.save.selectedIndex = 0;
  }
}

const MARKUP = `<style class="sheet"></style>
<div class="bar"><label>Width <select class="modes"></select></label>
<button class="all" type="button">Show all</button><select class="save" aria-label="Save as"></select>
<label>Search <input class="words" type="search" placeholder="function" spellcheck="false"></label></div>
<p class="count" role="status"></p><div class="card"></div><div class="legend"></div>
<nav class="path" aria-label="Zoomed into"></nav>
<div class="graph" tabindex="0" role="application" aria-roledescription="flame graph"><canvas class="canvas"></canvas>
</div><div class="tip" hidden></div>
<p class="keys">Click or Enter zooms in, Escape goes back, arrows move, / searches, Enter there steps through the
matches. For a clicked function, two links show all that calls it, and all that it calls, merged from everywhere.</p>
<p class="said" aria-live="polite"></p>`;

function make(tag, text = "", ...inside) {
  const made = document.createElement(tag);
  made.append(text, ...inside);
  return made;
}

function button(text, value) {
  const made = make("button", text);
  Object.assign(made, { type: "button", value });
  return made;
}

// How much of a side is in frames that the other side does not have.
function only(tree, mode) {
  const side = { gone: "base", added: "me" }[mode];
  if (!side) return "";
  const cost = tree.total(mode, 0);
  return `${figure(cost)} ${tree.unit} (${percent(cost, tree.whole[side])}) of ${tree[side]} is in frames that only it has`;
}

function change(tree, i) {
  const error = tree.error(i), by = withError(tree.difference(i), error);
  const only = tree.only(i), sign = tree.sign(i);
  return sign ? `${SIGNS[sign]} ${by}${only ? ` (${only})` : ""}` : `${by}${error ? ", within its error" : ""}`;
}

function described(tree, i) {
  const row = (...cells) => make("tr", "", ...cells.map((cell, at) => make(at ? "td" : "th", cell)));
  const of = (side) => `${figure(tree.total(side, i))} (${percent(tree.total(side, i), tree.whole[side])})`;
  const self = (side) => figure(tree.self(side, i)), by = tree.self("me", i) - tree.self("base", i);
  return [
    make("p", "", make("b", tree.name(i)), " ", ...(i ? [button(tree.component(i), tree.component(i))] : []), ` ${tree.unit}`),
    make("table", "", row("", tree.base, tree.me, "difference"), row("total", of("base"), of("me"), change(tree, i)),
      row("itself", self("base"), self("me"), figure(by, true))),
  ];
}

// The first frame, and the last ones down to where the drawing is zoomed into.
function steps(tree, zoomed) {
  const path = tree.above(zoomed), shown = path.length > 5 ? [path[0], -1, ...path.slice(-3)] : path;
  return zoomed ? shown.flatMap((i) => [i < 0 ? "…" : button(tree.name(i), i), " › "]).slice(0, -1) : [];
}

function legend(tree) {
  const [some, much] = LOOK.limits.map((limit) => 100 * limit), ranges = [`< ${some}`, `${some}–${much}`, `> ${much}`];
  const patch = (text, background, color = LOOK.ink) => {
    const made = make("span", text);
    Object.assign(made.style, { background, color });
    if (LOOK.in_dark[background]) made.style.setProperty("--in-dark", LOOK.in_dark[background]);
    return made;
  };
  const kind = (sign, colours) =>
    colours.map((colour, i) => patch(`${sign} ${ranges[i]} %`, colour, i === 2 ? "#ffffff" : LOOK.ink));
  const none = patch("within error", LOOK.grey);
  const what = `Difference in % of all that ${tree.base} costs. ▲, line at the top: costs more; ▼, line at the bottom: costs less.`;
  return [...kind("▼", LOOK.less).reverse(), none, ...kind("▲", LOOK.more), make("p", what)];
}
