"use strict";
// The other pages of a report, and its data, are packed in this file. A link to a page opens it in a frame as large
// as the window, and the address says which: #/a_page.html#warnings. A link to the data saves them.
(() => {
  const scripts = [...document.querySelectorAll("script[data-file]")];
  const packed = new Map(scripts.map((each) => [each.dataset.file, each]));
  let frame = null;

  function unpacked(name) {
    const bytes = Uint8Array.from(atob(packed.get(name).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
  }

  async function follow() {
    const [, page = "", anchor = ""] = location.hash.match(/^#\/([^#]*)#?(.*)$/) ?? [];
    if (frame?.dataset.page !== page) {
      frame?.remove();
      frame = packed.has(page) ? await framed(page) : null;
      document.body.style.overflow = frame ? "hidden" : "";  // its own scroll bar would stand beside the frame's
      document.documentElement.style.filter = frame ? "none" : "";  // the frame makes itself dark
    }
    if (frame && anchor) frame.contentWindow.location.hash = anchor;
  }

  async function framed(page) {
    const [html, vega] = await Promise.all([page, "vega"].map(async (name) => (await unpacked(name)).text()));
    const made = document.createElement("iframe");
    made.title = made.dataset.page = page;
    made.srcdoc = html.replace("/*vega*/", () => vega);
    made.style.cssText = "position:fixed;inset:0;width:100%;height:100%;border:0;background:#fff;z-index:9";
    const loaded = new Promise((done) => { made.onload = done; });
    document.body.append(made);
    await loaded;
    made.contentDocument.addEventListener("click", click);
    made.contentWindow.focus();
    return made;
  }

  async function save(name) {
    const href = URL.createObjectURL(await (await unpacked(name)).blob());
    Object.assign(document.createElement("a"), { href, download: name }).click();
  }

  function click(event) {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented) return;
    const [file, ...anchor] = link.getAttribute("href").split("#");
    const name = decodeURIComponent(file) || (link.ownerDocument === document ? "" : frame.dataset.page);
    if (!packed.has(name) && name !== "index.html") return;
    event.preventDefault();
    if (!name.endsWith(".html")) return save(name);
    const to = name === "index.html" ? "" : ["", `/${name}`, ...anchor].join("#");
    if (!to || location.hash !== to) location.hash = to;
    else frame?.contentDocument.getElementById(decodeURIComponent(anchor.join("#")))?.scrollIntoView();
  }

  document.addEventListener("click", click);
  let followed = follow();
  window.addEventListener("hashchange", () => { followed = followed.then(follow, follow); });  // one after the other
})();
