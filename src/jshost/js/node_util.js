// node:util: what is small of it.
(function (internal) {
    'use strict';
    const { show } = internal.need('console'), { classOf } = internal, text = internal.need('text');
    const inspect = (v) => show(v, typeof v === 'string' ? 1 : 0, []);
    function format(...args) {
        if (typeof args[0] !== 'string')
            return args.map(inspect).join(' ');
        let at = 1;
        const head = args[0].replace(/%[sdifjoO%]/g, (mark) => {
            if (mark === '%%')
                return '%';
            if (at >= args.length)
                return mark;
            const v = args[at++];
            switch (mark[1]) {
            case 's': return typeof v === 'object' && v !== null ? inspect(v) : String(v);
            case 'd': return typeof v === 'bigint' ? `${v}n` : String(Number(v));
            case 'i': return String(parseInt(v, 10));
            case 'f': return String(parseFloat(v));
            case 'j': return JSON.stringify(v);
            default: return inspect(v);
            }
        });
        return [head, ...args.slice(at).map((v) => (typeof v === 'string' ? v : inspect(v)))].join(' ');
    }
    const custom = Symbol.for('nodejs.util.promisify.custom');
    function promisify(fn) {
        if (typeof fn !== 'function')
            throw new TypeError('promisify: a function is needed');
        return fn[custom] ?? function (...args) {
            return new Promise((resolve, reject) => fn.call(this, ...args, (e, value) => (e ? reject(e) : resolve(value))));
        };
    }
    promisify.custom = custom;
    const callbackify = (fn) => (...args) => {
        const done = args.pop();
        fn(...args).then((v) => queueMicrotask(() => done(null, v)), (e) => queueMicrotask(() => done(e)));
    };
    function same(a, b, seen) {
        if (Object.is(a, b))
            return true;
        const kind = classOf(a);
        if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null || kind !== classOf(b) ||
            Object.getPrototypeOf(a) !== Object.getPrototypeOf(b))
            return false;
        if (seen.some(([x, y]) => x === a && y === b))
            return true;
        seen = [...seen, [a, b]];
        if (a instanceof Date)
            return a.getTime() === b.getTime();
        if (a instanceof RegExp)
            return String(a) === String(b);
        if (a instanceof Map)
            return a.size === b.size && [...a].every(([k, v]) => b.has(k) && same(v, b.get(k), seen));
        if (a instanceof Set)
            return a.size === b.size && [...a].every((v) => b.has(v) || [...b].some((w) => same(v, w, seen)));
        if (a instanceof Error && (a.message !== b.message || a.name !== b.name))
            return false;
        if (a instanceof ArrayBuffer)
            return same(new Uint8Array(a), new Uint8Array(b), seen);
        const keys = Object.keys(a);
        return keys.length === Object.keys(b).length && keys.every((k) => Object.hasOwn(b, k) && same(a[k], b[k], seen));
    }
    const types = {
        isDate: (v) => classOf(v) === 3, isRegExp: (v) => classOf(v) === 4, isMap: (v) => classOf(v) === 5, isSet: (v) => classOf(v) === 6,
        isNativeError: (v) => classOf(v) === 7, isArrayBuffer: (v) => classOf(v) === 8, isAnyArrayBuffer: (v) => classOf(v) === 8,
        isTypedArray: (v) => classOf(v) === 9, isUint8Array: (v) => classOf(v) === 9 && v instanceof Uint8Array, isDataView: (v) => classOf(v) === 10,
        isArrayBufferView: (v) => ArrayBuffer.isView(v), isPromise: (v) => v instanceof Promise,
        isAsyncFunction: (v) => typeof v === 'function' && Object.prototype.toString.call(v) === '[object AsyncFunction]',
        isBoxedPrimitive: (v) => classOf(v) === 11,
    };
    return {
        exports: {
            inspect, format, promisify, callbackify, types, isDeepStrictEqual: (a, b) => same(a, b, []), TextEncoder: text.TextEncoder,
            TextDecoder: text.TextDecoder, deprecate: (fn) => fn,
            inherits: (C, Base) => { Object.setPrototypeOf(C.prototype, Base.prototype); },
        },
    };
})
