// What a reader can take along: the picture as it is now, or all frames of the drawing for other tools.

const SAVES = {
  "SVG picture": ["svg", "image/svg+xml", (graph) => graph.svg()],
  "folded stacks": ["folded", "text/plain", (graph) => folded(graph.tree)],
  "speedscope": ["speedscope.json", "application/json", (graph) => speedscope(graph.tree)],
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
  const profile = (side, at) => {
    const there = stacks.filter((stack) => stack[at]), weights = there.map((stack) => stack[at]);
    const samples = there.map(([path]) => path.map((i) => tree.columns.name[i]));
    const endValue = weights.reduce((sum, weight) => sum + weight, 0);
    return { type: "sampled", name: `${tree[side]}, ${tree.unit}`, unit, startValue: 0, endValue, samples, weights };
  };
  return JSON.stringify({
    $schema: "https://www.speedscope.app/file-format-schema.json",
    name: tree.claim,
    exporter: "rqps",
    activeProfileIndex: 1,
    shared: { frames: tree.names.map((name) => ({ name })) },
    profiles: [profile("base", 1), profile("me", 2)],
  });
}
