// What the server tells of this page's views: connects, connects anew, and knows when it is stale.

import { parse } from "./format.js";

const STALE_MS = 5000;
const RETRY_MS = 2000;

/**
 * Follows views until it is closed.
 *
 * `on` has a function for each view; `onState` hears `{ state, since, text }`, where the state is
 * connecting, live, stale or trouble; `onRefused` is called when the server will not have us.
 */
export class Stream {
  constructor(query, on, onState, onRefused) {
    this.query = query;
    this.on = on;
    this.onState = onState;
    this.onRefused = onRefused;
    this.heardMs = null;
    this.beat = null;
    this.troubles = new Map();
    this.tell();
    this.resume();
  }

  close() {
    this.pause();
    this.closed = true;
  }

  /** Lets go of the connection, of which browsers allow six to a server, over all their tabs. */
  pause() {
    clearInterval(this.watch);
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  /** Connects again after a pause. */
  resume() {
    if (this.closed || this.source) return;
    this.heardMs = null;
    this.watch = setInterval(() => this.tell(), 500);
    this.connect();
  }

  connect() {
    if (this.closed) return;
    const source = (this.source = new EventSource(`api/v1/events?${this.query}`));
    for (const view of [...Object.keys(this.on), "beat"]) {
      source.addEventListener(view, (event) => this.hear(view, parse(event.data)));
    }
    source.addEventListener("trouble", (event) => {
      const { view, error } = parse(event.data);
      this.heardMs = Date.now();
      this.troubles.set(view, error);
      this.tell();
    });
    source.addEventListener("error", () => {
      // A connection that breaks is taken up by the browser; an answer that is no stream is not.
      if (source.readyState !== EventSource.CLOSED || this.closed) return;
      source.close();
      this.retry = setTimeout(() => this.connect(), RETRY_MS);
      this.onRefused();
    });
  }

  hear(view, document) {
    this.heardMs = Date.now();
    this.troubles.delete(view);
    if (view === "beat") this.beat = document;
    this.on[view]?.(document);
    this.tell();
  }

  tell() {
    if (this.heardMs === null) {
      this.onState({ state: "connecting" });
    } else if (Date.now() - this.heardMs > STALE_MS) {
      this.onState({ state: "stale", since: this.heardMs, text: "the server does not answer; trying again" });
    } else if (this.troubles.size) {
      this.onState({ state: "trouble", text: [...new Set(this.troubles.values())].join("; ") });
    } else if (this.beat && !this.beat.complete) {
      const since = this.beat.as_of ? Date.parse(this.beat.as_of) : null;
      this.onState({ state: "stale", since, text: "a shard was not flushed lately; Operator says which" });
    } else {
      this.onState({ state: "live", age: this.beat?.staleness_ms });
    }
  }
}

/** What a read answers, as a document. Throws an Error with the server's own line. */
export async function ask(path, options) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  const text = await answer.text();
  let document;
  try {
    document = parse(text);
  } catch {
    throw new Error(`the server answered ${answer.status} without a document`);
  }
  if (!answer.ok) throw new Error(document.error ?? `the server answered ${answer.status}`);
  return document;
}
