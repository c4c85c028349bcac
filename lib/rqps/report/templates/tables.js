"use strict";
// A click on the head of a column sorts a table by it: up, down, and as it was. Groups of rows stay together. Above a
// long table a reader chooses rows by name, and by what is sure of them. Each row has an address. What a table
// shows can be copied as Markdown.
(() => {
  const FEWEST_ROWS = 4, MANY_ROWS = 16, PAPER_PX = 700, PHONE_PX = 640;
  const SIGNS = { "all rows": "", "significant only": "▲▼", "surely higher": "▲", "surely lower": "▼" };
  const words = new Intl.Collator(undefined, { numeric: true });
  // The text of a cell; a space parts a ratio from the interval below it.
  const spaced = (node) => (node.nodeType === Node.TEXT_NODE ? node.data : [...node.childNodes].map(spaced).join(" "));
  const text = (row, at) => (row.cells[at] ? spaced(row.cells[at]) : "").trim();
  // The number that a cell begins with, after a sign such as an arrow; a version, a date or a name is none. A time is
  // in seconds, such as 900 µs or 3 min 20 s.
  const TIME = "(?: (µs|ms|s|min|h|d)(?!\\S)(?: (\\d+) (s|min|h)(?!\\S))?)?";
  const NUMBER = new RegExp(`^[^\\p{L}\\d+−-]*([+−-]?[\\d,]*\\.?\\d+)(?!\\.?\\d|-\\d)${TIME}`, "u");
  const SECONDS = { "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 };
  const number = (said) => {
    const [, first, unit, more = 0, unitOfMore] = said.match(NUMBER) ?? [];
    const count = Number(first?.replaceAll(",", "").replace("−", "-"));
    return count * (SECONDS[unit] ?? 1) + more * (SECONDS[unitOfMore] ?? 0);
  };
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

  const hasSign = (row, signs) => [...row.cells].some((cell) => signs.includes(cell.textContent.trim()[0]));
  const namesOfRow = (row, heading) => [heading, row.cells[0], row.cells[1]].map((cell) => cell?.textContent ?? "").join(" ");

  // Rows of a table, or what else stands in groups below headings.
  function addFilter(before, groups, namesOf, has = () => false) {
    const make = (tag, more, ...inside) => {
      const made = Object.assign(document.createElement(tag), more);
      made.append(...inside);
      return made;
    };
    const every = groups.flatMap(({ rows }) => rows);
    const named = make("input", { type: "search", placeholder: "rows named …", ariaLabel: "show rows whose names have this" });
    const sure = make("select", { ariaLabel: "which rows" }, ...Object.entries(SIGNS).map((each) => new Option(...each)));
    const said = make("span", { role: "status" });
    const bar = make("div", { className: "filter" }, named, said);
    if (every.some((row) => has(row, "▲▼"))) said.before(sure);
    bar.oninput = () => {
      const asked = named.value.toLowerCase();
      for (const { heading, rows } of groups) {
        for (const row of rows) {
          const fits = namesOf(row, heading).toLowerCase().includes(asked);
          row.hidden = !fits || (sure.value && !has(row, sure.value));
        }
        if (heading) heading.hidden = rows.every((row) => row.hidden);
      }
      const shown = every.filter((row) => !row.hidden).length;
      said.textContent = shown < every.length ? `${shown} of ${every.length} rows` : "";
    };
    before.before(bar);
  }

  function addCopy(table, heads) {
    const plain = (cell) => (cell?.innerText ?? "").trim().replace(/\s+/g, " ").replace(/[\\`*_|<>~[\]]/g, "\\$&");
    const line = (cells) => `| ${cells.join(" | ")} |\n`;
    const button = Object.assign(document.createElement("button"), { className: "copy", textContent: "copy as Markdown" });
    button.onclick = async () => {
      const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
      const lines = [heads.map(plain), heads.map(() => "---"), ...rows.map((row) => [...row.cells].map(plain))];
      await navigator.clipboard.writeText(lines.map(line).join(""));
      button.textContent = "copied";
    };
    table.closest(".table").after(button);
  }

  const slug = (said) => (said.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).join("-");

  // A link to a row, so that a remark can point to it: made of the names of its table and of itself, and of a number
  // where another row has both.
  function address(table, heading, row) {
    if (table.closest(".rqps-chosen")) return;  // which is another one soon
    const [first, second] = row.cells;
    const names = [first, ...(second && Number.isNaN(number(text(row, 1))) ? [second] : [])];
    const id = [table.closest("[id]")?.id ?? "", ...[heading, ...names].map((cell) => slug(cell?.textContent ?? ""))];
    const name = id.filter(Boolean).join("-") || "row";
    let free = name;
    for (let count = 2; document.getElementById(free); count++) free = `${name}-${count}`;
    row.id ||= free;
    const href = `#${encodeURIComponent(row.id)}`;
    first.append(Object.assign(document.createElement("a"), { href, className: "here", ariaLabel: "link to this row" }));
  }

  function prepare(table) {
    const body = table.tBodies[0];
    if (!body) return;
    const isHeading = (row) => row.cells.length === 1 && row.cells[0].colSpan > 1;
    const groups = [];
    for (const row of body.rows) {
      if (isHeading(row) || !groups.length) groups.push({ heading: isHeading(row) ? row : null, rows: [] });
      if (!isHeading(row)) groups.at(-1).rows.push(row);
    }
    for (const { heading, rows } of groups) for (const row of rows) address(table, heading, row);
    const heads = headsOf(table);
    if (body.rows.length < FEWEST_ROWS || heads.some((head) => head.colSpan > 1)) return;
    if (body.rows.length >= MANY_ROWS) addFilter(table.closest(".table"), groups, namesOfRow, hasSign);
    if (navigator.clipboard && !table.closest("details.rounds, .rqps-questions")) addCopy(table, heads);
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
  for (const table of document.querySelectorAll(".table table")) prepare(table);

  // What a list has, a browser with scripts takes for text until the list is unfolded.
  function make(list) {
    const text = list.querySelector("noscript");
    if (!text) return;
    text.parentElement.innerHTML = text.textContent;
    for (const table of list.querySelectorAll(".table table")) prepare(table);
  }
  const lists = [...document.querySelectorAll("main > details.rounds")];
  for (const list of lists) list.addEventListener("toggle", () => make(list));
  if (lists.length >= MANY_ROWS) {
    const groups = [...document.querySelectorAll("main > h2")].map((heading) => ({ heading, rows: [] }));
    const isBefore = (one, other) => one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
    for (const list of lists) groups.findLast(({ heading }) => isBefore(heading, list)).rows.push(list);
    addFilter(groups[0].heading, groups, (list) => list.firstElementChild.textContent);
  }
  // In print nothing is folded away and nothing scrolls: what is wider than the paper becomes smaller.
  const boxes = [...document.querySelectorAll(".table, .scroll, pre")];
  const inside = (box) => (box.matches("pre") ? box : box.querySelector("table, .chart"));
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details.section, details.long")) each.open = true;
    for (const box of boxes) box.style.width = `${PAPER_PX}px`;
    const wide = boxes.map((box) => box.scrollWidth);
    boxes.forEach((box, at) => {
      box.style.width = "";
      if (wide[at] > PAPER_PX && inside(box)) inside(box).style.zoom = PAPER_PX / wide[at];
    });
  });
  addEventListener("afterprint", () => { for (const box of boxes) inside(box)?.style.removeProperty("zoom"); });

  if (innerWidth < PHONE_PX) document.querySelector("nav details")?.removeAttribute("open");  // the page comes first

  // The browser looked for the row before it had its address, which begins with that of its list.
  function lead() {
    const hash = decodeURIComponent(location.hash.slice(1));
    for (const list of lists) if (hash.startsWith(list.querySelector("div").id)) make(list);
    const asked = document.getElementById(hash);
    if (!asked?.matches("tr")) return;
    asked.closest("details")?.setAttribute("open", "");
    asked.scrollIntoView({ block: "center" });
  }
  lead();
  addEventListener("hashchange", lead);
})();
