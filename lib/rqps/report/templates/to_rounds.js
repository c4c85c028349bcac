"use strict";
// Numbers lead to their rounds: cells of tables become links, and marks of charts can be clicked.
// It stands before what draws charts.
(() => {
  const { page, base: own, cells } = JSON.parse(document.getElementById("to-rounds").textContent);
  const links = new Map(), key = (...names) => names.join("\n");
  for (const { step, dbms: [dbms, ...shown], base: [base, ...baseShown] } of cells) {
    const names = Object.entries(base === own ? { step, dbms } : { step, dbms, base });
    const href = `${page}#${names.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
    const bases = [base, ...baseShown];
    for (const mine of [dbms, ...shown]) for (const other of bases) links.set(key(step, mine, other), href);
    // What a base does by itself stands in the rounds of all that is compared with it.
    for (const other of bases) if (!links.has(key(step, other, own))) links.set(key(step, other, own), href);
  }
  const address = (step, dbms, base = own) => links.get(key(step, dbms, base)) ?? "";
  const link = (cell, step, dbms, base) => {
    const href = address(step, dbms, base);
    if (!href || cell.querySelector("a")) return;
    const anchor = Object.assign(document.createElement("a"), { href, className: "to-rounds", title: "its rounds" });
    anchor.append(...cell.childNodes);
    cell.append(anchor);
  };
  const textOf = (cell) => cell.textContent.trim();
  for (const named of document.querySelectorAll("main .table td [data-step]")) {  // a cell that says whose it is
    link(named.closest("td"), named.dataset.step, named.dataset.dbms, named.dataset.base);
  }
  const isNumber = (cell) => /^[^\p{L}\d]*\d[\d,]*(\.\d|\s*±)/u.test(textOf(cell));
  for (const table of document.querySelectorAll("main .table table")) {
    const heads = [...(table.tHead?.rows ?? [])].at(-1);
    const [step, dbms] = ["step", "dbms"].map((word) => [...(heads?.cells ?? [])].findIndex((head) => textOf(head) === word));
    let group = "";
    for (const row of table.tBodies[0]?.rows ?? []) {
      if (row.cells.length === 1) group = textOf(row.cells[0]);  // the heading of the rows that follow
      const { [step]: ofStep, [dbms]: ofDbms } = row.cells;
      if (ofStep && ofDbms) {  // a row that names both leads by that name and by its numbers
        for (const cell of row.cells) if (cell === ofDbms || isNumber(cell)) link(cell, textOf(ofStep), textOf(ofDbms));
        continue;
      }
      const [first, ...others] = row.cells, name = textOf(first);
      others.forEach((cell, i) => {  // steps by dbms, or dbms by steps
        const head = heads?.cells[i + 1] ? textOf(heads.cells[i + 1]) : "";
        link(cell, name, head);
        link(cell, head, name);
      });
      link(first, group, name);
    }
  }
  // A mark has its step and dbms, or the row that it stands in.
  const of = (datum) => {
    const [step, dbms] = datum?.dbms ? [datum.step, datum.dbms] : (datum?.row ?? "").split(" ⋅ ");
    return address(step, dbms, datum?.base);
  };
  const go = (href) => {  // as a link does, which whoever shows this page may follow in its own way
    const link = document.body.appendChild(Object.assign(document.createElement("a"), { href }));
    link.click();
    link.remove();
  };
  document.addEventListener("charted", ({ target, detail: view }) => {
    view.addEventListener("click", (_, item) => { if (of(item?.datum)) go(of(item.datum)); });
    view.addEventListener("mousemove", (_, item) => { target.style.cursor = of(item?.datum) ? "pointer" : ""; });
  });
})();
