// A tree of frames as its page carries it, and what follows from it by adding up.
// Frames stand in pre-order, so the frames below one are those that follow it up to its `end`: any sum over them is a
// difference of two running sums, and the place of a box is one, too.

async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

class Tree {
  constructor(packed) {
    Object.assign(this, packed);  // names, components, columns, base, me, unit, quantum, frames, claim, title
    const { depth, base, me } = this.columns;
    this.depth = depth;
    this.parent = [];
    this.end = Array(this.frames).fill(this.frames);
    const callers = [];
    depth.forEach((deep, i) => {
      while (callers.length > deep) this.end[callers.pop()] = i;
      this.parent.push(callers.at(-1) ?? -1);
      callers.push(i);
    });
    this.sums = {
      both: running(base, (value, i) => value + me[i]),
      base: running(base, (value) => value),
      me: running(me, (value) => value),
      change: running(base, (value, i) => Math.abs(me[i] - value)),
    };
    this.sums.gone = running(base, (value, i) => this.sums.me[this.end[i]] === this.sums.me[i] ? value : 0);
    this.sums.added = running(me, (value, i) => this.sums.base[this.end[i]] === this.sums.base[i] ? value : 0);
    this.whole ??= { base: this.total("base", 0), me: this.total("me", 0) };
  }

  name(i) { return this.names[this.columns.name[i]]; }
  component(i) { return this.components[this.columns.component[i]]; }
  self(side, i) { return this.columns[side][i] * this.quantum; }
  total(side, i) { return (this.sums[side][this.end[i]] - this.sums[side][i]) * this.quantum; }
  difference(i) { return this.total("me", i) - this.total("base", i); }
  error(i) { return this.columns.error[i] * this.quantum; }

  // -1, 0 or 1; 0 where the difference is none, or within its error.
  sign(i) {
    const { sums, end } = this;
    const by = sums.me[end[i]] - sums.me[i] - sums.base[end[i]] + sums.base[i];
    return Math.abs(by) <= this.columns.error[i] ? 0 : Math.sign(by);
  }

  // How strong a difference is shown: 0, 1 or 2, by its share of what the whole operation costs the base.
  strength(i) {
    const share = Math.abs(this.difference(i)) / (this.whole.base || this.whole.me);
    return LOOK.limits.filter((limit) => share >= limit).length;
  }

  // What there is on one side only.
  only(i) {
    const { sums, end } = this;
    if (!this.sign(i)) return "";
    if (sums.base[end[i]] === sums.base[i]) return "new";
    return sums.me[end[i]] === sums.me[i] ? "gone" : "";
  }

  above(i) {
    const path = [];
    for (; i >= 0; i = this.parent[i]) path.unshift(i);
    return path;
  }

  // Marks the frames that a search means, and adds up their cost, a frame within another of them once. A component's
  // cost is what its own frames cost by themselves, so that the components of an operation add up.
  find(text) {
    const component = text.startsWith(OF_COMPONENT) ? text.slice(OF_COMPONENT.length) : null;
    const wanted = text.toLowerCase(), exact = /^".+"$/.test(text) && text.slice(1, -1);
    const names = this.names.map((name) => (exact ? name === exact : name.toLowerCase().includes(wanted)));
    const found = { marks: new Uint8Array(this.frames), count: 0, base: 0, me: 0 };
    let covered = 0;
    for (let i = 0; i < this.frames; i++) {
      if (component === null ? !names[this.columns.name[i]] : this.component(i) !== component) continue;
      found.marks[i] = 1;
      found.count++;
      if (component !== null) {
        found.base += this.self("base", i);
        found.me += this.self("me", i);
      } else if (i >= covered) {
        found.base += this.total("base", i);
        found.me += this.total("me", i);
        covered = this.end[i];
      }
    }
    return found;
  }

