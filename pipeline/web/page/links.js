// Addresses within the page: which view, of what. Read and written here alone.

export const counterLink = (counter, region, by) => {
  const more = new URLSearchParams();
  if (region !== undefined && region !== "*") more.set("region", region);
  if (by && by !== "1m") more.set("by", by);
  return `#/counter/${encodeURIComponent(counter)}${more.size ? `?${more}` : ""}`;
};

export const overviewLink = (family, region) => {
  const more = new URLSearchParams({ family });
  if (region !== "*") more.set("region", region);
  return `#/?${more}`;
};

/** What a hash stands for: `{ view, counter, family, region, by }`. */
export function readHash(hash) {
  const [path, query] = hash.replace(/^#/, "").split("?", 2);
  const more = new URLSearchParams(query ?? "");
  const place = { region: more.get("region") ?? "*", family: more.get("family"), by: more.get("by") ?? "1m" };
  if (!["1m", "1h", "1d"].includes(place.by)) place.by = "1m";
  if (path === "/operator") return { ...place, view: "operator" };
  if (path.startsWith("/counter/")) {
    try {
      return { ...place, view: "counter", counter: decodeURIComponent(path.slice("/counter/".length)) };
    } catch {
      return { ...place, view: "overview" };
    }
  }
  return { ...place, view: "overview" };
}
