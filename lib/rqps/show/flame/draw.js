// Boxes of a tree, drawn on a canvas or as the text of an SVG file.

// Calls visit(frame, left, right) for each box that can be seen, and rest(depth, left, right) for what is too narrow.
function eachBox(tree, view, visit, rest) {
  const { sums, from, to, width } = view, scale = width / (to - from || 1);
  for (let i = 0; i < tree.frames; ) {
    const left = Math.max(0, (sums[i] - from) * scale), right = Math.min(width, (sums[tree.end[i]] - from) * scale);
    if (right - left >= LOOK.narrowest) {
      visit(i++, left, right);
      continue;
    }
    if (rest && right > left) rest(tree.depth[i], left, right);
    i = tree.end[i];
  }
}

function draw(tree, view, pen) {
  let strip = null;
  const finish = () => {
    if (strip && strip.right - strip.left >= LOOK.narrowest) {
      pen.fill(strip.left, strip.depth * LOOK.row, strip.right - strip.left, LOOK.row - 1, LOOK.rest);
    }
    strip = null;
  };
  eachBox(tree, view, (i, left, right) => box(tree, view, pen, i, left, right), (depth, left, right) => {
    if (strip && (strip.depth !== depth || left > strip.right + 0.1)) finish();
    strip = { depth, left: strip ? strip.left : left, right };
  });
  finish();
}

function box(tree, view, pen, i, left, right) {
  const { row } = LOOK, sign = tree.sign(i), strength = tree.strength(i);
  const colours = sign > 0 ? LOOK.more : LOOK.less;
  const top = tree.depth[i] * row, wide = right - left - (right - left > 3 ? 1 : 0);
  const faded = view.marks ? !view.marks[i] : i < view.zoomed;
  const plain = !sign ? LOOK.grey : view.mode === "change" ? colours[0] : colours[strength];
  pen.open(i, faded);
  pen.fill(left, top, wide, row - 1, plain);
  if (sign && view.mode === "change") {
    // As pprof does it: a box is as wide as all increases and decreases below it, the strong part as their balance.
    const all = tree.total("change", i), shown = (wide * Math.abs(tree.difference(i))) / all;
    pen.fill(left, top, Math.min(wide, shown), row - 1, colours[1]);
  }
  // Not by colour alone: a box that costs more has its edge above, one that costs less below.
  const edges = sign > 0 ? LOOK.more_edges : LOOK.less_edges;
  if (sign) pen.fill(left, sign > 0 ? top : top + row - 3, wide, 2, edges[view.mode === "change" ? 1 : strength]);
  if (wide > LOOK.narrowest_text) {
    const white = sign && strength === 2 && view.mode !== "change" && !faded;
    pen.text(label(tree, i), left, top, wide, white ? "#ffffff" : LOOK.ink);
  }
  if (view.marks && !faded) pen.frame(left, top, wide, row - 1, LOOK.ink, 1);
  pen.close(i);
}

// Sign, name, and by how much; what does not fit is cut off at the end.
function label(tree, i) {
  const sign = tree.sign(i), only = tree.only(i);
  if (!sign) return tree.name(i);
  return `${SIGNS[sign]} ${only ? `${only}: ` : ""}${tree.name(i)} ${figure(tree.difference(i), true)}`;
}

const SIGNS = { "-1": "▼", 0: "", 1: "▲" };
const FORMS = [3, 2, 1, 0].map((digits) => {
  const form = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return [new Intl.NumberFormat("en", form), new Intl.NumberFormat("en", { ...form, signDisplay: "exceptZero" })];
});

// A number with as many digits as its size needs: 0.123, 1.23, 12.3, 123.
function figure(value, signed) {
  const size = Math.abs(value);
  if (size < 0.0005) return "0";
  const form = FORMS[(size >= 0.9995) + (size >= 9.995) + (size >= 99.95)];
  return form[signed ? 1 : 0].format(value).replace("-", "−");
}

// A difference in as many digits as its error has any use for.
function withError(value, error) {
  if (!(error > 0)) return figure(value, true);
  const digits = Math.min(3, Math.max(0, -Math.floor(Math.log10(error / 3) + 0.0001))), [plain, signed] = FORMS[3 - digits];
  return `${signed.format(value).replace("-", "−")} ± ${plain.format(error)}`;
}

function percent(part, whole) {
  const share = (100 * part) / whole;
  return whole > 0 ? `${share.toFixed(share > 9.95 ? 0 : 1)} %` : "–";
}

