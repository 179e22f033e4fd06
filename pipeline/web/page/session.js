// Signing in with a token. The browser keeps it where no script can read it.

import { card, h } from "./dom.js";
import { ask } from "./stream.js";

export const whoAmI = () => ask("session");

export async function signOut() {
  await ask("session", { method: "DELETE" });
}

/** A form; `signedIn` is called with who it is. */
export function signInForm(signedIn) {
  const token = h("input", {
    id: "token",
    type: "password",
    autocomplete: "current-password",
    required: true,
    "aria-describedby": "token-hint token-error",
    spellcheck: "false",
  });
  const wrong = h("p", { id: "token-error", class: "note note-error", role: "alert" });
  const button = h("button", { type: "submit" }, "Sign in");
  wrong.hidden = true;
  const form = h(
    "form",
    { class: "sign-in" },
    h("label", { for: "token" }, "Token"),
    token,
    h(
      "p",
      { id: "token-hint", class: "hint" },
      "One of tally token add, or a JWT. It is kept until the browser is closed, and used to read only.",
    ),
    wrong,
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const found = await ask("session", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ token: token.value }),
      });
      token.value = "";
      signedIn(found);
    } catch (error) {
      wrong.textContent = `Not signed in: ${error.message}.`;
      wrong.hidden = false;
      token.focus();
    } finally {
      button.disabled = false;
    }
  });
  return h("div", { class: "view narrow" }, h("h1", { tabindex: "-1" }, "Tally"), card("Sign in", form));
}
