// What a page has seen of a step's attempts. A history tells of the last one alone: those before it
// leave no event, so they are known only to whoever watched.

export class Attempts {
  constructor() {
    this.seen = new Map();
  }

  watch(steps) {
    for (const step of steps) {
      if (step.kind === "ACTIVITY" && step.status === "SCHEDULED") this.note(step);
    }
  }

  note(step) {
    const known = this.of(step.sequence);
    const last = known.at(-1);
    const out = isOut(step);
    // The error that a step shows is that of the last attempt that ended.
    const ended = step.attempts - (out ? 1 : 0);
    if (last && !last.ended && last.attempt <= ended) {
      last.ended = true;
      last.error = last.attempt === ended ? step.last_error : undefined;
    }
    if (!out || last?.started_at === step.started_at) return;
    const { attempts: attempt, started_at, worker_id, node } = step;
    this.seen.set(step.sequence, [...known, { attempt, started_at, worker_id, node }]);
  }

  of(sequence) {
    return this.seen.get(sequence) ?? [];
  }
}

// The attempts of a pick, oldest first: what was seen, and the last one as the history has it.
export function attemptsOf(pick, seen) {
  if (pick.kind !== "ACTIVITY" || !pick.attempts) return [];
  const rows = seen.map((each) => ({ ...each, outcome: each.ended ? "failed" : "" }));
  const last = lastOf(pick);
  const at = rows.findIndex((row) => row.attempt === last.attempt);
  if (at >= 0) rows[at] = { ...rows[at], ...last };
  else rows.push(last);
  const missing = pick.attempts - rows.length;
  return missing > 0 ? [{ missing }, ...rows] : rows;
}

// Whether a worker has it: neither is it queued, nor does it wait for its next attempt.
export function isOut(step) {
  return Boolean(step.started_at) && !step.next_attempt_at;
}

function lastOf(pick) {
  const { closing, attempts: attempt } = pick;
  if (closing?.attempt) {
    return {
      attempt: closing.attempt,
      started_at: closing.started_at,
      worker_id: closing.worker_id,
      node: closing.node,
      took: pick.to - Date.parse(closing.started_at),
      outcome: pick.status.toLowerCase(),
      error: pick.error,
    };
  }
  if (!pick.open) return { attempt, outcome: pick.status.toLowerCase(), error: pick.error };
  if (!isOut(pick)) return { attempt, outcome: "failed", error: pick.last_error };
  const { started_at, worker_id, node } = pick;
  return { attempt, started_at, worker_id, node, outcome: "at work" };
}
