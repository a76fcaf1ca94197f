// process: nothing of the host's.
(function (internal) {
    'use strict';
    const { now } = performance, origin = performance, time = () => Reflect.apply(now, origin, []), { queueMicrotask } = globalThis;
    function hrtime(since) {
        const t = time(), s = Math.floor(t / 1000), ns = Math.floor((t - s * 1000) * 1e6);
        if (since === undefined)
            return [s, ns];
        return ns < since[1] ? [s - since[0] - 1, ns - since[1] + 1e9] : [s - since[0], ns - since[1]];
    }
    hrtime.bigint = () => BigInt(Math.round(time() * 1e6));
    const process = {
        env: Object.freeze(Object.create(null)), argv: Object.freeze([]), platform: 'linux', version: `v${internal.version}`,
        versions: Object.freeze({ abx: internal.version }), hrtime,
        nextTick(fn, ...args) {
            if (typeof fn !== 'function')
                throw new TypeError('nextTick: a function is needed');
            queueMicrotask(() => fn(...args));
        },
        uptime: () => time() / 1000,
        cwd: () => '/',
        exit(code = 0) { internal.stop(`it called process.exit(${Number(code)})`); },
    };
    return { process: Object.freeze(process) };
})
