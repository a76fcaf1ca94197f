// CubeSandbox: E2B's protocol without tokens. Its time limits are idle windows, its connect says 200 whatever is, its list has no pages, and the version
// of envd that it tells is not to be believed.
export function create(kit) {
  return {
    async buildInfra(ctx) {
      const { options, core } = ctx;
      const key = core.apiKey ?? options.key;
      const domain = core.domain ?? options['sandbox-domain'];
      const http = ctx.http({
        baseUrl: core.apiUrl ?? options.url,
        auth: key ? ctx.headerKeyAuth(key, 'X-API-Key') : ctx.noAuth(),
      });
      const base = new kit.SandboxProtocol({
        http, features: ctx.features, domain, template: options.template,
        dialect: {
          ...reach(options, kit),
          defaultTemplate: 'none',
          defaultUser: options.user,
          createRoute: 'v1',
          connectRoutes: ['v1', 'resume', 'v2'],
          connectRetryMs: 2000,
          checkConnect: true,
          idleTimeout: true,
          unlimited: true,
          listPages: false,
          listFilter: false,
          codec: 'json',
          trustVersion: false,
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

// The way to the sandboxes: by a path at the proxy, or by names, which a node of the proxy may answer for.
function reach(options, kit) {
  if (options.mode === 'path')
    return { dataPlaneUrl: `${options.proxy.replace(/\/+$/, '')}/sandbox/{id}/{port}` };
  const port = options['node-port'], scheme = port === 443 ? 'https' : options.scheme;
  if (options.node !== undefined && /[\s/]/.test(options.node))
    throw new kit.errors.ProviderConfigError(`the option 'node' is a host, not '${options.node}'`);
  return {
    dataPlaneUrl: `${scheme}://{port}-{id}.{domain}`,
    ...(options.node ? { connectTo: `${options.node}:${port}` } : {}),
  };
}
