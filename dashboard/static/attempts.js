// The attempts of a step. A history tells of the last one alone, where it ended the step; those
// before it are known to the nodes that were there.

// Oldest first. `missing` stands for those that the node of the page did not see.
export function attemptsOf(pick) {
  if (pick.kind !== "ACTIVITY" || !pick.attempts) return [];
  const rows = (pick.past_attempts ?? []).map(past);
  const last = lastOf(pick);
  if (rows.at(-1)?.attempt !== last.attempt) rows.push(last);
  const missing = pick.attempts - rows.length;
  return missing > 0 ? [{ missing }, ...rows] : rows;
}

// Whether a worker has it: neither is it queued, nor does it wait for its next attempt.
export function isOut(step) {
  return Boolean(step.started_at) && !step.next_attempt_at;
}

function past(attempt) {
  const took = Date.parse(attempt.ended_at) - Date.parse(attempt.started_at);
  return { ...attempt, took, outcome: attempt.error ? "failed" : "cancelled" };
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
