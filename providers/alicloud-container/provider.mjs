// OpenKruise Agents, which is Alibaba Cloud's container edition: E2B's older routes, at one of three kinds of addresses. Templates are SandboxSets and must
// be named; the server waits as long as labels tell it; its envd is an old one.
const labels = 'e2b.agents.kruise.io/';

export function create(kit) {
  return {
    async buildInfra(ctx) {
      const { options, core } = ctx;
      const key = core.apiKey ?? options.key;
      const domain = core.domain ?? options['gateway-domain'];
      const { api, data } = addresses(options, domain, core.apiUrl, kit);
      const http = ctx.http({ baseUrl: api, auth: key ? ctx.headerKeyAuth(key, 'X-API-Key') : ctx.noAuth() });
      const base = new kit.SandboxProtocol({
        http, features: ctx.features, domain, template: options.template,
        metadata: {
          [`${labels}claim-timeout-seconds`]: String(options['claim-timeout']),
          [`${labels}wait-ready-timeout-seconds`]: String(options['ready-timeout']),
        },
        dialect: {
          dataPlaneUrl: data,
          defaultTemplate: 'none',
          defaultUser: options.user,
          createRoute: 'v1',
          connectRoutes: ['v1', 'resume', 'v2'],
          connectRetryMs: 2000,
          codec: 'json',
          upload: 'form',
          tokenOnPorts: true,
        },
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

// Control plane and sandboxes. An address of the control plane that was named counts as it is.
function addresses(options, domain, named, kit) {
  if (!domain && !named)
    throw new kit.errors.ProviderConfigError("provider 'alicloud-container' does not know its domain",
      { hint: "'abx config set providers.alicloud-container.domain DOMAIN': the name of the cluster's gateway" });
  const root = `${options.scheme}://${domain}`;
  switch (options.protocol) {
  case 'native':
    return { api: named ?? `${options.scheme}://api.${domain}`, data: `${options.scheme}://{port}-{id}.{domain}` };
  case 'header':
    return { api: named ?? `${options.scheme}://api.${domain}`, data: options.gateway ?? `${options.scheme}://gateway.${domain}` };
  default: {
    const front = named ? named.replace(/\/kruise\/api\/*$/, '').replace(/\/+$/, '') : root;
    return { api: named ?? `${root}/kruise/api`, data: `${front}/kruise/{id}/{port}` };
  }
  }
}
