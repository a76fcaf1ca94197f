// @ts-check
// sandbox: an object in memory.

const DEFAULT_LIFE_MS = 3600 * 1000;
const boxes = new Map();

/** A parameter that cannot be honoured is an error, never ignored. */
export function accept(kit, params, ...known) {
  for (const name of Object.keys(params)) {
    if (!known.includes(name)) throw new kit.errors.ProviderFeatureNotSupportedError(`this provider has no '${name}' here`);
  }
}

/** The living sandbox with this id. */
export function find(kit, id) {
  const box = boxes.get(id);
  if (box?.expires && box.expires <= Date.now()) boxes.delete(id);
  if (!boxes.has(id)) throw new kit.errors.SandboxNotFoundError(`there is no sandbox '${id}'`);
  return box;
}

function living(kit) {
  return [...boxes.keys()].flatMap((id) => {
    try {
      return [find(kit, id)];
    } catch {
      return [];
    }
  });
}

function setLife(box, ms) {
  box.expires = ms ? Date.now() + ms : 0;
}

function describe({ id, name, metadata, created, expires }) {
  return {
    id, name, metadata, state: 'running', createdAt: new Date(created).toISOString(),
    expiresAt: expires ? new Date(expires).toISOString() : undefined,
  };
}

/** @param {import('./kit.d.ts').Kit} kit @returns {import('./kit.d.ts').SandboxObject} */
export function sandbox(kit) {
  return {
    create(params) {
      accept(kit, params, 'id', 'name', 'metadata', 'timeoutMs', 'idempotencyKey');
      const id = params.id ?? crypto.randomUUID().replaceAll('-', '');
      const box = { id, name: params.name, metadata: params.metadata ?? {}, created: Date.now(), expires: 0, files: new Map() };
      setLife(box, params.timeoutMs ?? DEFAULT_LIFE_MS);
      boxes.set(id, box);
      return describe(box);
    },
    info: (id) => describe(find(kit, id)),
    kill(id) {
      find(kit, id);
      boxes.delete(id);
    },
    /** Renews the life of a sandbox, never shortens it. */
    connect(id, { timeoutMs }) {
      const box = find(kit, id);
      if (timeoutMs !== undefined && box.expires && (timeoutMs === 0 || Date.now() + timeoutMs > box.expires)) setLife(box, timeoutMs);
      return describe(box);
    },
    list({ metadata = {} }) {
      const wanted = Object.entries(metadata);
      return { sandboxes: living(kit).filter((box) => wanted.every(([key, value]) => box.metadata[key] === value)).map(describe) };
    },
    setTimeout(id, { timeoutMs }) {
      const box = find(kit, id);
      setLife(box, timeoutMs);
      return { expiresAt: describe(box).expiresAt };
    },
  };
}
