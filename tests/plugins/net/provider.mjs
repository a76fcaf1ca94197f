// Commands are words that use the network of the runtime: the first argument is the server's address.
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const causes = (e) => `${e?.name}: ${e?.message}${e?.cause ? ` <- ${e.cause.code ?? causes(e.cause)}` : ''}`;

async function* pieces(count, size) {
    for (let i = 0; i < count; i++)
        yield new Uint8Array(size).fill(i);
}

const words = {
    async get(url, path) {
        const r = await fetch(url + path);
        return { status: r.status, ok: r.ok, words: r.statusText, type: r.headers.get('content-type'), text: await r.text(), url: r.url, moved: r.redirected };
    },
    async echo(url, method, body) {
        const r = await fetch(`${url}/echo`, { method, headers: { 'X-One': 'a', 'content-type': 'text/x' }, body: body || undefined });
        return r.json();
    },
    async bytes(url, size) {
        const r = await fetch(`${url}/bytes/${size}`);
        return (await r.bytes()).length;
    },
    // chunk by chunk, slowly at first: how much has the server been able to send meanwhile?
    async slow(url, size) {
        const r = await fetch(`${url}/bytes/${size}`);
        await sleep(300);
        const sent = await (await fetch(`${url}/sent`)).json();
        let n = 0, chunks = 0;
        for await (const chunk of r.body ?? r) {
            n += chunk.length;
            chunks++;
        }
        return { sent, n, chunks };
    },
    async upload(url, count, size) {
        const r = await fetch(`${url}/count`, { method: 'POST', body: ReadableStreamOr(pieces(Number(count), Number(size))), duplex: 'half' });
        return r.json();
    },
    async redirect(url, path, mode, method = 'GET') {
        const r = await fetch(url + path, {
            redirect: mode, method, body: method === 'POST' ? 'body' : undefined, headers: { authorization: 'secret', cookie: 'c=1', 'x-kept': '1' } });
        return { status: r.status, moved: r.redirected, url: r.url, body: await r.text() };
    },
    async abort(url, when) {
        const c = new AbortController();
        if (when === 'before')
            c.abort();
        if (when === 'head')
            setTimeout(() => c.abort(new Error('enough')), 100);
        const text = (await fetch(`${url}/hang/${when}`, { signal: c.signal })).text(); // nobody holds the Response
        setTimeout(() => c.abort(new Error('enough')), 100);
        return text;
    },
    async timeout(url) { return fetch(`${url}/hang/head`, { signal: AbortSignal.timeout(100) }); },
    // answers that nobody reads: their connections end
    async drop(url) {
        for (let i = 0; i < 20; i++)
            await fetch(`${url}/bytes/100000000`);
        await sleep(500);
        return (await fetch(`${url}/open`)).json();
    },
    async cancel(url) {
        const r = await fetch(`${url}/bytes/100000000`);
        for await (const chunk of r.body ?? r)
            break;
        await sleep(500);
        return (await fetch(`${url}/open`)).json();
    },
    async many(url) {
        const all = await Promise.all(Array.from({ length: 300 }, async (_, i) => (await fetch(`${url}/echo?${i}`)).json()));
        return all.every((x, i) => x.path === `/echo?${i}`);
    },
    async million(url) {
        const all = [];
        for (let i = 0; i < 1e6; i++)
            all.push(fetch(`${url}/hang/head`));
        await Promise.all(all);
    },
    async cut(url) { return (await fetch(`${url}/cut`)).text(); },
    async twice(url) {
        const r = await fetch(`${url}/bytes/10`);
        await r.text();
        return r.text();
    },
};
// What a connection brings, until it ends: [event, its members] each.
function talk(url, options, say = () => {}) {
    return new Promise((resolve) => {
        const ws = new WebSocket(url.replace('http', 'ws'), options), seen = [];
        ws.binaryType = 'arraybuffer';
        ws.onopen = () => {
            seen.push(['open', ws.protocol]);
            say(ws);
        };
        ws.onmessage = ({ data }) => {
            seen.push(['message', typeof data === 'string' ? data.slice(0, 1000) : [...new Uint8Array(data)].slice(0, 10)]);
            say(ws, data);
        };
        ws.onerror = () => seen.push(['error']);
        ws.addEventListener('close', ({ code, reason, wasClean }) => resolve([...seen, ['close', code, reason, wasClean]]));
    });
}
Object.assign(words, {
    async wsecho(url) {
        const messages = ['grüß', new Uint8Array([1, 2, 3]), new Blob(['blob']), 'x'.repeat(70000)];
        return talk(`${url}/echo`, undefined, (ws, data) => {
            if (data === undefined)
                messages.forEach((m) => ws.send(m));
            else if (data.length === 70000)
                ws.close(3001, 'done');
        });
    },
    wstalk: (url, path, protocols, name, value) => talk(url + path, { protocols: protocols ? protocols.split(',') : [], headers: name ? { [name]: value } : {} }),
    async wsflood(url) {
        let n = 0, at;
        const seen = await new Promise((resolve) => {
            const ws = new WebSocket(`${url.replace('http', 'ws')}/flood`);
            ws.binaryType = 'arraybuffer';
            ws.onmessage = ({ data }) => {
                if (n++ === 0)
                    for (const end = performance.now() + 500; performance.now() < end;);
                at = data.byteLength;
            };
            ws.onclose = (e) => resolve([e.code, e.wasClean]);
        });
        return { n, at, seen };
    },
    async wssend(url) {
        const ws = new WebSocket(`${url.replace('http', 'ws')}/slow`);
        await new Promise((r) => { ws.onopen = r; });
        ws.send('fünf');
        const first = ws.bufferedAmount;
        let n = 0, error;
        try {
            for (; n < 200; n++)
                ws.send(new Uint8Array(1 << 20));
        } catch (e) {
            error = e.name;
        }
        const waits = ws.bufferedAmount;
        ws.close();
        return { n, error, first, waits: waits > 16 << 20 };
    },
    async wsbad() {
        const names = [];
        for (const make of [() => new WebSocket('ftp://a'), () => new WebSocket('ws://a/#x'), () => new WebSocket('ws://a', ['a', 'a']), () => new WebSocket('no'),
            () => new WebSocket('ws://127.0.0.1:1').close(1), () => new WebSocket('ws://127.0.0.1:1').send('')])
            try {
                make();
                names.push('');
            } catch (e) {
                names.push(e.name);
            }
        return names;
    },
});
const ReadableStreamOr = (it) => (globalThis.ReadableStream ? ReadableStream.from(it) : it);

export const create = () => ({
    buildInfra: () => ({
        sandbox: { create: () => ({ id: 'net-1', state: 'running' }), kill: () => ({}), info: (id) => ({ id, state: 'running' }) },
        process: {
            async *start(id, { cmd: [word, ...args] }) {
                yield { type: 'started', id: '1', pid: 1 };
                let said;
                try {
                    said = JSON.stringify(await words[word](...args));
                } catch (e) {
                    said = causes(e);
                }
                yield { type: 'stdout', data: said };
                yield { type: 'exit', exitCode: 0 };
            },
        },
    }),
});