class CanvasPen {
  constructor(canvas, width, height) {
    const sharp = Math.min(window.devicePixelRatio || 1, 3);
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    canvas.style.height = `${height}px`;
    this.to = canvas.getContext("2d");
    this.to.scale(sharp, sharp);
    this.to.fillStyle = "#ffffff";
    this.to.fillRect(0, 0, width, height);
    this.to.font = `${LOOK.font_px}px ${LOOK.fonts}`;
    this.to.textBaseline = "middle";
    this.lighter = matchMedia("(prefers-color-scheme: dark)").matches ? LOOK.in_dark : {};
    this.letter = this.to.measureText("abcdefghijklmnopqrstuvwxyz_").width / 27;
  }
  open(i, faded) { this.faded = faded; }
  close() { this.faded = false; }
  fill(left, top, width, height, colour) {
    this.to.globalAlpha = this.faded ? LOOK.faded : 1;
    this.to.fillStyle = this.lighter[colour] ?? colour;
    this.to.fillRect(left, top, width, height);
  }
  frame(left, top, width, height, colour, line) {
    this.to.globalAlpha = 1;
    this.to.strokeStyle = colour;
    this.to.lineWidth = line;
    this.to.strokeRect(left + line / 2, top + line / 2, Math.max(0.1, width - line), height - line);
  }
  text(text, left, top, width, colour) {
    const shown = fitting(text, (width - 6) / this.letter, (each) => this.to.measureText(each).width <= width - 6);
    this.to.globalAlpha = this.faded ? LOOK.faded_text : 1;
    this.to.fillStyle = colour;
    if (shown) this.to.fillText(shown, left + 3, top + LOOK.row / 2);
  }
}

// A text cut to about so many letters; `fits` has the last word.
function fitting(text, letters, fits) {
  let shown = text.length <= letters * 1.4 && fits(text) ? text : "";
  for (let long = Math.min(text.length - 1, Math.floor(letters * 1.3)); !shown && long >= LOOK.fewest_letters; long--) {
    const cut = `${text.slice(0, long).trimEnd()}…`;
    if (fits(cut)) shown = cut;
  }
  return shown;
}

// A file that any browser opens. Control characters have no place in XML, not even escaped.
class SvgPen {
  constructor(tree, letter) { Object.assign(this, { tree, letter, parts: [] }); }
  open(i, faded) {
    const { tree } = this, cost = (side) => `${figure(tree.total(side, i))} ${tree.unit} in ${tree[side]}`;
    const by = withError(tree.difference(i), tree.error(i));
    const title = `${tree.name(i)} (${tree.component(i)}): ${cost("base")}, ${cost("me")}, ${by}`;
    this.parts.push(`<g${faded ? ` fill-opacity="${LOOK.faded}"` : ""}><title>${xml(title)}</title>`);
    this.faint = faded ? ` fill-opacity="${LOOK.faded_text}"` : "";
  }
  close() { this.parts.push("</g>\n"); }
  fill(left, top, width, height, colour) { this.rect(left, top, width, height, `fill="${colour}"`); }
  frame(left, top, width, height, colour, line) {
    this.rect(left, top, width, height, `fill="none" stroke="${colour}" stroke-width="${line}"`);
  }
  rect(left, top, width, height, look) {
    const at = `x="${left.toFixed(2)}" y="${top}" width="${width.toFixed(2)}" height="${height}"`;
    this.parts.push(`<rect ${at} ${look}/>`);
  }
  text(text, left, top, width, colour) {
    const letters = (width - 6) / this.letter, shown = fitting(text, letters, (each) => each.length <= letters);
    const at = `x="${(left + 3).toFixed(2)}" y="${top + LOOK.row / 2 + 4}"`;
    if (shown) this.parts.push(`<text ${at} fill="${colour}"${this.faint}>${xml(shown)}</text>`);
  }
  file(width, height, heading) {
    const size = `width="${width}" height="${height + 40}" viewBox="0 -40 ${width} ${height + 40}"`;
    const font = `font-family="${xml(LOOK.fonts)}" font-size="${LOOK.font_px}"`;
    return `<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" ${size} ${font}>\n` +
      `<rect y="-40" width="100%" height="100%" fill="#ffffff"/>\n` +
      heading.map((line, i) => `<text x="3" y="${i * 17 - 24}" fill="${LOOK.ink}">${xml(line)}</text>\n`).join("") +
      `${this.parts.join("")}</svg>\n`;
  }
}

function xml(text) {
  const clean = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return clean.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
