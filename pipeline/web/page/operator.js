// How the pipeline is doing: lag and ages by shard, the plan, refused events, builds.

import { card, h, keyed, note, say, table } from "./dom.js";
import { bytes, duration, moment, perSecond, short, whole } from "./format.js";
import { counterLink } from "./links.js";

export async function operator(_, context) {
  const root = h("div", { class: "view" }, h("h1", { tabindex: "-1" }, "Operator"));
  if (!context.session.reads_all) {
    root.append(
      card(
        "Not for this token",
        note(
          "empty",
          "This view shows all families, and needs a token that may read all of them: tally token add NAME --read '*'",
        ),
      ),
    );
    return { title: "Operator", root, query: "beat=true", on: {} };
  }
  const health = healthCard();
  const tiles = ["Lag", "Freshness p99", "Dead letters, last hour", "Rollups", "Trends"].map(tile);
  const [shards, plan, builds] = [shardTable(), planTable(), buildTable()];
  const letters = letterList();
  root.append(
    health.element,
    h(
      "div",
      { class: "figures" },
      tiles.map((one) => one.element),
    ),
    shards.element,
    h("div", { class: "pair even" }, plan.element, builds.element),
    letters.element,
  );
  return {
    title: "Operator",
    root,
    query: "operator=true&beat=true",
    on: {
      operator(document) {
        const { status } = document;
        health.update(status);
        const texts = [
          [
            whole(status.shards.reduce((sum, one) => sum + one.lag, 0)),
            status.lag
              ? `records; most in shard ${status.lag.shard}: ${whole(status.lag.greatest)}`
              : "no shards",
          ],
          [
            duration(status.freshness?.p99_ms),
            status.freshness
              ? `p50 ${duration(status.freshness.p50_ms)}, ${whole(status.freshness.samples)} heartbeats`
              : "not known yet",
          ],
          [whole(status.dead_letters.last_hour), `${whole(status.dead_letters.total)} ever`],
          [duration(status.rollup_age_ms_max), "old at most"],
          [duration(status.trends_behind_ms), "of log time behind"],
        ];
        texts.forEach(([value, more], index) => tiles[index].update(value, more));
        shards.update(status.shards);
        plan.update(document.plan);
        letters.update(document.dead_letters);
        builds.update(
          document.builds,
          status.shards.reduce((sum, one) => sum + one.log_end, 0),
        );
      },
    },
  };
}

function healthCard() {
  const word = h("p", { class: "health", "data-state": "loading" }, "Loading …");
  const problems = h("ul", { class: "problems" });
  const remarks = h("ul", { class: "facts" });
  const element = card("Health", word, problems, remarks);
  const fill = (list, texts) =>
    keyed(
      list,
      texts,
      (text) => text,
      (text) => ({ element: h("li", null, text) }),
    );
  return {
    element,
    update(status) {
      word.dataset.state = status.healthy ? "good" : "bad";
      say(
        word,
        status.healthy
          ? "Counting goes on as it should"
          : status.problems.length === 1
            ? "One problem"
            : `${status.problems.length} problems`,
      );
      fill(problems, status.problems);
      fill(remarks, status.remarks);
    },
  };
}

function tile(label) {
  const value = h("p", { class: "figure-number" }, "…");
  const more = h("p", { class: "hint" }, "loading");
  return {
    element: h(
      "section",
      { class: "card figure", "aria-label": label },
      h("p", { class: "label" }, label),
      value,
      more,
    ),
    update: (text, about) => (say(value, text), say(more, about)),
  };
}

function shardTable() {
  const names = ["Lag", "Behind", "Flushed", "Checkpoint", "Freshness p99", "Rules"];
  const { element: box, body } = table("Shards: how far each is, and how long ago it was flushed", [
    { name: "Partition" },
    ...names.map((name) => ({ name, number: true })),
  ]);
  const empty = note("loading", "Loading shards …");
  box.hidden = true;
  function update(found) {
    box.hidden = !found.length;
    empty.hidden = found.length > 0;
    empty.className = "note note-empty";
    say(empty, "There is no log yet: start a worker.");
    keyed(
      body,
      found,
      (one) => one.shard,
      () => {
        const cells = [h("th", { scope: "row" }), ...names.map(() => h("td", { class: "number" }))];
        return {
          element: h("tr", null, cells),
          update(one) {
            const age = (ms) => (ms === null ? "never" : `${duration(ms)} ago`);
            const texts = [
              one.shard,
              whole(one.lag),
              one.behind_ms ? duration(one.behind_ms) : "–",
              age(one.flush_age_ms),
              age(one.checkpoint_age_ms),
              duration(one.freshness_p99_ms),
              one.rules_version ?? "–",
            ];
            texts.forEach((text, index) => say(cells[index], String(text)));
          },
        };
      },
    );
  }
  return { element: card("Partitions", empty, box), update };
}

