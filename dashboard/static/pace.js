// How often a view asks a node again. What takes long is asked less often, so that a page left open
// on a wall takes little of a node's time, however large the cluster has become.

const REST = 10;

export class Pace {
  constructor(leastMs = 0) {
    this.leastMs = leastMs;
    this.hurry();
  }

  // Whatever was answered is out of date.
  hurry() {
    this.key = null;
  }

  // The answer, or undefined when the same was asked a moment ago.
  async ask(key, question) {
    if (key === this.key && performance.now() < this.next) return undefined;
    this.key = key;
    const began = performance.now();
    try {
      return await question();
    } finally {
      const ended = performance.now();
      this.next = ended + Math.max(this.leastMs, REST * (ended - began));
    }
  }
}
