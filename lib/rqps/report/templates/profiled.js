"use strict";
// What a profile tells of leads to it: cells of tables, which become links, and marks of charts, which can be clicked.
// It stands before what draws charts.
(() => {
  const { page, cells } = JSON.parse(document.getElementById("profiled").textContent);
  const found = new Map(cells.map(([step, dbms, by]) => [`${step}\n${dbms}`, { step, dbms, ...(by && { by }) }]));
  const address = (step, dbms) => {
    const asked = Object.entries(found.get(`${step}\n${dbms}`) ?? {});
    return asked.length ? `${page}#${asked.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}` : "";
  };
  const lead = (cell, step, dbms) => {
    const href = address(step, dbms);
    if (!href || cell.querySelector("a")) return;
    const link = Object.assign(document.createElement("a"), { href, className: "profiled", title: "where the time goes" });
    link.append(...cell.childNodes);
    cell.append(link);
  };
  const told = (cell) => cell.textContent.trim();
  for (const table of document.querySelectorAll("main .table table")) {
    const heads = [...(table.tHead?.rows ?? [])].at(-1);
    let group = "";
    for (const row of table.tBodies[0]?.rows ?? []) {
      if (row.cells.length === 1) group = told(row.cells[0]);  // the heading of the rows that follow
      const [first, ...others] = row.cells, name = told(first);
      others.forEach((cell, i) => heads?.cells[i + 1] && lead(cell, name, told(heads.cells[i + 1])));
      lead(first, group, name);
    }
  }
  // A mark tells its step and dbms, or the row that it stands in.
  const of = (datum) => {
    const [step, dbms] = datum?.dbms ? [datum.step, datum.dbms] : (datum?.row ?? "").split(" ⋅ ");
    return address(step, dbms);
  };
  document.addEventListener("charted", ({ target, detail: view }) => {
    view.addEventListener("click", (_, item) => { if (of(item?.datum)) location.href = of(item.datum); });
    view.addEventListener("mousemove", (_, item) => { target.style.cursor = of(item?.datum) ? "pointer" : ""; });
  });
})();
