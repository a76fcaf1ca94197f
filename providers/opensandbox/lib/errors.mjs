// Failures with a code of the protocol, and what the server's and execd's mean.

export class Failure extends Error {
  constructor(code, message, { hint, cause, retryable } = {}) {
    super(message, { cause });
    Object.assign(this, { code, hint, retryable });
  }
}

export const unsupported = (what) => new Failure("E8004", `${what} is not supported by provider 'opensandbox'`);
export const usage = (message, hint) => new Failure("E1001", message, { hint });
export const noProcess = (id) => new Failure("E3003", `no such process: '${id}'`);
export const cancelled = () => new Failure("E5002", "cancelled");

/** The four shapes of an error body → {code, message}. */
export function errorOf(text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    const plain = /<\w+/.test(text) ? text.replace(/<[^>]*>/g, " ") : text;
    return { message: plain.replace(/\s+/g, " ").trim().slice(0, 300) };
  }
  if (typeof body?.error === "string") return { message: body.error };
  if (Array.isArray(body?.detail))
    return { message: body.detail.map((d) => `${(d.loc ?? []).slice(1).join(".")}: ${d.msg}`).join("; ") };
  if (typeof body?.detail === "string") return { message: body.detail };
  return { code: body?.code, message: String(body?.message ?? body?.code ?? "") };
}

const KINDS = [
  [/SANDBOX_NOT_FOUND$/, "E3001"],
  [/^SNAPSHOT::NOT_FOUND$/, "E3006"],
  [/IMAGE_PULL_FAILED$/, "E3005"],
  [/POD_READY_TIMEOUT$/, "E5001"],
  [/(NOT_RUNNING|NOT_PAUSED|INVALID_STATE|INVALID_SOURCE_STATE|NOT_READY|DELETE_CONFLICT)$/, "E4001"],
  [/(NOT_SUPPORTED|NOT_IMPLEMENTED)$/, "E8004"],
  [/NOT_SUPPORTED|UNSUPPORTED/, "E8004"],
];
const STATUSES = { 400: "E1001", 401: "E2001", 403: "E2002", 404: "E6003", 405: "E6003", 409: "E4001", 413: "E4004", 422: "E1001",
  429: "E4002", 501: "E8004", 504: "E5001" };

/** The failure that an answer of the server means. `what` names what was asked. */
export function serverFailure(status, text, what, location) {
  const { code = "", message } = errorOf(text);
  const kind = KINDS.find(([pattern]) => pattern.test(code))?.[1] ?? STATUSES[status] ?? "E6002";
  const hint = kind === "E2001" ? "set the option 'key' of the provider, or OPEN_SANDBOX_API_KEY"
    : kind === "E6003" ? `is '${location}' an OpenSandbox server?` : undefined;
  return new Failure(kind, `${what}: the server answered ${status}${message ? `: ${message}` : ""}`, { hint });
}

/** The failure that an answer of execd about a file means. */
export function fileFailure(status, text, path) {
  const { code, message } = errorOf(text);
  const shown = `'${path}'`;
  if (code === "FILE_NOT_FOUND" || (status >= 400 && /no such file|cannot find/.test(message)))
    return new Failure("E3002", `no such file or folder: ${shown}`);
  if (/no space left|quota/i.test(message)) return new Failure("E4003", `no space left for ${shown}`);
  if (status === 401) return new Failure("E2001", `the sandbox refuses its token: ${message}`);
  if (status === 502 || status === 503 || status === 504) return new Failure("E6001", `the sandbox is out of reach: ${message}`);
  return new Failure("E6005", `${shown}: ${message.replace(/^error [^.:]*[.:] ?/, "") || `execd answered ${status}`}`);
}
