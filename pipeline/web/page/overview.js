// Who leads, who trends, who came and went; and how much is counted in all.

import { card, counterName, h, note, say } from "./dom.js";
import { minute, perSecond, sentences, short, whole } from "./format.js";
import { counterLink, overviewLink } from "./links.js";
import { listCard, regionChoice, tableCard } from "./parts.js";
import { sparkline } from "./sparkline.js";
import { ask } from "./stream.js";

const SHOWN = 10;
const FAMILIES_AGAIN_MS = 5000;

export async function overview(place, context) {
  let families = [];
  const root = h("div", { class: "view" });
  root.append(h("h1", { tabindex: "-1" }, "Overview"));
  try {
    families = (await ask("api/v1/families")).families;
  } catch (error) {
    root.append(card("Families", note("error", `Cannot list families: ${error.message}.`)));
    return { title: "Overview", root, query: "beat=true", on: {}, again: FAMILIES_AGAIN_MS };
  }
  if (!families.length) {
    root.append(
      card(
        "Nothing counted yet",
        note("empty", "As soon as the first event is counted, families appear here. Send one:"),
        h("pre", null, h("code", { tabindex: "0" }, `echo '{"counter": "likes:post-42"}' | tally produce -`)),
      ),
    );
    return { title: "Overview", root, query: "beat=true", on: {}, again: FAMILIES_AGAIN_MS };
  }
  const family = families.includes(place.family) ? place.family : families[0];
  const region = place.region ?? "*";

  const rate = rateCard();
  const choose = chooser(families, family, region);
  const leaders = top(context);
  const trends = trending();
  const feed = moves(context);
  if (context.session.reads_all) root.append(rate.element);
  root.append(
    choose.element,
    h("div", { class: "pair" }, leaders.element, h("div", { class: "stack" }, trends.element, feed.element)),
  );

  const query = new URLSearchParams({ family, region, beat: "true" });
  if (context.session.reads_all) query.set("rate", "true");
  return {
    title: family,
    root,
    query: query.toString(),
    on: {
      rate: rate.update,
      family(document) {
        choose.update(document.regions);
        leaders.update(document);
        trends.update(document.trending);
        feed.update(document.moves);
        context.known(document.top.map((one) => one.counter));
      },
    },
  };
}

/** Without the minute that is not over, which would look like a fall. */
const over = (minutes) => minutes.slice(0, -1);

function rateCard() {
  const value = h("data", { class: "hero-number", id: "total-rate", value: "" }, "–");
  const spark = sparkline();
  const most = h("p", { class: "hint" });
  spark.element.classList.add("spark-wide");
  const element = h(
    "section",
    { class: "card hero", "aria-labelledby": "rate-title" },
    h(
      "div",
      null,
      h("h2", { id: "rate-title", class: "label" }, "Counted, all families"),
      h("p", { class: "hero-line" }, value, " ", h("span", { class: "unit" }, "increments a second")),
    ),
    h("div", { class: "hero-chart" }, spark.element, most),
  );
  return {
    element,
    update(document) {
      value.value = String(document.per_second ?? "");
      say(value, perSecond(document.per_second));
      const counted = over(document.minutes).map((one) => one.counted);
      spark.update(counted);
      say(
        most,
        counted.length
          ? `by minute, ${short(Math.max(...counted))} at most in the last hour`
          : "the first minute is not over yet",
      );
    },
  };
}

function chooser(families, family, region) {
  const families_ = h(
    "select",
    { id: "family" },
    families.map((name) => h("option", { value: name, selected: name === family }, name)),
  );
  const go = () => (location.hash = overviewLink(families_.value, regions.element.value));
  const regions = regionChoice(region, go);
  families_.addEventListener("change", go);
  const element = h(
    "div",
    { class: "choose" },
    h("label", { for: "family" }, "Family"),
    families_,
    h("label", { for: "region" }, "Region"),
    regions.element,
  );
  return { element, update: regions.update };
}

function top() {
  const list = tableCard("Top, last hour", {
    caption: "The greatest counters of the last hour",
    columns: [
      { name: "Rank", number: true, class: "rank", unseen: true },
      { name: "Change in five minutes", class: "move", unseen: true },
      { name: "Counter" },
      { name: "Last hour", class: "spark-cell" },
      { name: "Count", number: true },
    ],
    loading: "Loading the ranking …",
    keyOf: (one) => one.counter,
    row: topRow,
  });
  return {
    element: list.element,
    update: (document) =>
      list.update(
        document.top.slice(0, SHOWN),
        sentences(document.remarks ?? ["nothing was counted here in the last hour"]),
      ),
  };
}

