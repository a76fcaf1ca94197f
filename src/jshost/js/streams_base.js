// What all streams share: promises that a module cannot replace, queues with sizes, strategies, conversions of the web's interfaces.
(function (internal) {
    'use strict';
    const { deferred, then, resolved, rejected } = internal;
    const { idl, isObject, dictionary } = internal.need('idl');
    const nop = () => {};
    // A rejection of it is nobody's fault.
    const handled = (promise) => { then(promise, nop, nop); };

    // --- queues: a list with a head, and the sum of the sizes

    const newQueue = () => ({ items: [], sizes: [], head: 0, total: 0 });
    const queueLength = (q) => q.items.length - q.head;
    function queuePush(q, value, size) {
        size = Number(size);
        if (!(size >= 0) || size === Infinity)
            throw new RangeError('a chunk has a size that is no finite number from 0 on');
        q.items[q.items.length] = value;
        q.sizes[q.sizes.length] = size;
        q.total += size;
    }
    function queueShift(q) {
        const value = q.items[q.head];
        q.total -= q.sizes[q.head];
        if (q.total < 0)
            q.total = 0;
        q.items[q.head++] = undefined;
        if (q.head === q.items.length) {
            q.items = [];
            q.sizes = [];
            q.head = 0;
        } else if (q.head > 1000 && q.head * 2 > q.items.length) {
            q.items.splice(0, q.head);
            q.sizes.splice(0, q.head);
            q.head = 0;
        }
        return value;
    }
    function queueReset(q) {
        q.items = [];
        q.sizes = [];
        q.head = q.total = 0;
    }

    // --- conversions

    function callback(owner, name) {
        const fn = owner[name];
        if (fn === undefined)
            return undefined;
        if (typeof fn !== 'function')
            throw new TypeError(`'${name}' must be a function`);
        return fn;
    }
    // A method of an underlying source, sink or transformer as a function that returns a promise; absent: `otherwise`.
    function promising(fn, owner, otherwise) {
        if (fn === undefined)
            return otherwise;
        return (a, b) => {
            try {
                return resolved(Reflect.apply(fn, owner, b === undefined ? [a] : [a, b]));
            } catch (e) {
                return rejected(e);
            }
        };
    }
    function readStrategy(v) {
        const s = dictionary(v, 'the strategy');
        let highWaterMark = s.highWaterMark;
        if (highWaterMark !== undefined)
            highWaterMark = Number(highWaterMark);
        const size = callback(s, 'size');
        return { highWaterMark, size };
    }
    function markOf(strategy, otherwise) {
        const mark = strategy.highWaterMark;
        if (mark === undefined)
            return otherwise;
        if (!(mark >= 0))
            throw new RangeError(`highWaterMark ${mark} is no number from 0 on`);
        return mark;
    }
    const sizeOf = (strategy) => strategy.size ?? (() => 1);

    // --- strategies

    const countSize = { size() { return 1; } }.size, byteSize = { size(chunk) { return chunk.byteLength; } }.size;
    function mark(init, name) {
        if (!isObject(init) || init.highWaterMark === undefined)
            throw new TypeError(`${name}: an object with highWaterMark is needed`);
        return Number(init.highWaterMark);
    }
    class CountQueuingStrategy {
        #mark;
        constructor(init) { this.#mark = mark(init, 'CountQueuingStrategy'); }
        get highWaterMark() { return this.#mark; }
        get size() { this.#mark; return countSize; }
    }
    class ByteLengthQueuingStrategy {
        #mark;
        constructor(init) { this.#mark = mark(init, 'ByteLengthQueuingStrategy'); }
        get highWaterMark() { return this.#mark; }
        get size() { this.#mark; return byteSize; }
    }
    idl(CountQueuingStrategy);
    idl(ByteLengthQueuingStrategy);

    return {
        CountQueuingStrategy, ByteLengthQueuingStrategy, nop, handled, newQueue, queueLength, queuePush, queueShift, queueReset,
        isObject, dictionary, callback, promising, readStrategy, markOf, sizeOf, deferred, then, resolved, rejected, idl,
        secret: Symbol('made by the runtime'),
    };
})
