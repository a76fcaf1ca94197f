// Commands in a sandbox that serve this provider itself, and how words are written for a shell.

import { Failure, errorOf } from "./errors.mjs";
import { eventsOf } from "./events.mjs";

export const quote = (word) => `'${String(word).replaceAll("'", "'\\''")}'`;

/** Go's words for signals, as execd tells them. */
const SIGNALS = { hangup: "SIGHUP", interrupt: "SIGINT", quit: "SIGQUIT", "illegal instruction": "SIGILL", "trace/breakpoint trap": "SIGTRAP",
  aborted: "SIGABRT", "bus error": "SIGBUS", "floating point exception": "SIGFPE", killed: "SIGKILL", "user defined signal 1": "SIGUSR1",
  "segmentation fault": "SIGSEGV", "user defined signal 2": "SIGUSR2", "broken pipe": "SIGPIPE", "alarm clock": "SIGALRM",
  terminated: "SIGTERM", "signal 16": "SIGSTKFLT", "signal 24": "SIGXCPU", "signal 25": "SIGXFSZ", "signal 26": "SIGVTALRM",
  "signal 27": "SIGPROF", "cpu time limit exceeded": "SIGXCPU", "file size limit exceeded": "SIGXFSZ", "virtual timer expired": "SIGVTALRM",
  "profiling timer expired": "SIGPROF" };
export const NUMBERS = ["", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
  "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS"];

/** How a command ended, of its code and execd's text → {exitCode} or {signal}; undefined: it was not started. */
export function endOf(code, text = "") {
  if (code >= 0) return { exitCode: code };
  const word = /signal: ([^(]*)/.exec(text)?.[1].trim();
  return word === undefined ? undefined : { signal: SIGNALS[word] ?? "SIGKILL" };
}

/** The end that an event of a stream tells, or null when it tells none; a text instead of a number is a start that failed. */
export function endOfEvent(event) {
  if (event.type === "execution_complete") return { exitCode: 0 };
  if (event.type !== "error") return null;
  const { evalue = "", traceback } = event.error ?? {};
  const end = /^-?\d+$/.test(evalue) ? endOf(Number(evalue), traceback?.[0]) ?? { signal: "SIGKILL" } : null;
  return end ?? { failed: String(evalue || traceback?.[0] || "execd told no reason") };
}

/** Runs a script to its end → {code, out, err}: texts, not to the byte. */
export async function script(client, id, text, { cwd, signal, uid } = {}) {
  const response = await client.execd(id, "POST", "/command", { json: { command: text, cwd, uid }, signal });
  if (!response.ok) throw new Failure("E6002", `execd answered ${response.status}: ${errorOf(await response.text()).message}`);
  const parts = { stdout: [], stderr: [] };
  let cause;
  try {
    for await (const event of eventsOf(response)) {
      if (parts[event.type]) parts[event.type].push(event.text === "\n" ? "\n" : `${event.text ?? ""}\n`);
      const end = endOfEvent(event);
      if (end?.failed) throw new Failure("E6006", `a command cannot be started in the sandbox: ${end.failed}`);
      if (end) return { code: end.exitCode ?? 128, out: parts.stdout.join(""), err: parts.stderr.join("") };
    }
  } catch (e) {
    if (e instanceof Failure || signal?.aborted) throw e;
    cause = e;
  }
  await client.gone(id);
  throw new Failure("E6001", "the connection to the sandbox broke", { cause });
}
