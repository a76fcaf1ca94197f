// OpenSandbox. In abx: create(kit). As a program, `node provider.mjs`: EPP/1 on standard input and output.

import { Dispatcher } from "./lib/dispatcher.mjs";
import { Failure } from "./lib/errors.mjs";

export function create(kit) {
  /** What is thrown becomes an error of the kit, with the same code. */
  const told = async (work) => {
    try {
      return await work();
    } catch (e) {
      if (!(e instanceof Failure)) throw e;
      throw new kit.errors.ProviderError(e.message, { code: e.code, hint: e.hint, retryable: e.retryable });
    }
  };
  return {
    buildInfra: (ctx) => kit.epp.infra(ctx, () => {
      const dispatcher = new Dispatcher();
      return {
        initialize: (params) => told(() => dispatcher.initialize(params)),
        call: (method, params, emit, signal) => told(() => dispatcher.call(method, params, emit, signal)),
      };
    }),
  };
}

const program = globalThis.process?.argv?.[1];
if (program && import.meta.url.endsWith("/provider.mjs")) {
  const { pathToFileURL } = await import("node:url");
  const { realpathSync } = await import("node:fs");
  if (pathToFileURL(realpathSync(program)).href === import.meta.url) {
    const { serve } = await import("./lib/stdio.mjs");
    await serve(new Dispatcher());
  }
}
