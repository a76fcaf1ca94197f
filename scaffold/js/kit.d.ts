// What a module of the kind node/1 is given by abx and gives back: for editors; abx does not read it. The parameters and results of each
// operation are in docs/operations.md, the rest is in docs/providers/node.md.

/** The export that abx calls, by name or as default. */
export type Create = (kit: Kit) => Provider | Promise<Provider>;

export interface Provider {
  /** Once a session. May throw kit.errors.*. */
  buildInfra(ctx: Context): Infra | Promise<Infra>;
}

/** What is missing is unsupported. Each method is looked up once. */
export interface Infra {
  sandbox?: SandboxObject;
  process?: ProcessObject;
  filesystem?: FilesystemObject;
  pty?: PtyObject;
  code?: CodeObject;
  provider?: ProviderObject;
  /** Where it differs from what the methods tell: a feature or an operation by name. */
  features?: Record<string, FeatureState>;
}

export type FeatureState = 'native' | 'emulated' | 'unsupported';
export type Bytes = Uint8Array | ArrayBuffer | DataView;
export type Params = Record<string, any>;
export type Result = Record<string, any> | void;
/** `{type: 'started', …}`, `{type: 'stdout', data}`: an event with its members, or bytes on a channel. */
export type Item = { type: string; data?: string | Bytes; [member: string]: unknown };
/** A result, or items and then the result. */
export type Stream = AsyncGenerator<Item, Result> | Result | Promise<Result>;
/** What a file holds, piece by piece or whole. */
export type Body = AsyncIterable<string | Bytes> | Iterable<string | Bytes> | string | Bytes | Promise<string | Bytes>;
export type Answer = Result | Promise<Result>;

/** Of one call, the last argument of a method. */
export interface Call {
  /** Aborted by a cancel or a deadline. One second later the call ends without the module. */
  readonly signal: AbortSignal;
  /** "process.start" */
  readonly method: string;
  /** Bytes that come in. */
  readonly input: AsyncIterableIterator<Uint8Array>;
  event(type: string, members?: Record<string, unknown>): void;
  /** "stdout", "stderr", "pty", "body". Wait for it: a slow reader holds it up. */
  write(channel: string, data: string | Bytes): Promise<void>;
}

export interface SandboxObject {
  create?(params: Params, call: Call): Answer;
  info?(sandboxId: string, params: Params, call: Call): Answer;
  kill?(sandboxId: string, params: Params, call: Call): Answer;
  connect?(sandboxId: string, params: Params, call: Call): Answer;
  list?(params: Params, call: Call): Answer;
  setTimeout?(sandboxId: string, params: Params, call: Call): Answer;
  pause?(sandboxId: string, params: Params, call: Call): Answer;
  metrics?(sandboxId: string, params: Params, call: Call): Answer;
  logs?(sandboxId: string, params: Params, call: Call): Answer;
  setNetwork?(sandboxId: string, params: Params, call: Call): Answer;
  snapshotCreate?(sandboxId: string, params: Params, call: Call): Stream;
  snapshotList?(params: Params, call: Call): Answer;
  snapshotRemove?(params: Params, call: Call): Answer;
  fork?(sandboxId: string, params: Params, call: Call): Answer;
  templateList?(params: Params, call: Call): Answer;
  templateInfo?(params: Params, call: Call): Answer;
  templateAdd?(params: Params, call: Call): Stream;
  templateRemove?(params: Params, call: Call): Answer;
  ports?(sandboxId: string, params: Params, call: Call): Answer;
  host?(sandboxId: string, params: Params, call: Call): Answer;
  tunnel?(sandboxId: string, params: Params, call: Call): Stream;
}

