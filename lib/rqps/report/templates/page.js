"use strict";
// Each chart takes the place of its picture. Where this does not run, or fails, the picture stays.
(() => {
  // Sections that few readers need are folded away once their charts are drawn; who was led into one, finds it open.
  const sections = [...document.querySelectorAll("details.section")];
  const asked = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = () => {
    for (const each of sections) each.open = each.contains(asked());
    if (sections.length) asked()?.scrollIntoView();
  };
  // A chart whose window was resized while it was folded away takes its width now.
  for (const each of sections) each.addEventListener("toggle", () => dispatchEvent(new Event("resize")));
  addEventListener("hashchange", () => { for (const each of sections) each.open ||= each.contains(asked()); });
  // A chart that a notebook draws itself says nothing of its width: it takes that of the page, panel by panel, each with
  // room for labels beside it.
  const LABELS_PX = 100, LEAST_PX = 90, MANY_MARKS = 300;
  const plain = (spec) => {
    if (spec.facet?.row && !spec.facet.column) return { axes: 170 };
    if (spec.facet && !spec.facet.column) return { panel: spec.spec.width + LABELS_PX };
    return { fluid: !spec.facet && !spec.vconcat && !spec.hconcat };
  };
  const drawings = [...document.querySelectorAll("script[data-chart]")].map(async (data) => {
    const figure = document.getElementById(data.dataset.chart);
    const place = figure.querySelector(".chart");
    const spec = JSON.parse(data.textContent);
    const { axes, panel, fluid } = spec.usermeta?.rqps ?? plain(spec);
    delete spec.$schema;  // of JupyterLab's Vega-Lite
    if (fluid) spec.width = "container";
    // A drawing has a node for each mark, of which a page bears so many.
    const rows = Math.max(0, ...Object.values(spec.datasets ?? {}).map((of) => of.length));
    const renderer = rows > MANY_MARKS ? "canvas" : "svg";
    const room = () => Math.max(160, place.clientWidth - axes);
    const panels = () => Math.max(1, Math.floor(place.clientWidth / panel));
    delete spec.title;  // the caption says it, and wraps
    if (axes) spec.spec.width = room();
    const drawing = document.createElement("div");
    drawing.style.width = "100%";
    place.append(drawing);
    const embed = () => vegaEmbed(drawing, spec, { actions: false, renderer, mode: "vega-lite" });
    const draw = async () => {
      if (panel) (spec.vconcat ?? [spec]).forEach((each) => { each.columns = panels(); });
      if (!panel || spec.vconcat) return embed();
      spec.spec.width = Math.min(panel, place.clientWidth - LABELS_PX / 2) - LABELS_PX;
      let drawn = await embed();
      const over = () => drawing.querySelector("svg, canvas").getBoundingClientRect().width - place.clientWidth;
      if (over() <= 0) return drawn;
      // Long names: a legend of one column and heads of two lines from the panel's edge; then less room for the panel.
      const { header, legend, ...others } = spec.config ?? {};
      spec.config = { ...others, header: { ...header, labelAnchor: "start" }, legend: { ...legend, columns: 1 } };
      spec.facet.header = { labelExpr: "split(datum.label, ': ')", ...spec.facet.header };
      drawn = await embed();
      for (let tries = 0; over() > 0 && spec.spec.width > LEAST_PX && tries < 4; tries += 1) {
        spec.spec.width = Math.max(LEAST_PX, spec.spec.width - Math.ceil(over() / spec.columns));
        drawn = await embed();
      }
      return drawn;
    };
    const { view } = await draw();
    place.querySelector("img")?.remove();
    figure.classList.add("drawn");
    figure.view = view;  // for whoever looks at it in the browser's console
    figure.dispatchEvent(new CustomEvent("charted", { bubbles: true, detail: view }));
    if (panel) {
      let drawn = panels();
      new ResizeObserver(() => { if (panels() !== drawn) { drawn = panels(); draw(); } }).observe(place);
    }
    if (axes) {
      new ResizeObserver(() => view.signal("child_width", room()).resize().runAsync()).observe(place);
    }
  });
  Promise.allSettled(drawings).then((ended) => {
    const failed = ended.filter((each) => each.status === "rejected");
    failed.forEach((each) => console.error(each.reason));
    fold();
    document.documentElement.dataset.charts = `${ended.length - failed.length} of ${ended.length}`;
  });
})();