  // All calls of a function as a tree of their own, from wherever: below it what it calls, or with `callers` what calls
  // it. A call within a call of itself counts once. Where places become one their errors are added: it is no greater.
  around(wanted, callers) {
    const { columns, depth, parent, end, sums } = this, { name, component, base, me, error } = columns;
    const sum = (side, i) => sums[side][end[i]] - sums[side][i];
    const grow = (above, i, of = i) => {
      const { below } = above;
      if (!below.has(name[i])) below.set(name[i], { i, all: 0, base: 0, me: 0, error: 0, below: new Map() });
      const to = below.get(name[i]);
      to.all += sum("both", of);
      to.error += error[of];
      return to;
    };
    const root = { below: new Map() };
    for (let at = 0; at < this.frames; at++) {
      if (name[at] !== wanted) continue;
      if (callers) {
        let to = root;
        for (let up = at; up > 0; up = parent[up]) to = grow(to, up, at);
        to.base += sum("base", at);
        to.me += sum("me", at);
      } else {
        const path = [root];
        for (let i = at; i < end[at]; i++) {
          const deep = depth[i] - depth[at], to = path[deep + 1] = grow(path[deep], i);
          to.base += base[i];
          to.me += me[i];
        }
      }
      at = end[at] - 1;
    }
    const found = { depth: [], name: [], component: [], base: [], me: [], error: [] };
    const add = ({ below }, deep) => {
      for (const node of [...below.values()].sort((one, other) => other.all - one.all)) {
        const row = { ...node, depth: deep, name: name[node.i], component: component[node.i] };
        for (const [column, values] of Object.entries(found)) values.push(row[column]);
        add(node, deep + 1);
      }
    };
    add(root, 0);
    const of = this.names[wanted], about = callers ? `What calls ${of}, below it` : `What ${of} calls, from everywhere`;
    return new Tree({ ...this, columns: found, frames: found.depth.length, about, claim: `${this.claim} ${about}:` });
  }
}

const OF_COMPONENT = "component:";

function running(values, weight) {
  const sums = new Float64Array(values.length + 1);
  for (let i = 0; i < values.length; i++) sums[i + 1] = sums[i] + weight(values[i], i);
  return sums;
}

// What a reader can take along: the picture as it is now, or all frames of the drawing for other tools.

const SAVES = {
  "SVG picture": ["svg", "image/svg+xml", (graph) => graph.svg()],
  "folded stacks": ["folded", "text/plain", (graph) => folded(graph.every)],
  "speedscope": ["speedscope.json", "application/json", (graph) => speedscope(graph.every)],
};
const MILLIONTHS = 1e6;

// Every stack that costs something by itself, as [path, base, me]. The root is no function.
function stacksOf(tree) {
  const stacks = [];
  for (let i = 0; i < tree.frames; i++) {
    const costs = [tree.self("base", i), tree.self("me", i)];
    if (costs[0] || costs[1]) stacks.push([tree.above(i).slice(1), ...costs]);
  }
  return stacks;
}

// As flamegraph.pl and difffolded.pl take them: whole numbers, in millionths, so that nothing is lost by rounding.
function folded(tree) {
  const clean = (i) => tree.name(i).replace(/;/g, ":").replace(/[\r\n\t]/g, " ");
  const whole = (cost) => Math.round(cost * MILLIONTHS);
  return stacksOf(tree).map(([path, ...costs]) => `${path.map(clean).join(";")} ${costs.map(whole).join(" ")}\n`).join("");
}

function speedscope(tree) {
  const stacks = stacksOf(tree), unit = tree.unit.startsWith("µs") ? "microseconds" : "none";
  const used = [...new Set(tree.columns.name)], place = new Map(used.map((name, at) => [name, at]));
  const profile = (side, at) => {
    const costly = stacks.filter((stack) => stack[at]), weights = costly.map((stack) => stack[at]);
    const samples = costly.map(([path]) => path.map((i) => place.get(tree.columns.name[i])));
    const endValue = weights.reduce((sum, weight) => sum + weight, 0);
    return { type: "sampled", name: `${tree[side]}, ${tree.unit}`, unit, startValue: 0, endValue, samples, weights };
  };
  return JSON.stringify({
    $schema: "https://www.speedscope.app/file-format-schema.json",
    name: tree.claim,
    exporter: "rqps",
    activeProfileIndex: 1,
    shared: { frames: used.map((name) => ({ name: tree.names[name] })) },
    profiles: [profile("base", 1), profile("me", 2)],
  });
}
