// One counter: its value, its windows, and where the number comes from.

import { chart } from "./chart.js";
import { copyable, shellQuoted, sqlQuoted } from "./copy.js";
import { card, h, say } from "./dom.js";
import { moment, regionName, signed, whole } from "./format.js";
import { counterLink } from "./links.js";
import { figure, regionChoice, tableCard, textRow } from "./parts.js";
import { why } from "./why.js";

const GRAINS = { "1m": "Minutes", "1h": "Hours", "1d": "Days" };

export async function counter(place, context) {
  const { counter: name, region, by } = place;
  const total = figure("Total", "figure-total");
  const uniques = figure("Distinct members", "figure-uniques");
  const adjusted = figure("Corrected by", "figure-adjusted");
  const bars = chart();
  const regions = regionTable(name);
  const shards = shardTable();
  const reasons = why();
  const corrections = adjustmentTable();
  const texts = elsewhere(name, region, by, context);

  const choice = regionChoice(region, (chosen) => (location.hash = counterLink(name, chosen, by)));
  const choose = h("div", { class: "choose" }, h("label", { for: "region" }, "Region"), choice.element);
  const root = h(
    "div",
    { class: "view" },
    h("div", { class: "title" }, h("h1", { tabindex: "-1", class: "name" }, name), choose),
    h("div", { class: "figures" }, total.element, uniques.element, adjusted.element),
    card("Windows", grains(name, region, by), bars.element),
    h(
      "div",
      { class: "pair" },
      h("div", { class: "stack" }, reasons.element, corrections.element),
      h("div", { class: "stack" }, regions.element, shards.element),
    ),
    texts,
  );

  const query = new URLSearchParams({ counter: name, windows: name, detail: name, by, region, beat: "true" });
  return {
    title: name,
    root,
    query: query.toString(),
    on: {
      counter(document) {
        const about =
          document.low === undefined || document.low === null
            ? ""
            : `between ${whole(document.low)} and ${whole(document.high)}`;
        const raw = document.net === document.total ? "" : `${whole(document.net)} net, shown as 0`;
        total.update(
          document.total,
          (about && "≈ ") + whole(document.total),
          [about, raw, ...(document.remarks ?? [])].filter(Boolean).join("; ") || regionName(region),
        );
      },
      windows: (document) => bars.update(document.windows, document.by, Date.now()),
      detail(document) {
        const found = document.uniques;
        if (found)
          uniques.update(
            found.uniques,
            whole(found.uniques),
            found.low === found.high
              ? "exactly"
              : `${whole(found.low)} to ${whole(found.high)}, with 95 % confidence`,
          );
        else uniques.update(null, "–", "members of this family are not counted");
        const { count, by: amount } = document.explanation.adjustments;
        adjusted.update(
          amount,
          signed(amount),
          count ? `${whole(count)} ${count === 1 ? "adjustment" : "adjustments"}` : "no adjustments",
        );
        const most = Math.max(1, ...document.regions.map((one) => Number(one.net)));
        regions.update(document.regions.map((one) => ({ ...one, most })));
        choice.update(document.regions.map((one) => one.region));
        shards.update(document.explanation.shards);
        reasons.update(document.explanation);
        corrections.update(document.history);
      },
    },
    close: bars.close,
  };
}

function grains(name, region, by) {
  return h(
    "div",
    { class: "segments", role: "group", "aria-label": "Size of windows" },
    Object.entries(GRAINS).map(([grain, text]) =>
      h("a", { href: counterLink(name, region, grain), "aria-current": grain === by ? "true" : null }, text),
    ),
  );
}

function regionTable(name) {
  return tableCard("Regions", {
    caption: "The value by region",
    columns: [{ name: "Region" }, { name: "Share", class: "bar-cell" }, { name: "Count", number: true }],
    loading: "Loading regions …",
    empty: "No region is known of it.",
    keyOf: (one) => one.region,
    row(one) {
      const meter = h("meter", { min: 0, "aria-label": `share of ${regionName(one.region)}` });
      const count = h("td", { class: "number" });
      const link = h("a", { href: counterLink(name, one.region) }, regionName(one.region));
      return {
        element: h(
          "tr",
          null,
          h("th", { scope: "row" }, link),
          h("td", { class: "bar-cell" }, meter),
          count,
        ),
        update(now) {
          meter.max = now.most;
          meter.value = Math.max(0, Number(now.net));
          say(count, whole(now.net));
        },
      };
    },
  });
}

function shardTable() {
  const columns = [
    { name: "Shard" },
    { name: "Added", number: true },
    { name: "Taken", number: true },
    { name: "Duplicates", number: true },
    { name: "Through", number: true },
  ];
  return tableCard("Shards", {
    caption: "What each shard saw",
    columns,
    loading: "Loading shards …",
    empty: "No shard has counted it.",
    keyOf: (one) => `${one.shard} ${one.replica}`,
    row: textRow(columns, (one) =>
      [one.shard, one.p, one.n, one.duplicates, one.flushed_through].map(whole),
    ),
  });
}

function adjustmentTable() {
  const columns = [
    { name: "When" },
    { name: "By", number: true },
    { name: "Who" },
    { name: "Why", class: "wide" },
    { name: "Of" },
  ];
  return tableCard("Adjustments", {
    caption: "Adjustments, the newest first",
    columns,
    loading: "Loading adjustments …",
    empty: "Nobody has corrected it.",
    keyOf: (one) => one.id,
    row: textRow(columns, (one) => [
      moment(Date.parse(one.at)),
      signed(one.by),
      one.who,
      one.why,
      one.window ? `${one.grain} ${moment(Date.parse(one.window))}` : "total",
    ]),
  });
}

function elsewhere(name, region, by, context) {
  const everywhere = region === "*";
  const view = everywhere ? `counts_${by}` : `counts_by_region_${by}`;
  const where = `counter = ${sqlQuoted(name)}${everywhere ? "" : ` AND region = ${sqlQuoted(region)}`}`;
  const url = new URL(`api/v1/counters/${encodeURIComponent(name)}/windows`, location.href.split("#")[0]);
  url.searchParams.set("by", by);
  if (!everywhere) url.searchParams.set("region", region);
  const token = context.session.tokens ? ` -H 'Authorization: Bearer TOKEN'` : "";
  const [sql, curl, command] = ["SQL", "curl", "tally"].map((one) => copyable(one, context.said));
  sql.update(`SELECT window, count FROM tally.${view}\nWHERE ${where}\nORDER BY window`);
  curl.update(`curl${token} ${shellQuoted(url.href)}`);
  command.update(
    `tally count ${shellQuoted(name)} --by ${by}${everywhere ? "" : ` --region ${shellQuoted(region)}`}`,
  );
  return card("The same elsewhere", h("div", { class: "texts" }, sql.element, curl.element, command.element));
}
