// The time of the cluster, where this machine's clock is far off: durations are told by it.

// An answer says its second, and was under way for a while.
const ALIKE_MS = 3000;

let offset = 0;

// `date` is the header of an answer; null where another host's may not be read.
export function hear(date, at = Date.now()) {
  const told = Date.parse(date);
  if (Number.isNaN(told)) return;
  offset = Math.abs(told - at) > ALIKE_MS ? told - at : 0;
}

export function now() {
  return Date.now() + offset;
}
