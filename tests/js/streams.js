const all = async (stream) => {
    const out = [];
    for await (const chunk of stream)
        out.push(chunk);
    return out;
};
check('a source is pulled as it is read', async () => {
    let n = 0;
    const s = new ReadableStream({ pull(c) { n < 3 ? c.enqueue(n++) : c.close(); } }, { highWaterMark: 0 });
    await pause(1);
    same(n, 0);
    same(await all(s), [0, 1, 2]);
    same(s.locked, false);
});
check('errors, cancel, and breaking off', async () => {
    const why = new Error('why');
    const bad = new ReadableStream({ start(c) { c.error(why); } });
    await fails(() => bad.getReader().read(), why);
    let reason;
    const s = new ReadableStream({ pull(c) { c.enqueue(1); }, cancel(r) { reason = r; } });
    for await (const _ of s)
        break;
    same(reason, undefined);
    same(s.locked, false);
    const other = new ReadableStream({ cancel(r) { reason = r; } });
    await other.cancel('enough');
    same(reason, 'enough');
});
check('backpressure of a sink', async () => {
    const seen = [], waits = [];
    const w = new WritableStream({ write(chunk) { seen.push(chunk); return new Promise((r) => waits.push(r)); } }).getWriter();
    const first = w.write(1), second = w.write(2);
    same(w.desiredSize, -1);
    await pause(1);
    same(seen, [1]);
    waits.shift()();
    await first;
    await pause(1);
    same(seen, [1, 2]);
    waits.shift()();
    await second;
    await w.ready;
    await w.close();
    await fails(() => w.write(3), 'TypeError');
});
check('abort reaches the sink', async () => {
    let signal, reason;
    const ws = new WritableStream({ start(c) { signal = c.signal; }, abort(r) { reason = r; } });
    await ws.abort('stop');
    same([signal.aborted, signal.reason, reason], [true, 'stop', 'stop']);
});
check('a pipe through a transform', async () => {
    const t = new TransformStream({ transform(x, c) { c.enqueue(x * 2); c.enqueue(x * 2 + 1); }, flush(c) { c.enqueue('end'); } });
    same(await all(ReadableStream.from([1, Promise.resolve(2)]).pipeThrough(t)), [2, 3, 4, 5, 'end']);
});
check('a pipe that is aborted', async () => {
    const c = new AbortController(), ends = [];
    const from = new ReadableStream({ pull(x) { x.enqueue(1); }, cancel(r) { ends.push(`cancel ${r}`); } });
    const to = new WritableStream({ write() { return pause(1); }, abort(r) { ends.push(`abort ${r}`); } });
    const done = from.pipeTo(to, { signal: c.signal });
    setTimeout(() => c.abort('now'), 5);
    await fails(() => done, 'now');
    same(ends.toSorted(), ['abort now', 'cancel now']);
});
check('tee', async () => {
    const [a, b] = ReadableStream.from(['x', 'y']).tee();
    same([await all(a), await all(b)], [['x', 'y'], ['x', 'y']]);
});
check('bytes: chunks, own buffers, and a tail', async () => {
    let n = 0;
    const make = () => new ReadableStream({ type: 'bytes', pull(c) { c.enqueue(new Uint8Array([n++, n++, n++])); } });
    same((await make().getReader().read()).value, new Uint8Array([0, 1, 2]));
    const r = make().getReader({ mode: 'byob' }), first = new Uint8Array(2);
    const { value } = await r.read(first);
    same(value, new Uint8Array([3, 4]));
    same(first.byteLength, 0); // its buffer was taken over
    same((await r.read(new Uint8Array(8), { min: 4 })).value, new Uint8Array([5, 6, 7, 8]));
});
check('bytes: a source that fills the buffer of its reader', async () => {
    const s = new ReadableStream({ type: 'bytes', autoAllocateChunkSize: 4, pull(c) {
        const { view } = c.byobRequest;
        view.set([9, 8]);
        c.byobRequest.respond(2);
    } });
    const [a, b] = s.tee();
    same((await a.getReader().read()).value, new Uint8Array([9, 8]));
    same((await b.getReader({ mode: 'byob' }).read(new Uint8Array(1))).value, new Uint8Array([9]));
});
check('text on its way', async () => {
    const encoded = ReadableStream.from(['a\uD83D', '\uDE00', '\uD800']).pipeThrough(new TextEncoderStream());
    same((await all(encoded)).flatMap((x) => [...x]), [97, 240, 159, 152, 128, 239, 191, 189]);
    const parts = ReadableStream.from([new Uint8Array([0xE2]), new Uint8Array([0x82, 0xAC])]);
    same(await all(parts.pipeThrough(new TextDecoderStream())), ['€']);
});
check('what a module changes does not matter', async () => {
    const { then } = Promise.prototype;
    const s = new ReadableStream({ start(c) { c.enqueue(1); c.close(); } });
    Promise.prototype.then = () => { throw new Error('mine'); };
    const read = s.getReader().read();
    Promise.prototype.then = then;
    same(await read, { value: 1, done: false });
});