function topRow() {
  const rank = h("td", { class: "number rank" });
  const move = h("td", { class: "move" });
  const link = counterName();
  const spark = sparkline();
  const count = h("data");
  const element = h(
    "tr",
    null,
    rank,
    move,
    h("th", { scope: "row", class: "name" }, link.element),
    h("td", { class: "spark-cell" }, spark.element),
    h("td", { class: "number" }, count),
  );
  return {
    element,
    update(one) {
      say(rank, String(one.rank));
      showMove(move, one);
      link.update(one.counter, counterLink(one.counter));
      if (one.minutes) spark.update(over(one.minutes));
      count.value = String(one.count);
      say(count, (one.error ? "≈ " : "") + whole(one.count));
    },
  };
}

function showMove(cell, { rank, rank_before: before, minutes }) {
  const [text, kind, said] = moved(minutes ? rank : null, before ?? null);
  if (cell.dataset.said === said) return;
  cell.dataset.said = said;
  cell.replaceChildren(
    h("span", { class: `move-${kind}`, "aria-hidden": "true" }, text),
    h("span", { class: "unseen" }, said),
  );
}

function moved(rank, before) {
  if (rank === null) return ["", "same", "its earlier place is not known yet"];
  if (before === null) return ["new", "new", "new in the last five minutes"];
  const up = before - rank;
  if (up > 0) return [`▲ ${up}`, "up", `up ${up} in five minutes`];
  if (up < 0) return [`▼ ${-up}`, "down", `down ${-up} in five minutes`];
  return ["–", "same", "the same place as five minutes ago"];
}

function trending() {
  const when = h("p", { class: "hint" });
  const list = tableCard("Trending", {
    caption: "What trends, by the last minute that is over",
    columns: [
      { name: "Counter" },
      { name: "Last hour", class: "spark-cell" },
      { name: "Seen", number: true },
      { name: "Expected", number: true },
      { name: "Since", number: true, class: "roomy" },
    ],
    before: [when],
    loading: "Loading trends …",
    keyOf: (one) => one.counter,
    row: trendRow,
  });
  return {
    element: list.element,
    update(document) {
      const rows = (document?.trending ?? []).slice(0, SHOWN);
      list.update(rows, sentences(document?.remarks ?? ["nothing of this family was scored yet"]));
      const scored = document?.window && minute(Date.parse(document.window));
      say(when, scored ? `By the minute ${scored}, the last that is over and scored` : "");
    },
  };
}

function trendRow() {
  const link = counterName();
  const kind = h("span", { class: "chip" });
  const spark = sparkline();
  const [seen, expected, since] = [
    h("td", { class: "number" }),
    h("td", { class: "number" }),
    h("td", { class: "number roomy" }),
  ];
  const element = h(
    "tr",
    null,
    h("th", { scope: "row", class: "name" }, link.element, " ", kind),
    h("td", { class: "spark-cell" }, spark.element),
    seen,
    expected,
    since,
  );
  return {
    element,
    update(one) {
      link.update(one.counter, counterLink(one.counter));
      kind.className = `chip chip-${one.kind}`;
      say(kind, one.kind);
      spark.update(over(one.minutes));
      say(seen, whole(one.observed));
      say(expected, whole(Math.round(one.expected)));
      say(since, one.entered ? minute(Date.parse(one.entered)) : "–");
    },
  };
}

function moves(context) {
  const list = listCard("Came and went", {
    parent: h("ol", { class: "feed" }),
    loading: "Loading …",
    empty: "Nothing began or ceased to trend in the last hour.",
    keyOf: (one) => `${one.window} ${one.transition} ${one.counter}`,
    row(one) {
      const link = counterName();
      link.update(one.counter, counterLink(one.counter));
      const went = one.transition === "enter" ? "entered" : "left";
      return {
        element: h(
          "li",
          { class: "name" },
          h("time", { datetime: one.window }, minute(Date.parse(one.window))),
          h("span", { class: `went went-${one.transition}` }, went),
          link.element,
        ),
      };
    },
  });
  let heard = null;
  return {
    element: list.element,
    update(found) {
      list.update(found);
      const newest =
        found[0] && `${found[0].counter} ${found[0].transition === "enter" ? "began" : "ceased"} to trend`;
      if (heard !== null && newest && newest !== heard) context.said(newest);
      heard = newest ?? "";
    },
  };
}
