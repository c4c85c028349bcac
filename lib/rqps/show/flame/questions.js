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
    else if (used && this.notebook) this.run(this.line(best.dataset));
  }

  // JupyterLab can be reached by a page if it is started so, as `make lab` and `rqps investigate` do.
  get notebook() {
    const panel = window.jupyterapp?.shell.currentWidget, cells = panel?.content?.widgets;
    const at = this.onPage || !cells ? -1 : cells.findIndex((cell) => cell.node.contains(this.root));
    return at < 0 ? null : { session: panel.sessionContext, cells, at };
  }

  // Run a line in the kernel, in one that knows nothing yet after the cells above, and then the cells below. With
  // `print`, which takes what the line prints, these stay as they are.
  async run(code, print = null) {
    const { session, cells, at } = this.notebook;
    const execute = async (some) => {
      for (const cell of some) if (cell.model.type === "code") await cell.constructor.execute(cell, session);
    };
    const ask = async () => {
      const future = session.session.kernel.requestExecute({ code, store_history: false });
      future.onIOPub = ({ content }) => print?.(content.text ?? "");
      return (await future.done).content.status;
    };
    await session.ready;
    this.note.textContent = print ? "" : "The cells below follow …";
    if (await ask() !== "ok") {
      await execute(cells.slice(0, at));
      await ask();
    }
    if (!print) await execute(cells.slice(at + 1));
    this.note.textContent = "";
  }

  // A button beside each call of what to try: it measures, and the answer appears below it.
  addButtons() {
    for (const call of this.place.querySelectorAll("td > code:only-child")) {
      if (!this.notebook || !call.textContent.startsWith("rqps.what_if(")) continue;
      const button = Object.assign(document.createElement("button"), { textContent: "measure it" });
      const printed = Object.assign(document.createElement("pre"), { className: "text" });
      button.onclick = () => {
        button.disabled = true;
        call.after(printed);
        this.run(`print(${call.textContent})`, (text) => {
          printed.textContent = (printed.textContent + text).replace(/[^\n]*\r(?!\n)/g, "");  // progress
        });
      };
      call.after(" ", button);
    }
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
    this.addButtons();  // a call that has its button is no only child
    this.showMeasure();
  }

  // A notebook's cells take the question as a line of Python, which a reader copies where JupyterLab can't be reached.
  line(dataset) {
    const names = ["host", "step", "base", "dbms"].map((name) => `${name}=${JSON.stringify(dataset[name])}`);
    return `question = show.Question(${names.join(", ")})`;
  }

  writeLine(dataset) {
    const line = this.root.querySelector(".rqps-line");
    line.querySelector("code").textContent = this.line(dataset);
    line.hidden = this.onPage || Boolean(window.jupyterapp);
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
