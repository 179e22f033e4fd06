// The page: which view is shown, what it follows, and how fresh that is.

import { counter } from "./counter.js";
import { h, note, say } from "./dom.js";
import { clock, duration } from "./format.js";
import { counterLink, readHash } from "./links.js";
import { operator } from "./operator.js";
import { overview } from "./overview.js";
import { signInForm, signOut, whoAmI } from "./session.js";
import { Stream } from "./stream.js";

const VIEWS = { overview, counter, operator };
const AGAIN_MS = 3000;
const HIDDEN_MS = 20_000;

const part = (id) => document.getElementById(id);
const main = part("main");
let session = null;
let current = null;
let turn = 0;

const said = (text) => say(part("said"), text);

/** Names for the search box to offer. */
function known(counters) {
  const list = part("search-known");
  if (counters.join("\n") === [...list.options].map((one) => one.value).join("\n")) return;
  list.replaceChildren(...counters.map((value) => h("option", { value })));
}

function leave() {
  current?.stream?.close();
  current?.view.close?.();
  clearTimeout(current?.again);
  current = null;
}

function show(root) {
  main.replaceChildren(root);
}

async function go({ focus = false } = {}) {
  const mine = ++turn;
  const place = readHash(location.hash);
  leave();
  tell({ state: "connecting" });
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === place.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    session ??= await whoAmI();
  } catch (error) {
    if (mine !== turn) return;
    show(
      h(
        "div",
        { class: "view" },
        h("h1", { tabindex: "-1" }, "Tally"),
        note("error", `The server does not answer (${error.message}). Trying again …`),
      ),
    );
    current = { view: {}, again: setTimeout(go, AGAIN_MS) };
    return;
  }
  if (mine !== turn) return;
  part("sign-out").hidden = !(session.tokens && session.name);
  if (session.tokens && !session.name) {
    show(
      signInForm((found) => {
        session = found;
        go({ focus: true });
      }),
    );
    tell({ state: "signed-out" });
    if (focus) part("token").focus();
    return;
  }
  if (!main.firstElementChild) show(h("div", { class: "view" }, note("loading", "Loading …")));
  const view = await VIEWS[place.view](place, { session, said, known });
  if (mine !== turn) {
    view.close?.();
    return;
  }
  show(view.root);
  document.title = `${view.title} · Tally`;
  current = { view };
  current.stream = new Stream(view.query, view.on, tell, refused);
  if (view.again) current.again = setTimeout(go, view.again);
  if (focus) {
    view.root.querySelector("h1").focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

/** The server would not have us: the token may be gone. */
async function refused() {
  try {
    session = await whoAmI();
    if (session.tokens && !session.name) go();
  } catch {
    // It is away; the stream tries again by itself.
  }
}

function tell({ state, since, text, age }) {
  const words = {
    connecting: "Connecting",
    "signed-out": "Signed out",
    stale: "Stale",
    trouble: "Trouble",
    live: "Live",
  };
  part("pulse").dataset.state = state;
  say(part("pulse-text"), words[state]);
  const isKnown = state === "live" && age !== undefined && age !== null;
  say(part("pulse-age"), isKnown ? `${duration(Math.max(100, Math.round(age / 100) * 100))} old` : "");
  const banner = part("banner");
  banner.hidden = state !== "stale" && state !== "trouble";
  banner.dataset.state = state;
  if (state === "stale")
    say(banner, `Stale since ${since ? `${clock(since)} UTC` : "the beginning"}: ${text}.`);
  if (state === "trouble") say(banner, `Some numbers cannot be told now: ${text}.`);
  main.classList.toggle("is-stale", state === "stale");
}

part("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = part("search-text");
  const name = text.value.trim();
  const isCounter = name.indexOf(":") > 0;
  text.setCustomValidity(isCounter ? "" : "A counter is family:key, such as likes:post-42");
  if (!isCounter) return void text.reportValidity();
  text.value = "";
  location.hash = counterLink(name);
});
part("search-text").addEventListener("input", (event) => event.target.setCustomValidity(""));
part("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
part("sign-out").addEventListener("click", async () => {
  await signOut();
  session = null;
  go({ focus: true });
});
// A page that is left, or that nobody looks at for a while, must not hold a connection.
let hiding = null;
addEventListener("pagehide", () => current?.stream?.pause());
addEventListener("pageshow", () => current?.stream?.resume());
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => current?.stream?.pause(), HIDDEN_MS);
  else current?.stream?.resume();
});
addEventListener("hashchange", () => go({ focus: true }));
go();
