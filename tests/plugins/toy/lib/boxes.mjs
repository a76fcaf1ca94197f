export const boxes = new Map();
let n = 0;
export function create(p) {
  const id = `toy${++n}${crypto.randomUUID().slice(0, 8)}`;
  const box = { id, state: 'running', createdAt: new Date().toISOString(), metadata: p.metadata ?? {}, files: new Map() };
  boxes.set(id, box);
  return box;
}
