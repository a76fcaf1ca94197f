// console: to the log of the provider.
(function (internal) {
    'use strict';
    function show(v, depth, seen) {
        switch (typeof v) {
        case 'string': return depth ? JSON.stringify(v) : v;
        case 'bigint': return `${v}n`;
        case 'symbol': return String(v);
        case 'function': return `[function ${v.name || '(anonymous)'}]`;
        case 'object': break;
        default: return String(v);
        }
        if (v === null)
            return 'null';
        if (v instanceof Error)
            return internal.describe(v);
        if (seen.includes(v))
            return '[circular]';
        if (depth >= 4)
            return Array.isArray(v) ? '[…]' : '{…}';
        const inner = (x) => show(x, depth + 1, [...seen, v]);
        if (Array.isArray(v))
            return `[${v.slice(0, 100).map(inner).join(', ')}${v.length > 100 ? ', …' : ''}]`;
        if (v instanceof Map)
            return `Map {${[...v].slice(0, 100).map(([k, x]) => `${inner(k)} => ${inner(x)}`).join(', ')}}`;
        if (v instanceof Set)
            return `Set {${[...v].slice(0, 100).map(inner).join(', ')}}`;
        if (ArrayBuffer.isView(v) || v instanceof ArrayBuffer)
            return `[${v.constructor.name} of ${v.byteLength} bytes]`;
        const keys = Object.keys(v);
        const body = keys.slice(0, 100).map((k) => `${k}: ${inner(v[k])}`).join(', ');
        return `{${body}${keys.length > 100 ? ', …' : ''}}`;
    }
    function text(args) {
        return args.map((v) => {
            try {
                return show(v, 0, []);
            } catch {
                return '[cannot be shown]';
            }
        }).join(' ').slice(0, 65536);
    }
    const say = (level) => (...args) => internal.log(level, text(args));
    const console = {
        log: say('info'), info: say('info'), debug: say('debug'), warn: say('warn'), error: say('error'), trace: say('debug'),
        assert(ok, ...args) { if (!ok) internal.log('error', `assertion failed: ${text(args)}`); },
    };
    return { console, show };
})
