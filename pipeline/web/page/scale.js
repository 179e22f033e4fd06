// Where windows and ticks are: arithmetic for charts, without a page.

export const GRAIN_MS = { "1m": 60_000, "1h": 3_600_000, "1d": 86_400_000 };

/** How many windows are shown at least, so that a new counter's first bar is no wall. */
const LEAST = { "1m": 60, "1h": 48, "1d": 30 };

/** Windows without gaps up to `nowMs`, the oldest first: `{ ms, count }`, zero where none was told. */
export function withoutGaps(windows, by, nowMs) {
  const size = GRAIN_MS[by];
  const counts = new Map(windows.map((one) => [Date.parse(one.window), one]));
  const times = [...counts.keys()];
  const last = Math.max(Math.floor(nowMs / size) * size, ...times);
  const first = Math.min(last - (LEAST[by] - 1) * size, ...times);
  const found = [];
  for (let ms = first; ms <= last; ms += size) found.push({ ms, ...bounds(counts.get(ms)) });
  return found;
}

function bounds(window) {
  if (!window) return { count: 0 };
  const { count, low, high } = window;
  return low === undefined || low === null ? { count } : { count, low, high };
}

/** Round numbers from `least` to `most`, about as many as asked for; zero is among them. */
export function ticks(least, most, number) {
  const rough = Math.max(most - least, 1) / number;
  const power = 10 ** Math.floor(Math.log10(rough));
  const whole = [1, 2, 2.5, 5, 10].map((one) => one * power).filter(Number.isInteger);
  const step = whole.find((one) => one >= rough) ?? 1;
  const found = [];
  for (let value = Math.ceil(least / step) * step; value <= most + step / 1e6; value += step)
    found.push(value + 0); // No -0.
  return found;
}

/** By how many windows of a grain marks of time may be apart, so that they are at round times. */
const APART = {
  "1m": [1, 2, 5, 10, 15, 30, 60, 120, 180, 360],
  "1h": [1, 2, 3, 6, 12, 24, 48, 96, 168],
  "1d": [1, 2, 7, 14, 28, 56, 112, 224],
};

/** Which windows have a mark below them, at most as many as asked for; the first one may have none. */
export function marks(windows, by, number) {
  const least = windows.length / Math.max(1, number);
  const apart = (APART[by].find((one) => one >= least) ?? APART[by].at(-1)) * GRAIN_MS[by];
  return windows.flatMap((one, index) => (one.ms % apart ? [] : [index]));
}

/** A part of a range after zooming by a factor around a place; never less than four windows. */
export function zoomed([from, to], factor, around, length) {
  const size = Math.min(length, Math.max(4, Math.round((to - from) * factor)));
  const share = (around - from) / Math.max(1, to - from);
  const start = Math.round(Math.min(Math.max(0, around - size * share), length - size));
  return [start, start + size];
}
