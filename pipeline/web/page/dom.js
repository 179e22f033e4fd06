// Elements from data. Texts become text nodes and nothing else: there is no way from here to markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element. A function among the attributes listens to the event of that name. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Sets a text if it is another one, so that a screen reader hears only changes. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Shows items as children of an element, one each, and keeps the child of an item that stays: what
 * has the focus keeps it, and a link does not move away under a finger.
 *
 * `make` returns `{ element, update }`; `update` is called with the item and its index each time.
 */
export function keyed(parent, items, keyOf, make) {
  const known = (parent.tallyKnown ??= new Map());
  const now = new Map();
  let place = parent.firstElementChild;
  items.forEach((item, index) => {
    const key = keyOf(item, index);
    const row = known.get(key) ?? make(item);
    row.update?.(item, index);
    now.set(key, row);
    if (row.element === place) place = place.nextElementSibling;
    else parent.insertBefore(row.element, place);
  });
  for (const [key, row] of known) if (now.get(key) !== row) row.element.remove();
  parent.tallyKnown = now;
}

/** A heading with a card around what follows. */
export function card(title, ...children) {
  const id = `card-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

/** A table with a caption, in a box of its own that scrolls where the page is narrow. */
export function table(caption, columns) {
  const body = h("tbody");
  const head = columns.map((column) =>
    h(
      "th",
      { scope: "col", class: [column.number && "number", column.class].filter(Boolean).join(" ") || null },
      column.unseen ? h("span", { class: "unseen" }, column.name) : column.name,
    ),
  );
  const element = h(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "unseen" }, caption), h("thead", null, h("tr", null, head)), body),
  );
  return { element, body };
}

/** A link to a counter, its family soft, so that keys are easy to compare. */
export function counterName() {
  const family = h("span", { class: "family" });
  const key = h("span");
  const element = h("a", null, family, key);
  return {
    element,
    update(counter, href) {
      const colon = counter.indexOf(":") + 1;
      say(family, counter.slice(0, colon));
      say(key, counter.slice(colon));
      if (element.getAttribute("href") !== href) element.setAttribute("href", href);
    },
  };
}

/** What a part shows while there is nothing in it: loading, empty, or wrong. */
export function note(kind, text) {
  return h("p", { class: `note note-${kind}` }, text);
}
