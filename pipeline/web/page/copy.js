// Texts to take elsewhere: a command or a query, and a button that copies it.

import { h } from "./dom.js";

/** A text in single quotes, as a shell reads it. */
export const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A text as ClickHouse reads it. */
export const sqlQuoted = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

export function copyable(name, said) {
  const code = h("code", { tabindex: "0", "aria-label": name });
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Copy ${name}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      said(`${name} copied`);
    } catch {
      // Where the browser does not let us, the text is chosen, and the reader copies it.
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
      said(`${name} selected: press Ctrl and C`);
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  const element = h(
    "div",
    { class: "copyable" },
    h("div", { class: "copyable-head" }, h("h3", null, name), button),
    h("pre", null, code),
  );
  return { element, update: (text) => (code.textContent = text) };
}
