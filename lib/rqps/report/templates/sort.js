"use strict";
// A click on the head of a column sorts a table by it: up, down, and as it was. Groups of rows stay together.
(() => {
  const FEWEST_ROWS = 4;
  const words = new Intl.Collator(undefined, { numeric: true });
  const text = (row, at) => (row.cells[at]?.textContent ?? "").trim();
  // The number that a cell begins with, after a sign such as an arrow; a version or a name is none.
  const number = (said) => Number(said.match(/^[^\p{L}\d+-]*([+-]?[\d,]*\.?\d+)(?!\.?\d)/u)?.[1].replaceAll(",", ""));
  const next = { null: "ascending", ascending: "descending", descending: null };
  const empty = (said) => said === "" || said === "–";

  // Of each column the head that stands next above it, below those that it shares with others.
  function headsOf(table) {
    const heads = [], taken = [];
    [...(table.tHead?.rows ?? [])].forEach((row, at) => {
      let column = 0;
      for (const cell of row.cells) {
        while ((taken[column] ?? 0) > at) column++;
        for (const end = column + cell.colSpan; column < end; column++) {
          heads[column] = cell;
          taken[column] = at + cell.rowSpan;
        }
      }
    });
    return heads;
  }

  function order(rows, at, way) {
    const said = new Map(rows.map((row) => [row, text(row, at)]));
    const numbers = rows.every((row) => empty(said.get(row)) || !Number.isNaN(number(said.get(row))));
    const compare = (a, b) => (numbers ? number(a) - number(b) : words.compare(a, b));
    return rows.toSorted((one, other) => {
      const [a, b] = [said.get(one), said.get(other)];
      return empty(a) || empty(b) ? empty(a) - empty(b) : way * compare(a, b);
    });
  }

  for (const table of document.querySelectorAll(".table table")) {
    const body = table.tBodies[0];
    const heads = headsOf(table);
    if (!body || body.rows.length < FEWEST_ROWS || heads.some((head) => head.colSpan > 1)) continue;
    const isHeading = (row) => row.cells.length === 1 && row.cells[0].colSpan > 1;
    const groups = [];
    for (const row of body.rows) {
      if (isHeading(row) || !groups.length) groups.push({ heading: isHeading(row) ? row : null, rows: [] });
      if (!isHeading(row)) groups.at(-1).rows.push(row);
    }
    heads.forEach((head, at) => {
      const button = document.createElement("button");
      button.className = "sort";
      button.title = "sort by this column";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const now = next[head.getAttribute("aria-sort")];
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        if (now) head.setAttribute("aria-sort", now);
        for (const { heading, rows } of groups) {
          const sorted = now ? order(rows, at, now === "ascending" ? 1 : -1) : rows;
          body.append(...(heading ? [heading] : []), ...sorted);
        }
      });
    });
  }
})();
