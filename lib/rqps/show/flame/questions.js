// A screen of questions shows one at a time: the one that its lists name, or on a page its address, as in
// #step=point-query&dbms=my8033.base&base=my5624.base. The others are packed, so that a page has the nodes of one.

const LISTS = ["step", "dbms", "base", "host"];

class Questions {
  constructor(root) {
    this.root = root;
    this.place = root.querySelector(".rqps-chosen");
    this.packed = [...root.querySelectorAll('[type="application/x-rqps-question"]')];
    this.form = root.querySelector(".rqps-choose");
    this.note = root.querySelector(".rqps-note");
    this.lists = [...this.form.querySelectorAll("select")];
    this.form.hidden = false;
    this.form.onchange = (event) => this.choose(event.target.name);
    root.dataset.lmSuppressShortcuts = "true";
    this.onPage = !root.closest(".jp-OutputArea, .output_area, .cell-output");
    this.choose();
    if (!this.onPage) return;
    window.addEventListener("hashchange", () => this.follow());
    this.follow();
  }

  list(name) {
    return this.lists.find((list) => list.name === name);
  }

  // Where there is no such question, the list that was used counts, and the others give way.
  choose(used) {
    const asked = LISTS.filter((name) => this.list(name));
    const fits = (question) => asked.filter((name) => question.dataset[name] === this.list(name).value).length;
    const right = this.packed.filter((question) => !used || !this.list(used) || !question.dataset[used]
      || question.dataset[used] === this.list(used).value);
    const [best] = [...right].sort((one, other) => fits(other) - fits(one));
    for (const name of asked) this.list(name).value = best.dataset[name];
    this.show(best);
    if (used && this.onPage) history.replaceState(null, "", this.address(best));
  }

  async show(chosen) {
    const { dataset } = this.chosen = chosen;
    const bases = new Set(this.packed.filter((other) => other.dataset.dbms === dataset.dbms).map((other) => other.dataset.base));
    for (const option of this.list("base").options) option.disabled = !bases.has(option.value);
    this.note.textContent = "";
    this.writeLine(dataset);
    const section = this.place.firstElementChild;
    if (LISTS.some((name) => section.dataset[name] !== dataset[name])) {
      const html = await unpack(chosen.textContent);
      if (this.chosen !== chosen) return;  // another one was chosen meanwhile
      this.place.innerHTML = html;
      drawFigures(this.place);
    }
    this.showMeasure();
  }

  // A notebook's cells take the question as a line of Python.
  writeLine(dataset) {
    if (this.onPage) return;
    const line = this.root.querySelector(".rqps-line");
    const names = ["host", "step", "base", "dbms"].map((name) => `${name}=${JSON.stringify(dataset[name])}`);
    line.querySelector("code").textContent = `question = show.Question(${names.join(", ")})`;
    line.hidden = false;
  }

  showMeasure() {
    const measure = this.list("measure")?.value;
    const tables = [...this.place.querySelectorAll("[data-measure]")];
    for (const group of new Set(tables.map((table) => table.parentElement))) {
      const mine = tables.filter((table) => table.parentElement === group);
      const right = mine.find((table) => table.dataset.measure === measure) ?? mine[0];
      for (const table of mine) table.hidden = table !== right;
    }
  }

  address({ dataset }) {
    return `#${LISTS.filter((name) => this.list(name)).map((name) => `${name}=${encodeURIComponent(dataset[name])}`).join("&")}`;
  }

  follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (!asked.has("step")) return;
    const question = this.packed.find((other) => LISTS.every(
      (name) => !asked.has(name) || other.dataset[name] === asked.get(name)));
    if (!question) {
      this.note.textContent = `There is nothing here of ${[...asked.values()].join(", ")}.`;
      return;
    }
    for (const name of LISTS) if (this.list(name)) this.list(name).value = question.dataset[name];
    this.show(question);
  }
}

for (const root of document.querySelectorAll(".rqps-questions:not([data-shown])")) {
  root.dataset.shown = "yes";
  new Questions(root);
}
