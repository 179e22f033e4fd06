// Windows as bars, with a cursor and zoom, by pointer and by keyboard.
//
// To a screen reader it is a slider over windows, which says each window's count; the table below
// has all of them.

import { h, s, say } from "./dom.js";
import { axisName, short, whole, windowName } from "./format.js";
import { marks, ticks, withoutGaps, zoomed } from "./scale.js";

const HEIGHT = 240;
const PAD = { top: 12, right: 8, bottom: 26, left: 46 };
const TICK_EVERY_PX = 84;
const TICK_WIDTH_PX = 34;
const DRAG_PX = 6;

export function chart() {
  const grid = s("g", { class: "grid" });
  const bars = s("path", { class: "bars" });
  const mark = s("rect", { class: "cursor", visibility: "hidden" });
  const drag = s("rect", { class: "drag", visibility: "hidden" });
  const svg = s("svg", { height: HEIGHT, "aria-hidden": "true", focusable: "false" }, grid, bars, mark, drag);
  const plot = h(
    "div",
    {
      class: "plot",
      role: "slider",
      tabindex: "0",
      "aria-label": "Windows",
      "aria-valuemin": 0,
      "aria-valuemax": 0,
      "aria-valuenow": 0,
      "aria-valuetext": "loading",
    },
    svg,
  );
  const readout = h("p", { class: "readout" });
  const tool = (name, text, act) =>
    h("button", { type: "button", class: "quiet", "aria-label": name, click: act }, text);
  const reset = tool("Reset zoom", "Reset", () => zoomTo(null));
  const tools = h(
    "div",
    { class: "tools" },
    tool("Zoom in", "+", () => zoomBy(0.5)),
    tool("Zoom out", "−", () => zoomBy(2)),
    reset,
  );
  const hint = h(
    "p",
    { class: "hint" },
    "Drag to zoom. With the keyboard: arrows move, + and − zoom, 0 shows all.",
  );
  const body = h("tbody");
  const listed = h(
    "details",
    { class: "as-table" },
    h("summary", null, "As a table"),
    h(
      "div",
      { class: "table tall", tabindex: "0", role: "region", "aria-label": "Windows as a table" },
      h(
        "table",
        null,
        h("caption", { class: "unseen" }, "Windows, the newest first"),
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "Window"),
            h("th", { scope: "col", class: "number" }, "Count"),
          ),
        ),
        body,
      ),
    ),
  );
  listed.addEventListener("toggle", fillTable);
  const element = h(
    "div",
    { class: "chart" },
    h("div", { class: "chart-head" }, readout, tools),
    plot,
    hint,
    listed,
  );

  let all = [];
  let by = "1m";
  let range = null; // Times of the first and after the last window, so that it stays as time goes on.
  let cursor = null; // The time of the window that is pointed at; null is the newest.

  const shown = () => {
    if (!range) return [0, all.length];
    const from = all.findIndex((one) => one.ms >= range[0]);
    const to = all.findIndex((one) => one.ms >= range[1]);
    return [Math.max(0, from), to < 0 ? all.length : to];
  };
  const size = () => ({
    width: Math.max(200, plot.clientWidth) - PAD.left - PAD.right,
    height: HEIGHT - PAD.top - PAD.bottom,
  });

  function zoomTo(indexes) {
    const [from, to] = indexes ?? [0, all.length];
    range = from <= 0 && to >= all.length ? null : [all[from].ms, to >= all.length ? Infinity : all[to].ms];
    draw();
  }
  function zoomBy(factor) {
    if (!all.length) return;
    const [from, to] = shown();
    const at = all.findIndex((one) => one.ms === cursor);
    zoomTo(zoomed([from, to], factor, at >= from && at < to ? at : to, all.length));
  }
  function point(index) {
    const [from, to] = shown();
    cursor = all[Math.min(to - 1, Math.max(from, index))]?.ms ?? null;
    draw();
  }

  function draw() {
    const [from, to] = shown();
    const windows = all.slice(from, to);
    const { width, height } = size();
    const counts = windows.map((one) => Number(one.count));
    const lines = ticks(Math.min(0, ...counts), Math.max(1, ...counts), 4);
    const top = Math.max(lines.at(-1) ?? 1, ...counts);
    const bottom = Math.min(0, ...counts);
    const y = (value) => PAD.top + height * (1 - (value - bottom) / (top - bottom || 1));
    const step = width / Math.max(1, windows.length);
    const gap = step > 6 ? 2 : step > 3 ? 1 : 0;
    svg.setAttribute("width", width + PAD.left + PAD.right);
    svg.setAttribute("viewBox", `0 0 ${width + PAD.left + PAD.right} ${HEIGHT}`);
    bars.setAttribute(
      "d",
      counts
        .map((count, index) => {
          if (!count) return "";
          const left = (PAD.left + index * step + gap / 2).toFixed(2);
          return `M${left} ${y(0).toFixed(2)}V${y(count).toFixed(2)}h${(step - gap).toFixed(2)}V${y(0).toFixed(2)}Z`;
        })
        .join(""),
    );
    grid.replaceChildren(
      ...lines.flatMap((value) => [
        s("line", {
          x1: PAD.left,
          x2: PAD.left + width,
          y1: y(value),
          y2: y(value),
          class: value === 0 ? "zero" : null,
        }),
        s("text", { x: PAD.left - 8, y: y(value) + 4, "text-anchor": "end" }, short(value)),
      ]),
      ...timeTicks(windows, width, step),
    );
    const at = windows.findIndex((one) => one.ms === cursor);
    const index = at < 0 ? windows.length - 1 : at;
    mark.setAttribute("visibility", at < 0 ? "hidden" : "visible");
    for (const [name, value] of Object.entries({
      x: PAD.left + index * step,
      y: PAD.top,
      width: Math.max(1, step),
      height,
    }))
      mark.setAttribute(name, Math.max(0, value));
    const one = windows[index];
    const text = one
      ? `${windowName(one.ms, by)}: ${whole(one.count)}${one.low === undefined ? "" : `, between ${whole(one.low)} and ${whole(one.high)}`}`
      : "No windows";
    say(readout, text);
    plot.setAttribute("aria-valuemax", Math.max(0, windows.length - 1));
    plot.setAttribute("aria-valuenow", Math.max(0, index));
    plot.setAttribute("aria-valuetext", text);
    reset.disabled = !range;
    fillTable();
  }

  function timeTicks(windows, width, step) {
    return marks(windows, by, width / TICK_EVERY_PX).flatMap((index) => {
      const left = index * step;
      if (left > width - TICK_WIDTH_PX) return [];
      return [
        s("line", { x1: PAD.left + left, x2: PAD.left + left, y1: HEIGHT - 24, y2: HEIGHT - 20, class: "zero" }),
        s("text", { x: PAD.left + left, y: HEIGHT - 7 }, axisName(windows[index].ms, by)),
      ];
    });
  }

  function fillTable() {
    if (!listed.open) return;
    const [from, to] = shown();
    const rows = all
      .slice(from, to)
      .reverse()
      .map((one) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, windowName(one.ms, by)),
          h("td", { class: "number" }, whole(one.count)),
        ),
      );
    body.replaceChildren(...rows);
  }

  const indexAt = (x) => {
    const [from, to] = shown();
    const { width } = size();
    return from + Math.floor(((x - plot.getBoundingClientRect().left - PAD.left) / width) * (to - from));
  };
  let began = null;
  plot.addEventListener("pointerdown", (event) => {
    began = event.clientX;
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", (event) => {
    if (began === null) return point(indexAt(event.clientX));
    const left = plot.getBoundingClientRect().left;
    drag.setAttribute("visibility", Math.abs(event.clientX - began) > DRAG_PX ? "visible" : "hidden");
    drag.setAttribute("x", Math.min(began, event.clientX) - left);
    drag.setAttribute("width", Math.abs(event.clientX - began));
    drag.setAttribute("y", PAD.top);
    drag.setAttribute("height", HEIGHT - PAD.top - PAD.bottom);
  });
  plot.addEventListener("pointerup", (event) => {
    drag.setAttribute("visibility", "hidden");
    if (began !== null && Math.abs(event.clientX - began) > DRAG_PX && all.length) {
      const [from, to] = shown();
      const ends = [indexAt(Math.min(began, event.clientX)), indexAt(Math.max(began, event.clientX)) + 1];
      const start = Math.max(from, Math.min(ends[0], to - 4));
      zoomTo([start, Math.min(to, Math.max(start + 4, ends[1]))]);
    }
    began = null;
  });
  plot.addEventListener("pointercancel", () => {
    began = null;
    drag.setAttribute("visibility", "hidden");
  });
  plot.addEventListener("pointerleave", () => {
    if (began === null && document.activeElement !== plot) {
      cursor = null;
      draw();
    }
  });
  plot.addEventListener("keydown", (event) => {
    const [from, to] = shown();
    const at = all.findIndex((one) => one.ms === cursor);
    const here = at < 0 ? to - 1 : at;
    const keys = {
      ArrowLeft: () => point(here - 1),
      ArrowRight: () => point(here + 1),
      ArrowDown: () => point(here - 1),
      ArrowUp: () => point(here + 1),
      PageUp: () => point(here - 10),
      PageDown: () => point(here + 10),
      Home: () => point(from),
      End: () => point(to - 1),
      "+": () => zoomBy(0.5),
      "=": () => zoomBy(0.5),
      "-": () => zoomBy(2),
      0: () => zoomTo(null),
      Escape: () => zoomTo(null),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });

  const watching = new ResizeObserver(() => draw());
  watching.observe(plot);
  return {
    element,
    /** Shows windows of a grain; another grain is shown as a whole. */
    update(windows, grain, nowMs) {
      if (grain !== by) [range, cursor] = [null, null];
      by = grain;
      all = withoutGaps(windows, grain, nowMs);
      draw();
    },
    close: () => watching.disconnect(),
  };
}
