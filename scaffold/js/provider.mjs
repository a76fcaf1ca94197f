// @ts-check
import { sandbox } from './boxes.mjs';
import { filesystem } from './files.mjs';

/** @type {import('./kit.d.ts').Create} */
export function create(kit) {
  return {
    buildInfra(ctx) {
      console.debug(`${ctx.id}: abx ${kit.hostVersion}`);
      return { sandbox: sandbox(kit), filesystem: filesystem(kit) };
    },
  };
}
