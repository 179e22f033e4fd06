// Why a number is what it is: the sum it comes from, and what was left out of it.

import { card, h, note } from "./dom.js";
import { signed, whole } from "./format.js";

export function why() {
  const sum = h("dl", { class: "sum" });
  const facts = h("ul", { class: "facts" });
  const empty = note("loading", "Loading …");
  const element = card("Why this number", empty, sum, facts);
  return {
    element,
    update(found) {
      empty.hidden = true;
      sum.replaceChildren(
        ...lines(found).map(([name, value, kind]) =>
          h("div", { class: kind }, h("dt", null, name), h("dd", null, value)),
        ),
      );
      facts.replaceChildren(...sentences(found).map((text) => h("li", null, text)));
    },
  };
}

function lines(found) {
  return [
    ["Added", whole(found.p)],
    ["Taken away", found.n ? `−${whole(found.n)}` : "0"],
    ["Adjustments", signed(found.adjustments.by)],
    ...(found.sketched ? [["Estimated by sketches", `≈ ${whole(found.sketched.value)}`]] : []),
    ["Net", whole(found.net), "sum-line"],
  ];
}

function sentences(found) {
  const texts = [];
  const plural = (number, one, many) => (Number(number) === 1 ? `1 ${one}` : `${whole(number)} ${many}`);
  if (found.net < 0) texts.push("More was taken away than added: it is shown as 0.");
  texts.push(
    found.duplicates
      ? `${plural(found.duplicates, "increment was", "increments were")} skipped, because the id or the member had been counted.`
      : "No increment was skipped as a duplicate.",
  );
  if (found.late_p || found.late_n)
    texts.push(
      `${whole(Number(found.late_p) + Number(found.late_n))} came more than ten minutes after its window, and is counted.`,
    );
  const letters = found.dead_letters;
  texts.push(
    letters.count
      ? `${plural(letters.count, "event that names it was", "events that name it were")} refused; the last one: ${letters.last_reason}.`
      : "No event that names it was refused.",
  );
  if (found.spilled_to)
    texts.push(
      `Its family had more counters than its cap allows; what is missing here is in ${found.spilled_to}`,
    );
  if (found.sketched) {
    const { low, high, by_rule: byRule } = found.sketched;
    texts.push(
      `${byRule ? "Its family is sketched" : "Its family was flooded"}: what has no cells is between ${whole(low)} and ${whole(high)}.`,
    );
  }
  texts.push(`Counted by build ${found.build}, in ${plural(found.shards.length, "shard", "shards")}.`);
  return [...texts, ...found.remarks];
}
