// Bytes that come in for a call, piece by piece.

export class Input {
  constructor() {
    Object.assign(this, { waiting: [], wanted: null, closed: false });
  }

  /** A piece, or null for the end → a promise that it was used. */
  push(bytes) {
    if (this.closed) return Promise.resolve();
    return new Promise((used) => {
      this.waiting.push({ bytes, used });
      this.wanted?.();
    });
  }

  async *[Symbol.asyncIterator]() {
    try {
      for (;;) {
        while (!this.waiting.length) await new Promise((resolve) => (this.wanted = resolve));
        const { bytes, used } = this.waiting.shift();
        if (bytes === null) return used();
        yield bytes;
        used();
      }
    } finally {
      this.close();
    }
  }

  close() {
    this.closed = true;
    for (const { used } of this.waiting.splice(0)) used();
  }
}

/** A promise that an abort rejects. */
export function aborted(signal) {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
