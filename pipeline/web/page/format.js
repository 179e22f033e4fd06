// Numbers and times as people read them. Times are UTC everywhere.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const ONE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** JSON, in which whole numbers that JavaScript would round are kept exactly. */
export function parse(text) {
  return JSON.parse(text, (_, value, context) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
      ? BigInt(context.source)
      : value,
  );
}

export const whole = (value) => (value === null || value === undefined ? "–" : WHOLE.format(value));
export const short = (value) => SHORT.format(value);
export const signed = (value) => (value > 0 ? `+${whole(value)}` : whole(value));

/** A rate a second: small ones with a digit behind the point. */
export function perSecond(value) {
  if (value === null || value === undefined) return "–";
  return value < 100 ? ONE.format(value) : WHOLE.format(value);
}

/** How long something took or is ago. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms < 10_000 ? ONE : WHOLE).format(ms / 1000)} s`;
  const minutes = Math.round(ms / 60_000);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(ms / 3_600_000);
  return hours < 48 ? `${hours} h` : `${Math.round(ms / 86_400_000)} d`;
}

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytes(value) {
  let unit = 0;
  let left = value;
  while (left >= 1000 && unit < UNITS.length - 1) [left, unit] = [left / 1000, unit + 1];
  return `${unit ? ONE.format(left) : left} ${UNITS[unit]}`;
}

const iso = (ms) => new Date(ms).toISOString();

/** 08:15:30, of a moment in milliseconds. */
export const clock = (ms) => iso(ms).slice(11, 19);
/** 08:15 */
export const minute = (ms) => iso(ms).slice(11, 16);
/** 2026-11-17 08:15, of a text or milliseconds. */
export const moment = (at) => iso(at).slice(0, 16).replace("T", " ");
/** 2026-11-17 */
export const day = (ms) => iso(ms).slice(0, 10);

/** A place on an axis of a grain: the time of day, or the day where one begins. */
export function axisName(ms, by) {
  return by === "1d" || (by === "1h" && minute(ms) === "00:00") ? day(ms).slice(5) : minute(ms);
}

/** When a window of a grain begins, as one says it. */
export function windowName(ms, by) {
  return by === "1d" ? day(ms) : `${moment(ms)} UTC`;
}

/** Texts of the server as sentences. */
export const sentences = (texts) =>
  texts.map((text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`).join(" ");

/** A region; where it is not known the log has an empty text. */
export const regionName = (region) => (region === "*" ? "All regions" : region === "" ? "unknown" : region);