export interface ProcessObject {
  start?(sandboxId: string, params: Params, call: Call): Stream;
  attach?(sandboxId: string, params: Params, call: Call): Stream;
  detach?(sandboxId: string, params: Params, call: Call): Answer;
  signal?(sandboxId: string, params: Params, call: Call): Answer;
  list?(sandboxId: string, params: Params, call: Call): Answer;
  stdin?(sandboxId: string, params: Params, call: Call): Answer;
  closeStdin?(sandboxId: string, params: Params, call: Call): Answer;
}

export interface FilesystemObject {
  read?(sandboxId: string, params: Params, call: Call): Body;
  write?(sandboxId: string, params: Params, call: Call): Answer;
  stat?(sandboxId: string, params: Params, call: Call): Answer;
  list?(sandboxId: string, params: Params, call: Call): Answer;
  makeDir?(sandboxId: string, params: Params, call: Call): Answer;
  rename?(sandboxId: string, params: Params, call: Call): Answer;
  remove?(sandboxId: string, params: Params, call: Call): Answer;
  watch?(sandboxId: string, params: Params, call: Call): Stream;
}

export interface PtyObject {
  open?(sandboxId: string, params: Params, call: Call): Stream;
  write?(sandboxId: string, params: Params, call: Call): Answer;
  resize?(sandboxId: string, params: Params, call: Call): Answer;
  close?(sandboxId: string, params: Params, call: Call): Answer;
}

export interface CodeObject {
  run?(sandboxId: string, params: Params, call: Call): Stream;
  interrupt?(sandboxId: string, params: Params, call: Call): Answer;
  contextCreate?(sandboxId: string, params: Params, call: Call): Answer;
  contextList?(sandboxId: string, params: Params, call: Call): Answer;
  contextRestart?(sandboxId: string, params: Params, call: Call): Answer;
  contextRemove?(sandboxId: string, params: Params, call: Call): Answer;
}

export interface ProviderObject {
  gc?(params: Params, call: Call): Answer;
  doctor?(params: Params, call: Call): Answer;
}

export interface Context {
  /** The provider's id. */
  readonly id: string;
  /** Those of the manifest. */
  readonly features: Record<string, FeatureState>;
  /** Options of the manifest as the user set them. */
  readonly options: Record<string, any>;
  /** What the user agreed to share. */
  readonly core: { readonly apiKey?: string; readonly apiUrl?: string; readonly domain?: string; readonly accessKeyId?: string; readonly accessKeySecret?: string };
  /** Names of what is secret among options and core: abx blanks their values in messages and logs. */
  readonly secretKeys: readonly string[];
  /** Milliseconds. */
  readonly callTimeout: number;
  /** An address with a key. timeoutMs: of each request; default: that of a call. */
  http(options: { baseUrl: string; auth?: Auth; headers?: Record<string, string>; timeoutMs?: number }): Http;
  /** Throws InvalidAPIKeyError without a key. header: default X-API-Key. */
  headerKeyAuth(key: string | undefined, header?: string): Auth;
  noAuth(): Auth;
}

declare const auth: unique symbol;
export interface Auth { readonly [auth]: true }
export interface Http {
  readonly baseUrl: string;
  /** fetch with the address in front, the key and a time limit. */
  request(path: string, init?: RequestInit & { query?: Record<string, unknown>; json?: unknown; duplex?: 'half' }): Promise<Response>;
}

/** `{signal, input}` where a module calls a method of these classes for its own ends. */
export type Own = Call | { signal?: AbortSignal; input?: Body };

