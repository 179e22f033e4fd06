// How the pipeline is doing: lag and ages by shard, the plan, refused events, builds.

import { card, h, keyed, note, say } from "./dom.js";
import { bytes, duration, moment, perSecond, short, whole } from "./format.js";
import { counterLink } from "./links.js";
import { figure, listCard, tableCard, textRow } from "./parts.js";

const HOT_SHOWN = 12;

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
  const tiles = ["Lag", "Freshness p99", "Dead letters, last hour", "Rollups", "Trends"].map((label) => figure(label));
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
    h("div", { class: "pair" }, plan.element, h("div", { class: "stack" }, builds.element, letters.element)),
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
        texts.forEach(([text, about], index) => tiles[index].update(null, text, about));
        shards.update(status.shards);
        const { counters, partitions } = document.plan;
        plan.update(counters.slice(0, HOT_SHOWN).map((one) => ({ ...one, partitions })));
        letters.update(document.dead_letters.reasons);
        const records = status.shards.reduce((sum, one) => sum + one.log_end, 0);
        builds.update(document.builds.map((one) => ({ ...one, records })));
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

function shardTable() {
  const names = ["Lag", "Behind", "Flushed", "Checkpoint", "Freshness p99", "Rules"];
  const columns = [{ name: "Partition" }, ...names.map((name) => ({ name, number: true }))];
  const age = (ms) => (ms === null ? "never" : `${duration(ms)} ago`);
  return tableCard("Partitions", {
    caption: "Shards: how far each is, and how long ago it was flushed",
    columns,
    loading: "Loading shards …",
    empty: "There is no log yet: start a worker.",
    keyOf: (one) => one.shard,
    row: textRow(columns, (one) => [
      String(one.shard),
      whole(one.lag),
      one.behind_ms ? duration(one.behind_ms) : "–",
      age(one.flush_age_ms),
      age(one.checkpoint_age_ms),
      duration(one.freshness_p99_ms),
      String(one.rules_version ?? "–"),
    ]),
  });
}

function planTable() {
  return tableCard("Hot counters and the shard plan", {
    caption: "Counters that are split, hinted or hot",
    columns: [
      { name: "Counter" },
      { name: "Rows a second", number: true },
      { name: "Shards", number: true },
      { name: "Why" },
    ],
    loading: "Loading the plan …",
    empty: "No counter is hot enough to be named by a producer, and none is split.",
    keyOf: (one) => one.counter,
    row(one) {
      const [rate, shards, reason] = [h("td", { class: "number" }), h("td", { class: "number" }), h("td")];
      const link = h("a", { href: counterLink(one.counter) }, one.counter);
      return {
        element: h("tr", null, h("th", { scope: "row", class: "name" }, link), rate, shards, reason),
        update(now) {
          say(rate, perSecond(now.rate));
          say(shards, `${now.shards} of ${now.partitions}`);
          say(reason, now.why ?? (now.hint ? "hinted" : now.fixed ? "fixed by its family" : "whole"));
        },
      };
    },
  });
}

function buildTable() {
  return tableCard("Builds", {
    caption: "Countings of the log",
    columns: [
      { name: "Build" },
      { name: "State" },
      { name: "Behind", number: true },
      { name: "Left", number: true },
      { name: "Size", number: true },
    ],
    loading: "Loading builds …",
    empty: "Nothing was counted yet.",
    keyOf: (one) => one.build,
    row(first) {
      const [chip, bar] = [h("span", { class: "chip" }), h("progress", { max: 1 })];
      const numbers = Array.from({ length: 3 }, () => h("td", { class: "number" }));
      bar.setAttribute("aria-label", `replay of build ${first.build}`);
      return {
        element: h(
          "tr",
          null,
          h("th", { scope: "row" }, String(first.build)),
          h("td", null, chip, bar),
          numbers,
        ),
        update(one) {
          say(chip, one.state);
          chip.className = `chip chip-${one.state}`;
          bar.hidden = one.state !== "replaying";
          // Of the log's records, so many are in it.
          bar.value = one.records ? Math.max(0, 1 - one.behind / one.records) : 1;
          const left = one.behind ? duration(one.left_s === null ? null : one.left_s * 1000) : "caught up";
          const texts = [whole(one.behind), left, `${short(one.rows)} rows, ${bytes(one.bytes)}`];
          texts.forEach((text, index) => say(numbers[index], text));
        },
      };
    },
  });
}

function letterList() {
  return listCard("Dead letters that wait", {
    parent: h("div", { class: "letters" }),
    loading: "Loading dead letters …",
    empty: "No event waits: all that was refused was retried, or nothing was.",
    keyOf: (one) => one.reason,
    row(one) {
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
          keyed(samples, now.samples, (sample) => sample.place, letter);
        },
      };
    },
  });
}

function letter(sample) {
  const about = `${sample.place} · ${moment(Date.parse(sample.at))} · ${bytes(sample.bytes)}`;
  return {
    element: h(
      "li",
      null,
      h("p", { class: "hint" }, about),
      h("pre", null, h("code", { tabindex: "0" }, sample.sample)),
    ),
  };
}
