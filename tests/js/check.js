// Small things for the other files here: check(name, fn), same(a, b), fails(fn, type). Each prints a line.
globalThis.check = (() => {
    let chain = Promise.resolve();
    return (name, fn) => {
        chain = chain.then(fn).then(() => print(`ok ${name}`), (e) => print(`not ok ${name}: ${e}\n${e?.stack ?? ''}`));
    };
})();
globalThis.same = (a, b) => {
    const text = (v) => (v instanceof Uint8Array ? `bytes ${v}` : typeof v === 'object' ? JSON.stringify(v) : `${typeof v} ${String(v)}`);
    if (text(a) !== text(b))
        throw new Error(`${text(a)} is not ${text(b)}`);
};
globalThis.fails = async (fn, type) => {
    let e;
    try {
        await fn();
    } catch (thrown) {
        e = thrown;
    }
    if (e === undefined)
        throw new Error(`nothing was thrown where ${type} is expected`);
    if (e.name !== type && e !== type)
        throw new Error(`${e} was thrown where ${type} is expected`);
};
globalThis.pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
