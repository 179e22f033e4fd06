// What views are made of: figures, and lists and tables that say when they are loading or empty.

import { card, h, keyed, note, say, table } from "./dom.js";
import { regionName } from "./format.js";

/** A number in a card of its own, with a line about it. */
export function figure(label, id = null) {
  const value = h("data", { class: "figure-number", id, value: "" }, "…");
  const more = h("p", { class: "hint" }, "loading");
  return {
    element: h(
      "section",
      { class: "card figure", "aria-label": label },
      h("p", { class: "label" }, label),
      h("p", null, value),
      more,
    ),
    /** `text` is the number as people read it; `about` the line below it. */
    update(number, text, about) {
      value.value = String(number ?? "");
      say(value, text);
      say(more, about);
    },
  };
}

/**
 * A card with items, one child of `parent` each: loading at first, then the items, or why there are none.
 *
 * `box` is hidden while there are none; `before` stands above. `keyOf` and `row` are those of `keyed`.
 */
export function listCard(title, { parent, box = parent, before = [], loading, empty, keyOf, row }) {
  const words = note("loading", loading);
  box.hidden = true;
  return {
    element: card(title, ...before, words, box),
    update(items, why = empty) {
      box.hidden = !items.length;
      words.hidden = items.length > 0;
      words.className = "note note-empty";
      say(words, why);
      keyed(parent, items, keyOf, row);
    },
  };
}

/** As `listCard`, in a table with a caption and columns. */
export function tableCard(title, { caption, columns, ...more }) {
  const { element, body } = table(caption, columns);
  return listCard(title, { ...more, parent: body, box: element });
}

/** Makes rows of texts alone, the first of which names the row; `texts` has them of an item. */
export function textRow(columns, texts) {
  return () => {
    const cells = columns.map((column, index) =>
      index
        ? h("td", { class: [column.number && "number", column.class].filter(Boolean).join(" ") || null })
        : h("th", { scope: "row" }),
    );
    return {
      element: h("tr", null, cells),
      update: (item) => texts(item).forEach((text, index) => say(cells[index], text)),
    };
  };
}

/** A choice of a region, of all of them at first. `go` is called with the one that is chosen. */
export function regionChoice(region, go) {
  const element = h("select", { id: "region" });
  element.addEventListener("change", () => go(element.value));
  function update(found) {
    const names = ["*", ...new Set([...found, ...(region === "*" ? [] : [region])])];
    const shown = [...element.options].map((one) => one.value);
    if (shown.length && names.join("\n") === shown.join("\n")) return;
    element.replaceChildren(
      ...names.map((name) => h("option", { value: name, selected: name === region }, regionName(name))),
    );
  }
  update([]);
  return { element, update };
}
