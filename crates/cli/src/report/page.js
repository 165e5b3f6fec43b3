"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Set();

  // Colours of the page for a layout: paper stays transparent, text and lines follow light or dark.
  function themed(layout) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const out = {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: 13, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--soft"), font: { color: colour("--ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--accent") },
    };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
      out[name] = {
        automargin: true, gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--line"),
        ...layout[name],
      };
      if (layout[name].title) out[name].title = { ...layout[name].title, font: { size: 12 }, standoff: 10 };
    }
    return out;
  }

  const shown = (element) => !element.closest("[hidden]");

  function draw() {
    for (const { id, plot } of figures) {
      const element = document.getElementById(id);
      if (drawn.has(id) || !shown(element)) continue;
      drawn.add(id);
      Plotly.newPlot(element, plot.data, themed(plot.layout), plot.config);
    }
  }

  function select(id) {
    for (const section of document.querySelectorAll(".phase")) section.hidden = section.id !== id;
    for (const button of document.querySelectorAll("[data-phase]")) {
      button.setAttribute("aria-pressed", String(button.dataset.phase === id));
    }
    draw();
    for (const element of document.querySelectorAll("#" + id + " .plot")) Plotly.Plots.resize(element);
  }

  dark.addEventListener("change", () => {
    for (const { id, plot } of figures) {
      if (drawn.has(id)) Plotly.react(id, plot.data, themed(plot.layout), plot.config);
    }
  });

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
  draw();
})();
