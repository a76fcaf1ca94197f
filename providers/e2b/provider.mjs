// E2B: the kit's own protocol, with E2B's addresses and keys.
export function create(kit) {
  return {
    async buildInfra(ctx) {
      const { options, core } = ctx;
      const key = core.apiKey ?? options.key;
      if (!key)
        throw new kit.errors.InvalidAPIKeyError("no key for provider 'e2b'",
          { hint: "'abx provider login e2b', or set E2B_API_KEY: keys are made at e2b.dev/dashboard" });
      const domain = core.domain ?? options['service-domain'];
      const http = ctx.http({ baseUrl: core.apiUrl ?? options.api ?? `https://api.${domain}`, auth: ctx.headerKeyAuth(key, 'X-API-Key') });
      const base = new kit.SandboxProtocol({
        http, features: ctx.features, domain, template: options.template,
        dialect: options.sandboxes ? { dataPlaneUrl: options.sandboxes } : {},
      });
      const sandbox = kit.e2b.overlay(base, { connect: (id, params, call) => kit.e2b.resumeConnect(base, id, params, call) });
      return {
        sandbox,
        process: new kit.ProcessProtocol({ http, sandbox }),
        filesystem: new kit.FilesystemProtocol({ http, sandbox }),
        code: new kit.CodeInterpreterProtocol({ http, sandbox }),
      };
    },
  };
}
