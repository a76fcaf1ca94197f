// The event streams of execd: one JSON object a frame, frames apart by empty lines; other servers' forms are taken too.

import { Failure } from "./errors.mjs";

/** The lines of a body, as text; splits on "\n" only, the last one needs none. */
async function* linesOf(body, onBytes) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts = []; // of a line that is not whole yet
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const text = done ? decoder.decode() : decoder.decode(value, { stream: true });
      onBytes?.();
      const lines = text.split("\n");
      for (const line of lines.slice(0, -1)) {
        parts.push(line);
        const whole = parts.join("");
        parts = [];
        yield whole.endsWith("\r") ? whole.slice(0, -1) : whole;
      }
      if (lines.at(-1)) parts.push(lines.at(-1));
      if (done) break;
    }
    if (parts.length) yield parts.join("");
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The events of a response; a bare error object is thrown as a failure. */
export async function* eventsOf(response, onBytes) {
  for await (let line of linesOf(response.body, onBytes)) {
    if (line === "" || line[0] === ":" || /^(event|id|retry):/.test(line)) continue;
    line = line.replace(/^data: ?/, "");
    if (line === "") continue;
    let event;
    try {
      event = JSON.parse(line);
    } catch (cause) {
      throw new Failure("E6003", `the sandbox sent an event that is no JSON: '${line.slice(0, 80)}'`, { cause });
    }
    if (typeof event.type === "string") {
      yield event;
    } else if (event.code !== undefined || event.message !== undefined || typeof event.error === "string") {
      throw Object.assign(new Failure("E6002", `the sandbox failed: ${event.message ?? event.error ?? event.code}`), { bare: true });
    }
  }
}
