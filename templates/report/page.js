"use strict";
(() => {
  const views = [...document.querySelectorAll(".view")];
  const details = document.getElementById("details");
  const find = document.getElementById("find");
  const found = document.getElementById("found");
  const frames = new Map();
  let kept = null;

  const svgOf = (view) => view.querySelector("svg");
  const shown = () => svgOf(views.find((view) => !view.hidden));
  const boxesOf = (svg) => [...svg.querySelectorAll(".box")];
  const titleOf = (box) => box.querySelector("title").textContent;

  // --- zoom -------------------------------------------------------------------------------------
  function frame(svg, box) {
    frames.set(svg, box);
    svg.setAttribute("viewBox", box.join(" "));
  }
  function whole(svg) {
    return [0, 0, Number(svg.getAttribute("width")), Number(svg.getAttribute("height"))];
  }
  function zoom(svg, factor, x, y) {
    const [left, top, width, height] = frames.get(svg);
    const limit = whole(svg)[2];
    const wanted = Math.min(Math.max(width * factor, limit / 40), limit * 3);
    const real = wanted / width;
    const atX = x ?? left + width / 2;
    const atY = y ?? top + height / 2;
    frame(svg, [atX - (atX - left) * real, atY - (atY - top) * real, wanted, height * real]);
  }
  function point(svg, event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [at.x, at.y];
  }
  function zoomTo(svg, box) {
    const area = box.querySelector("rect").getBBox();
    const [dx, dy] = offset(box);
    const width = Math.max(area.width * 3, 500);
    const [, , w, h] = whole(svg);
    const height = (width * h) / w;
    frame(svg, [area.x + dx + area.width / 2 - width / 2, area.y + dy + area.height / 2 - height / 2, width, height]);
  }
  function offset(box) {
    const move = box.closest(".panel").transform.baseVal.consolidate().matrix;
    return [move.e, move.f];
  }

  // --- details ----------------------------------------------------------------------------------
  function show(box) {
    const [head, ...rows] = titleOf(box).split("\n");
    const title = document.createElement("h2");
    title.textContent = head;
    const list = document.createElement("dl");
    for (const row of rows) {
      const cut = row.indexOf(": ");
      const name = document.createElement("dt");
      const value = document.createElement("dd");
      name.textContent = cut < 0 ? "" : row.slice(0, cut);
      value.textContent = cut < 0 ? row : row.slice(cut + 2);
      list.append(name, value);
    }
    details.replaceChildren(title, list);
    relate(box);
  }
  function relate(box) {
    const svg = box.closest("svg");
    const owners = (box.dataset.owners ?? "").split(";").filter(Boolean);
    for (const other of svg.querySelectorAll(".outline")) {
      other.classList.toggle("same", box.dataset.group !== undefined && other.dataset.group === box.dataset.group);
    }
    for (const other of boxesOf(svg)) {
      const theirs = (other.dataset.owners ?? "").split(";");
      other.classList.toggle("mine", owners.some((owner) => theirs.includes(owner)));
      other.classList.toggle("chosen", other === box);
    }
  }

  // --- search -----------------------------------------------------------------------------------
  function search(text, {jump = false} = {}) {
    const wanted = text.trim().toLowerCase();
    for (const view of views) mark(svgOf(view), wanted);
    if (!wanted) {
      found.textContent = "";
      return;
    }
    const hits = boxesOf(shown()).filter((box) => box.classList.contains("hit"));
    found.textContent = hits.length === 1 ? "1 box" : `${hits.length} boxes`;
    if (jump && hits.length) {
      kept = hits[0];
      show(kept);
      zoomTo(shown(), kept);
    }
  }
  function mark(svg, wanted) {
    svg.classList.toggle("searching", Boolean(wanted));
    for (const box of boxesOf(svg)) {
      const isHit = Boolean(wanted) && matches(box, wanted);
      box.classList.toggle("hit", isHit);
      box.classList.toggle("way", ["host", "node", "bridge", "owners"].some((kind) => box.classList.contains(kind)));
    }
  }
  function matches(box, wanted) {
    if (/^([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(\.[0-7])?$/.test(wanted)) {
      return box.dataset.key.includes(wanted);
    }
    const lines = [...box.querySelectorAll(":scope > text")].map((line) => line.textContent).join(" ");
    return box.dataset.key.toLowerCase().includes(wanted) || lines.toLowerCase().includes(wanted);
  }

  // --- events -----------------------------------------------------------------------------------
  for (const view of views) {
    const svg = svgOf(view);
    frame(svg, whole(svg));
    for (const box of boxesOf(svg)) {
      box.tabIndex = 0;
      box.addEventListener("mouseover", (event) => {
        if (!kept && event.target.closest(".box") === box) show(box);
      });
      box.addEventListener("focus", () => show(box));
    }
    let from = null;
    let start = null;
    svg.addEventListener("click", (event) => {
      const moved = start && Math.hypot(event.clientX - start[0], event.clientY - start[1]) > 4;
      if (moved) return;
      const box = event.target.closest(".box");
      kept = box && box !== kept ? box : null;
      if (box) show(box);
    });
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(svg, Math.exp(event.deltaY * 0.0015), ...point(svg, event));
    }, {passive: false});
    svg.addEventListener("pointerdown", (event) => {
      from = point(svg, event);
      start = [event.clientX, event.clientY];
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from || !(event.buttons & 1)) return;
      const [x, y] = point(svg, event);
      const [left, top, width, height] = frames.get(svg);
      frame(svg, [left + from[0] - x, top + from[1] - y, width, height]);
    });
    svg.addEventListener("pointerup", () => {
      from = null;
    });
  }
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const svg = shown();
      if (button.dataset.zoom === "fit") frame(svg, whole(svg));
      else zoom(svg, button.dataset.zoom === "in" ? 0.8 : 1.25);
    });
  }
  for (const button of document.querySelectorAll("[data-tab]")) {
    button.addEventListener("click", () => {
      const before = frames.get(shown());
      for (const view of views) view.hidden = view.dataset.view !== button.dataset.tab;
      for (const tab of document.querySelectorAll("[data-tab]")) tab.setAttribute("aria-pressed", String(tab === button));
      frame(shown(), before);
      kept = null;
      search(find.value);
    });
  }
  find.addEventListener("input", () => search(find.value));
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter") search(find.value, {jump: true});
    if (event.key === "Escape") {
      find.value = "";
      search("");
      kept = null;
      frame(shown(), whole(shown()));
    }
  });
  function fromAddress() {
    const text = decodeURIComponent(location.hash.slice(1));
    if (!text) return;
    find.value = text;
    search(text, {jump: true});
  }
  addEventListener("hashchange", fromAddress);
  fromAddress();
})();
