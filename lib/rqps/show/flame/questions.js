// A screen of questions shows one at a time: the one that its lists name, or on a page its address, as in
// #step=point-query&dbms=my8033.base&base=my5624.base.

const LISTS = ["step", "dbms", "base", "host"];

class Questions {
  constructor(root) {
    this.root = root;
    this.sections = [...root.querySelectorAll(".rqps-question")];
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
    return this.lists.find((each) => each.name === name);
  }

  // Where there is no such question, the list that was used counts, and the others give way.
  choose(used) {
    const asked = LISTS.filter((name) => this.list(name));
    const fits = (section) => asked.filter((name) => section.dataset[name] === this.list(name).value).length;
    const right = this.sections.filter((section) => !used || !this.list(used) || !section.dataset[used]
      || section.dataset[used] === this.list(used).value);
    const [best] = [...right].sort((one, other) => fits(other) - fits(one));
    for (const name of asked) this.list(name).value = best.dataset[name];
    this.show(best);
    if (used && this.onPage) history.replaceState(null, "", this.address(best));
  }

  show(chosen) {
    const measure = this.list("measure").value, { dataset } = chosen;
    for (const section of this.sections) section.hidden = !(section.open = section === chosen);
    const tables = [...chosen.querySelectorAll("[data-measure]")];
    for (const group of new Set(tables.map((each) => each.parentElement))) {
      const mine = tables.filter((each) => each.parentElement === group);
      const right = mine.find((each) => each.dataset.measure === measure) ?? mine[0];
      for (const each of mine) each.hidden = each !== right;
    }
    const bases = new Set(this.sections.filter((each) => each.dataset.dbms === dataset.dbms).map((each) => each.dataset.base));
    for (const option of this.list("base").options) option.disabled = !bases.has(option.value);
    this.note.textContent = "";
  }

  address({ dataset }) {
    return `#${LISTS.filter((name) => this.list(name)).map((name) => `${name}=${encodeURIComponent(dataset[name])}`).join("&")}`;
  }

  follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (!asked.has("step")) return;
    const found = this.sections.find((section) => LISTS.every(
      (name) => !asked.has(name) || section.dataset[name] === asked.get(name)));
    if (!found) {
      this.note.textContent = `There is nothing here of ${[...asked.values()].join(", ")}.`;
      return;
    }
    for (const name of LISTS) if (this.list(name)) this.list(name).value = found.dataset[name];
    this.show(found);
  }
}

for (const root of document.querySelectorAll(".rqps-questions:not([data-shown])")) {
  root.dataset.shown = "yes";
  new Questions(root);
}
