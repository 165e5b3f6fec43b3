"use strict";
(() => {
  const shown = (text, parent, name, kind) => {
    const element = document.createElement(name);
    element.className = kind || "";
    element.textContent = text;
    parent.append(element);
    return element;
  };

  // ---- numbers, as the tables write them ----
  const digits = (v) => (v === 0 ? "0" : Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) < 0.001 ? v.toExponential(2) : v.toPrecision(3));
  const scaled = (v, base, units) => {
    let index = 0;
    for (; Math.abs(v) >= base - 0.5 && index + 1 < units.length; index++) v /= base;
    return (digits(v) + " " + units[index]).trim();
  };
  const words = {
    count: (v) => scaled(v, 1000, ["", "K", "M", "G", "T"]),
    share: (v) => digits(v * 100) + " %",
    factor: digits,
    micros: (v) => scaled(v * 1000, 1000, ["ns", "µs", "ms", "s"]),
    bytes: (v) => scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]),
    rate: (v) => digits(v / 1048576) + " MiB/s",
    joule: (v) => scaled(v * 1e9, 1000, ["nJ", "µJ", "mJ", "J", "kJ"]),
  };

  // ---- the data of a plot ----
  const rows = (id) => document.getElementById(id).querySelector(".data").textContent.trim().split("\n");

  const copied = (button) => rows(button.closest("figure").id).join("\n") + "\n";

  // A page from a file may have no clipboard of its own: then a selection is copied.
  async function toClipboard(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = shown(text, document.body, "textarea");
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      button.textContent = (await toClipboard(copied(button))) ? "Copied" : "Not copied";
      setTimeout(() => { button.textContent = "Copy data"; }, 1500);
    });
  }

  // ---- values under the pointer ----
  const tip = shown("", document.body, "div", "tip");
  tip.hidden = true;

  const place = (axis, value) => {
    const share = axis.log ? Math.log(value / axis.low) / Math.log(axis.high / axis.low) : (value - axis.low) / (axis.high - axis.low);
    return axis.from + share * (axis.to - axis.from);
  };
  const along = (axis, value) => axis.names[value] ?? words[axis.unit](value);

  // Points of each line: [place, value along the x axis, value].
  function lines(svg, axes) {
    const found = new Map();
    for (const row of rows(svg.closest("figure").id).slice(1)) {
      const cells = row.split("\t");
      if (!cells[axes.column]) continue;
      if (!found.has(cells[0])) found.set(cells[0], []);
      const at = axes.x.names.length ? axes.x.names.indexOf(cells[1]) : Number(cells[1]);
      found.get(cells[0]).push([place(axes.x, at), at, Number(cells[axes.column])]);
    }
    return found;
  }

  function hover(svg) {
    const axes = JSON.parse(svg.dataset.axes);
    const guide = document.createElementNS(svg.namespaceURI, "path");
    guide.setAttribute("class", "guide");
    svg.append(guide);
    let points = null;
    const hide = () => { tip.hidden = true; guide.removeAttribute("d"); };
    const show = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      if (at.x < axes.x.from - 6 || at.x > axes.x.to + 6) return hide();
      points ??= lines(svg, axes);
      const far = (point) => (axes.steps && point[0] > at.x + 0.5 ? Infinity : Math.abs(point[0] - at.x));
      const near = [...points].map(([name, all]) => [name, all.reduce((best, point) => (far(point) < far(best) ? point : best))]);
      if (near.length === 0) return hide();
      const first = near.map(([, point]) => point).reduce((best, point) => (far(point) < far(best) ? point : best));
      tip.replaceChildren();
      shown(along(axes.x, first[1]), tip, "strong");
      for (const [name, point] of near) {
        if (Math.abs(point[0] - first[0]) > 40 && !axes.steps) continue;
        const line = shown("", tip, "div");
        const drawn = [...svg.querySelectorAll("[data-name]")].find((path) => path.dataset.name === name);
        const kind = drawn ? drawn.getAttribute("class") : "";
        line.innerHTML = "<svg class='swatch' viewBox='0 0 24 12'><path d='M1 6H23'></path></svg>";
        line.querySelector("path").setAttribute("class", kind);
        shown(name + ": " + words[axes.y.unit](point[2]), line, "span");
      }
      guide.setAttribute("d", "M" + first[0] + " " + axes.top + "V" + axes.bottom);
      tip.hidden = false;
      const left = event.clientX + 14 + tip.offsetWidth > innerWidth ? event.clientX - 14 - tip.offsetWidth : event.clientX + 14;
      tip.style.left = Math.max(4, left) + "px";
      tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4)) + "px";
    };
    svg.addEventListener("pointermove", show);
    svg.addEventListener("pointerdown", show);
    svg.addEventListener("pointerleave", hide);
  }
  for (const svg of document.querySelectorAll("svg[data-axes]")) hover(svg);

  // ---- one phase of several ----
  function select(id) {
    for (const section of document.querySelectorAll(".phase")) section.hidden = section.id !== id;
    for (const button of document.querySelectorAll("[data-phase]")) {
      button.setAttribute("aria-pressed", String(button.dataset.phase === id));
    }
  }
  const buttons = [...document.querySelectorAll("[data-phase]")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      history.replaceState(null, "", "#" + button.dataset.phase);
      select(button.dataset.phase);
    });
  }
  if (buttons.length > 0) {
    const wanted = buttons.map((button) => button.dataset.phase).find((id) => "#" + id === location.hash);
    select(wanted || buttons[0].dataset.phase);
  }
})();