export interface Kit {
  readonly hostVersion: string;
  readonly errors: Errors;
  readonly SandboxProtocol: new (options: {
    http: Http; features?: unknown; domain?: string; template?: string; user?: string; metadata?: Record<string, string>;
    callTimeoutMs?: number; dialect?: Record<string, unknown>;
  }) => Required<SandboxObject>;
  readonly ProcessProtocol: new (options: { http?: Http; sandbox: SandboxObject }) => Required<ProcessObject> & { readonly pty: Required<PtyObject> };
  readonly FilesystemProtocol: new (options: { http?: Http; sandbox: SandboxObject }) => Required<FilesystemObject>;
  readonly CodeInterpreterProtocol: new (options: { http?: Http; sandbox: SandboxObject }) => Required<CodeObject>;
  readonly e2b: {
    /** Connect by the routes that the service has. */
    resumeConnect(sandbox: SandboxObject, id: string, params: Params, call?: Own): Promise<Result>;
    /** A copy of params; what is absent or undefined comes from defaults. */
    withDefault<P extends Params, D extends Params>(params: P, defaults: D): P & D;
    /** base with some operations replaced; base is one argument more at the end. */
    overlay<T extends object>(base: T, methods: { [name: string]: (this: T, ...args: any[]) => any }): T;
    parseExecution(body: string): {
      results: Params[]; logs: { stdout: string[]; stderr: string[] };
      error?: { name: string; value: string; traceback: string }; executionCount?: number;
    };
  };
  readonly epp: {
    /** A dispatcher of EPP/1 of the module's own, called in its process. */
    infra(ctx: Context, factory: (ctx: Context) => Dispatcher | Promise<Dispatcher>): Infra;
  };
}

export interface Dispatcher {
  initialize?(params: Params): Params | Promise<Params>;
  call(method: string, params: Params, emit: Emit, signal: AbortSignal): Answer;
}
export interface Emit {
  (method: string, params?: Params): Promise<void>;
  /** Number of the stream. */
  stream: number;
}

export interface KitErrorOptions { cause?: unknown; /** One of the type's codes. */ code?: string; /** What to do. */ hint?: string; retryable?: boolean }
export interface ProviderError extends Error {
  readonly code: string;
  readonly type: string;
  readonly hint?: string;
  readonly retryable?: boolean;
  readonly status: number;
}
export type ErrorClass = new (message?: string, options?: KitErrorOptions) => ProviderError;
export interface Errors {
  readonly ProviderError: ErrorClass;
  readonly UsageError: ErrorClass;
  readonly ConfigError: ErrorClass;
  readonly ProviderConfigError: ErrorClass;
  readonly ForkedError: ErrorClass;
  readonly InvalidAPIKeyError: ErrorClass;
  readonly EngineTokenError: ErrorClass;
  readonly PermissionDeniedError: ErrorClass;
  readonly SandboxNotFoundError: ErrorClass;
  readonly FileNotFoundError: ErrorClass;
  readonly ProcessNotFoundError: ErrorClass;
  readonly ProviderNotFoundError: ErrorClass;
  readonly TemplateNotFoundError: ErrorClass;
  readonly SnapshotNotFoundError: ErrorClass;
  readonly ContextNotFoundError: ErrorClass;
  readonly PortNotFoundError: ErrorClass;
  readonly ConflictError: ErrorClass;
  readonly RateLimitError: ErrorClass;
  readonly NotEnoughSpaceError: ErrorClass;
  readonly TooLargeError: ErrorClass;
  readonly QuotaError: ErrorClass;
  readonly TimeoutError: ErrorClass;
  readonly CancelledError: ErrorClass;
  readonly NetworkError: ErrorClass;
  readonly BackendError: ErrorClass;
  readonly FileError: ErrorClass;
  readonly ProcessStartError: ErrorClass;
  readonly ServerNotRunningError: ErrorClass;
  readonly IsolationError: ErrorClass;
  readonly LocalStateError: ErrorClass;
  readonly ProviderProtocolError: ErrorClass;
  readonly ProviderKindError: ErrorClass;
  readonly ProviderIntegrityError: ErrorClass;
  readonly ProviderFeatureNotSupportedError: ErrorClass;
  readonly ProviderCrashedError: ErrorClass;
  readonly ProviderManifestError: ErrorClass;
  readonly ProviderStartError: ErrorClass;
  readonly ProviderModuleError: ErrorClass;
  readonly InternalError: ErrorClass;
}
