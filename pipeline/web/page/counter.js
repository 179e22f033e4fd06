// One counter: its value, its windows, and where the number comes from.

import { chart } from "./chart.js";
import { copyable, shellQuoted, sqlQuoted } from "./copy.js";
import { card, h, keyed, note, say, table } from "./dom.js";
import { moment, regionName, signed, whole } from "./format.js";
import { counterLink } from "./links.js";
import { why } from "./why.js";

const GRAINS = { "1m": "Minutes", "1h": "Hours", "1d": "Days" };

export async function counter(place, context) {
  const { counter: name, region, by } = place;
  const total = figure("Total", "total");
  const uniques = figure("Distinct members", "uniques");
  const adjusted = figure("Corrected by", "adjusted");
  const bars = chart();
  const regions = regionTable(name);
  const shards = shardTable();
  const reasons = why();
  const corrections = adjustmentTable();
  const texts = elsewhere(name, region, by, context);

  const choose = h("div", { class: "choose" }, h("label", { for: "region" }, "Region"), regions.select);
  regions.select.addEventListener(
    "change",
    () => (location.hash = counterLink(name, regions.select.value, by)),
  );
  regions.choose([], region);
  const root = h(
    "div",
    { class: "view" },
    h("div", { class: "title" }, h("h1", { tabindex: "-1", class: "name" }, name), choose),
    h("div", { class: "figures" }, total.element, uniques.element, adjusted.element),
    card("Windows", grains(name, region, by), bars.element),
    h(
      "div",
      { class: "pair even" },
      reasons.element,
      h("div", { class: "stack" }, regions.element, shards.element),
    ),
    corrections.element,
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
          [about, raw, ...(document.remarks ?? [])].filter(Boolean).join("; ") || regionName(region),
        );
      },
      windows: (document) => bars.update(document.windows, document.by, Date.now()),
      detail(document) {
        const found = document.uniques;
        if (found)
          uniques.update(
            found.uniques,
            found.low === found.high
              ? "exactly"
              : `${whole(found.low)} to ${whole(found.high)}, with 95 % confidence`,
          );
        else uniques.update(null, "members of this family are not counted");
        const { adjustments } = document.explanation;
        adjusted.update(
          adjustments.by,
          adjustments.count
            ? `${whole(adjustments.count)} ${adjustments.count === 1 ? "adjustment" : "adjustments"}`
            : "no adjustments",
          signed,
        );
        regions.update(document.regions);
        regions.choose(
          document.regions.map((one) => one.region),
          region,
        );
        shards.update(document.explanation.shards);
        reasons.update(document.explanation);
        corrections.update(document.history);
      },
    },
    close: bars.close,
  };
}

function figure(label, id) {
  const value = h("data", { class: "figure-number", id: `figure-${id}`, value: "" }, "…");
  const more = h("p", { class: "hint" }, "loading");
  const element = h(
    "section",
    { class: "card figure", "aria-label": label },
    h("p", { class: "label" }, label),
    h("p", null, value),
    more,
  );
  return {
    element,
    update(number, text, format = whole) {
      value.value = String(number ?? "");
      say(value, format(number));
      say(more, text);
    },
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
  const { element: box, body } = table("The value by region", [
    { name: "Region" },
    { name: "Share", class: "bar-cell" },
    { name: "Count", number: true },
  ]);
  const empty = note("loading", "Loading regions …");
  const select = h("select", { id: "region" });
  box.hidden = true;
  function update(found) {
    const most = Math.max(1, ...found.map((one) => Number(one.net)));
    box.hidden = !found.length;
    empty.hidden = found.length > 0;
    empty.className = "note note-empty";
    say(empty, "No region is known of it.");
    keyed(
      body,
      found,
      (one) => one.region,
      (one) => {
        const meter = h("meter", { min: 0, "aria-label": `share of ${regionName(one.region)}` });
        const count = h("td", { class: "number" });
        return {
          element: h(
            "tr",
            null,
            h(
              "th",
              { scope: "row" },
              h("a", { href: counterLink(name, one.region) }, regionName(one.region)),
            ),
            h("td", { class: "bar-cell" }, meter),
            count,
          ),
          update(now) {
            meter.max = most;
            meter.value = Math.max(0, Number(now.net));
            say(count, whole(now.net));
          },
        };
      },
    );
  }
  function choose(found, region) {
    const names = ["*", ...new Set([...found, ...(region === "*" ? [] : [region])])];
    if (names.join("\n") === [...select.options].map((one) => one.value).join("\n") && select.options.length)
      return;
    select.replaceChildren(
      ...names.map((one) => h("option", { value: one, selected: one === region }, regionName(one))),
    );
  }
  return { element: card("Regions", empty, box), select, update, choose };
}

function shardTable() {
  const { element: box, body } = table("What each shard saw", [
    { name: "Shard" },
    { name: "Added", number: true },
    { name: "Taken", number: true },
    { name: "Duplicates", number: true },
    { name: "Through", number: true },
  ]);
  const empty = note("loading", "Loading shards …");
  box.hidden = true;
  function update(found) {
    box.hidden = !found.length;
    empty.hidden = found.length > 0;
    empty.className = "note note-empty";
    say(empty, "No shard has counted it.");
    keyed(
      body,
      found,
      (one) => `${one.shard} ${one.replica}`,
      () => {
        const cells = [
          h("th", { scope: "row" }),
          ...Array.from({ length: 4 }, () => h("td", { class: "number" })),
        ];
        return {
          element: h("tr", null, cells),
          update: (one) =>
            [one.shard, one.p, one.n, one.duplicates, one.flushed_through].forEach((value, index) =>
              say(cells[index], whole(value)),
            ),
        };
      },
    );
  }
  return { element: card("Shards", empty, box), update };
}

function adjustmentTable() {
  const { element: box, body } = table("Adjustments, the newest first", [
    { name: "When" },
    { name: "By", number: true },
    { name: "Who" },
    { name: "Why" },
    { name: "Of" },
  ]);
  const empty = note("loading", "Loading adjustments …");
  box.hidden = true;
  function update(found) {
    box.hidden = !found.length;
    empty.hidden = found.length > 0;
    empty.className = "note note-empty";
    say(empty, "Nobody has corrected it.");
    keyed(
      body,
      found,
      (one) => one.id,
      (one) => ({
        element: h(
          "tr",
          null,
          h("th", { scope: "row" }, h("time", { datetime: one.at }, moment(Date.parse(one.at)))),
          h("td", { class: "number" }, signed(one.by)),
          h("td", null, one.who),
          h("td", { class: "wide" }, one.why),
          h("td", null, one.window ? `${one.grain} ${moment(Date.parse(one.window))}` : "total"),
        ),
      }),
    );
  }
  return { element: card("Adjustments", empty, box), update };
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
