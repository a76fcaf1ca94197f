// FormData, and forms of several parts as bytes, both ways.
(function (internal) {
    'use strict';
    const { idl, need, usv, pairs } = internal.need('idl');
    const blobs = internal.need('blob');
    const { encode, latin1 } = internal;

    function entry(name, value, filename, count) {
        name = usv(name);
        const b = blobs.stateOf(value);
        if (b === undefined) {
            if (count > 2)
                throw new TypeError('FormData: only a Blob has a file name');
            return [name, usv(value)];
        }
        if (filename !== undefined)
            return [name, blobs.makeFile(b.bytes, usv(filename), b.type, value instanceof blobs.File ? value.lastModified : undefined)];
        return [name, value instanceof blobs.File ? value : blobs.makeFile(b.bytes, 'blob', b.type)];
    }
    class FormData {
        #list = [];
        static of(v) { return v.#list; }
        static is(v) { return blobs.isObject(v) && #list in v; }
        constructor(form = undefined) {
            if (form !== undefined)
                throw new TypeError('FormData: there are no forms of documents here');
        }
        append(name, value, filename = undefined) {
            const list = this.#list;
            need(arguments, 2, 'append');
            list[list.length] = entry(name, value, filename, arguments.length);
        }
        delete(name) {
            need(arguments, 1, 'delete');
            name = usv(name);
            const left = this.#list.filter((x) => x[0] !== name);
            this.#list.length = 0;
            for (let i = 0; i < left.length; i++)
                this.#list[i] = left[i];
        }
        get(name) {
            need(arguments, 1, 'get');
            name = usv(name);
            return this.#list.find((x) => x[0] === name)?.[1] ?? null;
        }
        getAll(name) {
            need(arguments, 1, 'getAll');
            name = usv(name);
            return this.#list.filter((x) => x[0] === name).map((x) => x[1]);
        }
        has(name) {
            need(arguments, 1, 'has');
            name = usv(name);
            return this.#list.some((x) => x[0] === name);
        }
        set(name, value, filename = undefined) {
            need(arguments, 2, 'set');
            const made = entry(name, value, filename, arguments.length), list = this.#list, i = list.findIndex((x) => x[0] === made[0]);
            if (i < 0) {
                list[list.length] = made;
                return;
            }
            list[i] = made;
            const left = list.filter((x, k) => k <= i || x[0] !== made[0]);
            list.length = 0;
            for (let k = 0; k < left.length; k++)
                list[k] = left[k];
        }
    }
    const { of, is } = FormData;
    delete FormData.of;
    delete FormData.is;
    pairs(FormData, (v) => of(v));
    idl(FormData);

    // --- to bytes

    const lines = (s) => s.replace(/\r\n|\r|\n/g, '\r\n');
    const quoted = (s) => s.replace(/\n/g, '%0A').replace(/\r/g, '%0D').replace(/"/g, '%22');
    // {bytes, type}
    function encodeForm(form) {
        const boundary = `----abx${internal.random(16).toHex()}`, parts = [], list = of(form);
        for (let i = 0; i < list.length; i++) {
            const [name, value] = list[i], head = `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(lines(name))}"`;
            if (typeof value === 'string') {
                parts[parts.length] = encode(`${head}\r\n\r\n${lines(value)}\r\n`);
                continue;
            }
            const b = blobs.stateOf(value);
            parts[parts.length] = encode(`${head}; filename="${quoted(value.name)}"\r\nContent-Type: ${b.type || 'application/octet-stream'}\r\n\r\n`);
            parts[parts.length] = b.bytes;
            parts[parts.length] = encode('\r\n');
        }
        parts[parts.length] = encode(`--${boundary}--\r\n`);
        return { bytes: blobs.join(parts), type: `multipart/form-data; boundary=${boundary}` };
    }

    // --- from bytes

    const text = (bytes) => internal.decode(bytes, [0, 0, 0, 0, 0, false], true, 0);
    const broken = () => new TypeError('the body is no form');
    // The headers of a part: {name, filename, type}
    function partHead(bytes) {
        const out = { name: undefined, filename: undefined, type: 'text/plain' };
        for (const line of text(bytes).split('\r\n')) {
            const colon = line.indexOf(':'), key = line.slice(0, colon).toLowerCase(), value = line.slice(colon + 1).trim();
            if (colon < 0)
                throw broken();
            if (key === 'content-type')
                out.type = value;
            if (key !== 'content-disposition')
                continue;
            if (!/^form-data\s*;/i.test(value))
                throw broken();
            const get = (want) => {
                const m = new RegExp(`;\\s*${want}="([^"]*)"`, 'i').exec(value) ?? new RegExp(`;\\s*${want}=([^";\\s]+)`, 'i').exec(value);
                return m?.[1].replace(/%0A/gi, '\n').replace(/%0D/gi, '\r').replace(/%22/g, '"');
            };
            out.name = get('name');
            out.filename = get('filename');
        }
        if (out.name === undefined)
            throw broken();
        return out;
    }
    function decodeForm(bytes, boundary) {
        const s = latin1(bytes), form = new FormData(), list = of(form), mark = `--${boundary}`;
        let at = s.startsWith(mark) ? 0 : s.indexOf(`\r\n${mark}`) + 2;
        if (at === 1)
            throw broken();
        for (;;) {
            at += mark.length;
            if (s.startsWith('--', at))
                return form;
            if (!s.startsWith('\r\n', at))
                throw broken();
            at += 2;
            const body = s.indexOf('\r\n\r\n', at), end = body < 0 ? -1 : s.indexOf(`\r\n${mark}`, body + 2);
            if (end < 0)
                throw broken();
            const head = partHead(bytes.subarray(at, body)), value = bytes.subarray(body + 4, Math.max(body + 4, end));
            list[list.length] = [head.name, head.filename === undefined ? text(value)
                : blobs.makeFile(new Uint8Array(value), head.filename, head.type.toLowerCase())];
            at = end + 2;
        }
    }
    function fromPairs(pairsOfText) {
        const form = new FormData(), list = of(form);
        for (let i = 0; i < pairsOfText.length; i++)
            list[i] = pairsOfText[i];
        return form;
    }
    return { FormData, isForm: is, encodeForm, decodeForm, fromPairs };
})
