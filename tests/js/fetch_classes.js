const read = async (stream) => {
    const out = [];
    for await (const chunk of stream)
        out.push(...chunk);
    return out;
};
const asText = (list) => new TextDecoder().decode(new Uint8Array(list));
check('Headers', async () => {
    const h = new Headers([['X-b', ' 1 '], ['a', '2']]);
    h.append('x-B', '3');
    h.append('Set-Cookie', 'x=1, y');
    h.append('set-cookie', 'z=2');
    same([...h], [['a', '2'], ['set-cookie', 'x=1, y'], ['set-cookie', 'z=2'], ['x-b', '1, 3']]);
    same(h.getSetCookie(), ['x=1, y', 'z=2']);
    h.delete('X-B');
    same([h.has('x-b'), h.get('none')], [false, null]);
    same(new Headers({ b: 1 }).get('B'), '1');
    for (const bad of [['a b', '1'], ['a', 'x\ny'], ['a', '\u0100'], ['', '1']])
        await fails(() => new Headers([bad]), 'TypeError');
});
check('Response: bodies of all kinds', async () => {
    same(await new Response('grüß').text(), 'grüß');
    same(await new Response(new Uint8Array([1, 2])).bytes(), new Uint8Array([1, 2]));
    same(await new Response('{"a":[1]}').json(), { a: [1] });
    same(await new Response(new Blob(['b'], { type: 'x/y' })).headers.get('content-type'), 'x/y');
    same(await new Response(new URLSearchParams({ a: 'b c' })).text(), 'a=b+c');
    same((await new Response(ReadableStream.from([new Uint8Array([7])])).arrayBuffer()).byteLength, 1);
    same((await new Response(null).text()), '');
    same(new Response().body, null);
    same((await new Response('\uFEFFx').text()), 'x');
    await fails(() => new Response(ReadableStream.from(['text'])).text(), 'TypeError');
});
check('Response: a body is read once', async () => {
    const r = new Response('abc');
    same(r.bodyUsed, false);
    const copy = r.clone();
    await r.text();
    same(r.bodyUsed, true);
    await fails(() => r.text(), 'TypeError');
    await fails(() => r.clone(), 'TypeError');
    same(r.body.locked, true);
    same(asText(await read(copy.body)), 'abc');
    const s = new Response('abc');
    s.body.getReader();
    await fails(() => s.text(), 'TypeError');
    same((await new Response('abcdef').body.getReader({ mode: 'byob' }).read(new Uint8Array(4))).value, new Uint8Array([97, 98, 99, 100]));
});
check('Response: what it is made with', async () => {
    const r = new Response('x', { status: 201, statusText: 'Made', headers: { a: 'b' } });
    same([r.status, r.ok, r.statusText, r.headers.get('a'), r.type, r.url], [201, true, 'Made', 'b', 'default', '']);
    same(Response.error().type, 'error');
    same(Response.redirect('http://a.example/b', 307).headers.get('location'), 'http://a.example/b');
    same(await Response.json({ a: 1 }).text(), '{"a":1}');
    await fails(() => new Response('x', { status: 204 }), 'TypeError');
    await fails(() => new Response('x', { status: 99 }), 'RangeError');
    await fails(() => Response.error().headers.set('a', 'b'), 'TypeError');
});
check('Request', async () => {
    const c = new AbortController();
    const r = new Request('HTTP://a.example:80/x?y#z', { method: 'post', body: 'b', headers: { 'X-A': '1' }, signal: c.signal });
    same([r.url, r.method, r.headers.get('content-type')], ['http://a.example/x?y#z', 'POST', 'text/plain;charset=UTF-8']);
    const other = new Request(r, { headers: { 'x-b': '2' } });
    same([r.bodyUsed, other.headers.get('x-a'), await other.text()], [true, null, 'b']);
    c.abort();
    same([r.signal.aborted, other.signal.aborted], [true, true]);
    await fails(() => new Request('relative'), 'TypeError');
    await fails(() => new Request('http://u:p@a.example/'), 'TypeError');
    await fails(() => new Request('http://a.example/', { body: 'x' }), 'TypeError');
    await fails(() => new Request('http://a.example/', { method: 'a b' }), 'TypeError');
    await fails(() => new Request('http://a.example/', { method: 'POST', body: new ReadableStream() }), 'TypeError');
    const s = new Request('http://a.example/', { method: 'POST', body: ReadableStream.from([new Uint8Array([65])]), duplex: 'half' });
    same(await s.clone().text() + await s.text(), 'AA');
});
check('Blob and File', async () => {
    const b = new Blob(['ab', new Uint8Array([99, 100]), new Blob(['é'])], { type: 'Text/X' });
    same([b.size, b.type, await b.text(), await b.slice(-4, -2).text()], [6, 'text/x', 'abcdé', 'cd']);
    same(asText(await read(b.stream())), 'abcdé');
    const f = new File(['x'], 'n.txt', { lastModified: 5 });
    same([f.name, f.lastModified, f.size, f instanceof Blob], ['n.txt', 5, 1, true]);
});
check('forms, both ways', async () => {
    const form = new FormData();
    form.append('a"\n', 'line\nline');
    form.append('file', new File([new Uint8Array([0, 13, 10, 255])], 'ü.bin', { type: 'x/y' }));
    form.append('a"\n', new Blob(['t']));
    const r = new Response(form), type = r.headers.get('content-type');
    same(/^multipart\/form-data; boundary=----abx[0-9a-f]{32}$/.test(type), true);
    const back = await r.formData(), all = back.getAll('a"\r\n');
    same([all[0], all[1].name, await all[1].text()], ['line\r\nline', 'blob', 't']);
    const f = back.get('file');
    same([f.name, f.type, f.size], ['ü.bin', 'x/y', 4]);
    same(await f.bytes(), new Uint8Array([0, 13, 10, 255]));
    const plain = new Response('a=b+c&d=%C3%BC', { headers: { 'content-type': 'application/x-www-form-urlencoded' } });
    same([...await plain.formData()], [['a', 'b c'], ['d', 'ü']]);
    for (const bad of ['--x\r\n', '--x\r\nno\r\n\r\n--x--', 'nothing'])
        await fails(() => new Response(bad, { headers: { 'content-type': 'multipart/form-data; boundary=x' } }).formData(), 'TypeError');
});
check('structuredClone', async () => {
    const a = { d: new Date(5), r: /x/gi, m: new Map([[1, { b: 2 }]]), s: new Set(['q']), e: new TypeError('t', { cause: 1 }), n: Object(5n) };
    a.self = a;
    const b = structuredClone(a);
    same([b.self === b, b.d.getTime(), String(b.r), b.m.get(1).b, b.s.has('q')], [true, 5, '/x/gi', 2, true]);
    same([b.e instanceof TypeError, b.e.message, b.e.cause, typeof b.n], [true, 't', 1, 'object']);
    const buffer = new Uint8Array([1, 2]).buffer, moved = structuredClone({ v: new Uint8Array(buffer, 1) }, { transfer: [buffer] });
    same([buffer.byteLength, moved.v[0], moved.v.buffer.byteLength], [0, 2, 2]);
    same(await structuredClone(new Blob(['x'])).text(), 'x');
    for (const bad of [() => {}, Symbol('s'), new Proxy({}, {}), Promise.resolve(), new WeakMap(), new URL('a:b'), new Headers(), { f() {} }, buffer])
        await fails(() => structuredClone(bad), 'DataCloneError');
});
check('data: URLs, and what an answer must be', async () => {
    const r = await fetch('data:text/x;charset=utf-8;base64,Z3LDvMOf#h');
    same([r.status, r.headers.get('content-type'), r.type, await r.text()], [200, 'text/x;charset=utf-8', 'basic', 'grüß']);
    same(await (await fetch('data:,a%20%C3%BC%')).text(), 'a ü%');
    await fails(() => fetch('data:;base64,*'), 'TypeError');
    await fails(() => r.headers.set('a', 'b'), 'TypeError');
    const sum = 'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=';
    same(await (await fetch('data:,abc', { integrity: `sha256-wrong ${sum}` })).text(), 'abc');
    await fails(() => fetch('data:,abd', { integrity: sum }), 'TypeError');
});
check('ports of other protocols', async () => {
    const port = (url) => fetch(url).then(() => 'answered', (e) => `${e.cause?.message}`);
    for (const n of [1, 22, 25, 6000, 6667, 10080])
        same((await port(`http://127.0.0.1:${n}/`)).startsWith('bad port'), true);
    same((await port('https://127.0.0.1:53/')).startsWith('bad port'), true);
    same((await port('http://127.0.0.1:2/')).startsWith('bad port'), false);
    const ws = new WebSocket('ws://127.0.0.1:6667/');
    const end = await new Promise((resolve) => { ws.onclose = (e) => resolve([e.code, e.wasClean]); });
    same([ws.readyState, ...end], [3, 1006, false]);
});
check('what a WebSocket refuses', async () => {
    for (const url of ['ws://a.example/#', 'ws://a.example/#x', 'ftp://a.example/', 'nothing'])
        await fails(() => new WebSocket(url), 'SyntaxError');
    const ws = new WebSocket('ws://127.0.0.1:2/');
    ws.onerror = () => {};
    for (const code of [999, 1001, 2999, 5000, 0x10000 + 1000, -1, NaN, 'x'])
        await fails(() => ws.close(code), 'InvalidAccessError');
    ws.close(2999.6);
});
