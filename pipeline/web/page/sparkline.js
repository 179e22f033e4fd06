// The last hour as a line. The number beside it says the same in words, so it is hidden from readers.

import { s } from "./dom.js";

const WIDTH = 96;
const HEIGHT = 24;

export function sparkline() {
  const line = s("path", { class: "spark-line" });
  const area = s("path", { class: "spark-area" });
  const element = s(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
      focusable: "false",
    },
    area,
    line,
  );
  function update(values) {
    const numbers = (values ?? []).map(Number);
    const most = Math.max(1, ...numbers);
    const least = Math.min(0, ...numbers);
    const step = WIDTH / Math.max(1, numbers.length - 1);
    const points = numbers.map((value, index) => {
      const y = HEIGHT - 1.5 - ((value - least) / (most - least)) * (HEIGHT - 3);
      return `${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    });
    const path = points.length > 1 ? `M${points.join("L")}` : "";
    line.setAttribute("d", path);
    area.setAttribute("d", path && `${path}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`);
  }
  return { element, update };
}
