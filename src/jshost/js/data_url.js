// Answers that stand in their addresses: data: URLs.
(function (internal) {
    'use strict';
    const { parseMime, printMime } = internal.need('mime'), { responseFrom } = internal.need('response');
    const failed = () => new TypeError('fetch failed', { cause: new TypeError('the data: URL is broken') });
    // Bytes of a text with %XX.
    function bytesOf(text) {
        const raw = internal.encode(text), out = new Uint8Array(raw.length), hex = (c) => parseInt(String.fromCharCode(c), 16);
        let n = 0;
        for (let i = 0; i < raw.length; i++) {
            const high = raw[i] === 37 ? hex(raw[i + 1]) : NaN, low = raw[i] === 37 ? hex(raw[i + 2]) : NaN;
            out[n++] = high >= 0 && low >= 0 ? high * 16 + low : raw[i];
            if (high >= 0 && low >= 0)
                i += 2;
        }
        return out.slice(0, n);
    }
    function decode(url) {
        const whole = url.slice('data:'.length).split('#')[0], comma = whole.indexOf(',');
        if (comma < 0)
            throw failed();
        let type = whole.slice(0, comma).replace(/^[\t\n\f\r ]+|[\t\n\f\r ]+$/g, ''), bytes = bytesOf(whole.slice(comma + 1));
        const base64 = /; *base64$/i.exec(type);
        if (base64) {
            type = type.slice(0, base64.index);
            try {
                bytes = Uint8Array.fromBase64(internal.latin1(bytes).replace(/[\t\n\f\r ]/g, ''));
            } catch {
                throw failed();
            }
        }
        const mime = parseMime(type.startsWith(';') ? `text/plain${type}` : type);
        return { type: mime === null ? 'text/plain;charset=US-ASCII' : printMime(mime), bytes };
    }
    async function answer(url, method, integrity) {
        const { sourceOf, checked } = internal.need('integrity'), { type, bytes } = decode(url);
        const source = sourceOf(method === 'HEAD' ? new Uint8Array(0) : bytes);
        return responseFrom({
            status: 200, statusText: 'OK', headers: ['Content-Type', type], url, redirected: false,
            body: integrity ? await checked(source, integrity) : source,
        });
    }
    return { answer };
})
