// How often a view asks a node again. What takes long is asked less often, so that a page left open
// on a wall takes little of a node's time, however large the cluster has become.

const REST = 10;
// An answer that came late for another reason, such as an election, is not to stop the view.
const MOST_MS = 5000;

export class Pace {
  constructor(leastMs = 0) {
    this.leastMs = leastMs;
    this.hurry();
  }

  // Whatever was answered is out of date.
  hurry() {
    this.key = null;
  }

  // The answer, or undefined when the same was answered a moment ago.
  async ask(key, question) {
    if (key === this.key && performance.now() < this.next) return undefined;
    const began = performance.now();
    this.hurry();
    const answer = await question();
    const ended = performance.now();
    this.key = key;
    this.next = ended + Math.max(this.leastMs, Math.min(REST * (ended - began), MOST_MS));
    return answer;
  }
}