function planTable() {
  const { element: box, body } = table("Counters that are split, hinted or hot", [
    { name: "Counter" },
    { name: "Rows a second", number: true },
    { name: "Shards", number: true },
    { name: "Why" },
  ]);
  const empty = note("loading", "Loading the plan …");
  box.hidden = true;
  function update(plan) {
    box.hidden = !plan.counters.length;
    empty.hidden = plan.counters.length > 0;
    empty.className = "note note-empty";
    say(empty, "No counter is hot enough to be named by a producer, and none is split.");
    keyed(
      body,
      plan.counters.slice(0, 12),
      (one) => one.counter,
      (one) => {
        const [rate, shards, reason] = [h("td", { class: "number" }), h("td", { class: "number" }), h("td")];
        return {
          element: h(
            "tr",
            null,
            h("th", { scope: "row", class: "name" }, h("a", { href: counterLink(one.counter) }, one.counter)),
            rate,
            shards,
            reason,
          ),
          update(now) {
            say(rate, perSecond(now.rate));
            say(shards, `${now.shards} of ${plan.partitions}`);
            say(reason, now.why ?? (now.hint ? "hinted" : now.fixed ? "fixed by its family" : "whole"));
          },
        };
      },
    );
  }
  return { element: card("Hot counters and the shard plan", empty, box), update };
}

function buildTable() {
  const { element: box, body } = table("Countings of the log", [
    { name: "Build" },
    { name: "State" },
    { name: "Behind", number: true },
    { name: "Left", number: true },
    { name: "Size", number: true },
  ]);
  const empty = note("loading", "Loading builds …");
  box.hidden = true;
  function update(found, records) {
    box.hidden = !found.length;
    empty.hidden = found.length > 0;
    keyed(
      body,
      found,
      (one) => one.build,
      () => {
        const cells = [
          h("th", { scope: "row" }),
          h("td"),
          ...Array.from({ length: 3 }, () => h("td", { class: "number" })),
        ];
        const [chip, bar] = [h("span", { class: "chip" }), h("progress", { max: 1 })];
        cells[1].append(chip, bar);
        return {
          element: h("tr", null, cells),
          update(one) {
            say(cells[0], String(one.build));
            say(chip, one.state);
            chip.className = `chip chip-${one.state}`;
            const replays = one.state === "replaying";
            bar.hidden = !replays;
            // Of the log's records, so many are in it.
            bar.value = records ? Math.max(0, 1 - one.behind / records) : 1;
            bar.setAttribute("aria-label", `replay of build ${one.build}`);
            say(cells[2], whole(one.behind));
            say(cells[3], one.left_s === null ? "–" : one.behind ? duration(one.left_s * 1000) : "caught up");
            say(cells[4], `${short(one.rows)} rows, ${bytes(one.bytes)}`);
          },
        };
      },
    );
  }
  return { element: card("Builds", empty, box), update };
}

function letterList() {
  const list = h("div", { class: "letters" });
  const empty = note("loading", "Loading dead letters …");
  const element = card("Dead letters that wait", empty, list);
  return {
    element,
    update(found) {
      empty.hidden = found.reasons.length > 0;
      empty.className = "note note-empty";
      say(empty, "No event waits: all that was refused was retried, or nothing was.");
      keyed(
        list,
        found.reasons,
        (one) => one.reason,
        (one) => {
          const count = h("span", { class: "letter-count" });
          const samples = h("ul");
          return {
            element: h(
              "details",
              null,
              h("summary", null, count, " ", h("span", { class: "wide" }, one.reason)),
              samples,
            ),
            update(now) {
              say(count, whole(now.count));
              keyed(
                samples,
                now.samples,
                (sample) => sample.place,
                (sample) => ({
                  element: h(
                    "li",
                    null,
                    h(
                      "p",
                      { class: "hint" },
                      `${sample.place} · ${moment(Date.parse(sample.at))} · ${bytes(sample.bytes)}`,
                    ),
                    h("pre", null, h("code", { tabindex: "0" }, sample.sample)),
                  ),
                }),
              );
            },
          };
        },
      );
    },
  };
}
