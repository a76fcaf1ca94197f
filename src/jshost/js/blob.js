// Blob and File: bytes that do not change.
(function (internal) {
    'use strict';
    const { idl, need, usv, isObject } = internal.need('idl');
    const { encode } = internal;
    const isBuffer = (v) => ArrayBuffer.isView(v) || v instanceof ArrayBuffer;
    const secret = Symbol('made by the runtime');
    const copyOf = (v) => {
        const view = v instanceof ArrayBuffer ? new Uint8Array(v) : new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
        return new Uint8Array(view);
    };

    function join(parts) {
        if (parts.length === 1)
            return parts[0];
        let size = 0, at = 0;
        for (let i = 0; i < parts.length; i++)
            size += parts[i].length;
        const all = new Uint8Array(size);
        for (let i = 0; i < parts.length; i++) {
            all.set(parts[i], at);
            at += parts[i].length;
        }
        return all;
    }
    function cleanType(type) {
        for (let i = 0; i < type.length; i++) {
            const c = type.charCodeAt(i);
            if (c < 0x20 || c > 0x7E)
                return '';
        }
        return type.toLowerCase();
    }
    function readParts(parts) {
        if (parts === undefined)
            return [];
        const make = isObject(parts) ? parts[Symbol.iterator] : undefined, out = [];
        if (typeof make !== 'function')
            throw new TypeError('Blob: the parts must be a list');
        for (const part of { [Symbol.iterator]: () => Reflect.apply(make, parts, []) })
            out[out.length] = isBuffer(part) || stateOf(part) !== undefined ? part : usv(part);
        return out;
    }
    function readOptions(options) {
        if (options !== undefined && options !== null && !isObject(options))
            throw new TypeError('Blob: the options must be an object');
        const endings = options?.endings === undefined ? 'transparent' : `${options.endings}`;
        if (endings !== 'transparent' && endings !== 'native')
            throw new TypeError(`Blob: endings '${endings}' is not known`);
        return { endings, type: options?.type === undefined ? '' : `${options.type}` };
    }
    function bytesOf(parts, endings) {
        const out = [];
        for (let i = 0; i < parts.length; i++) {
            const part = parts[i];
            if (typeof part === 'string')
                out[i] = encode(endings === 'native' ? part.replace(/\r\n?/g, '\n') : part);
            else
                out[i] = isBuffer(part) ? copyOf(part) : stateOf(part).bytes;
        }
        return join(out);
    }
    const place = (v, size) => (v < 0 ? Math.max(size + v, 0) : Math.min(v, size));
    // A number of the web's interfaces, clamped.
    function clamp(v) {
        v = Math.min(Math.max(Number(v), -Number.MAX_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
        const whole = Math.round(v);
        return v !== v ? 0 : Math.abs(v % 1) === 0.5 && whole % 2 !== 0 ? whole - 1 : whole; // a half goes to the even one
    }
    class Blob {
        #b;
        static stateOf(v) { return isObject(v) && #b in v ? v.#b : undefined; }
        constructor(blobParts = undefined, options = {}) {
            if (blobParts === secret) {
                this.#b = options;
                return;
            }
            const parts = readParts(blobParts), { endings, type } = readOptions(options);
            this.#b = { bytes: bytesOf(parts, endings), type: cleanType(type) };
        }
        get size() { return this.#b.bytes.length; }
        get type() { return this.#b.type; }
        slice(start = undefined, end = undefined, contentType = '') {
            const { bytes } = this.#b, from = start === undefined ? 0 : place(clamp(start), bytes.length);
            const to = end === undefined ? bytes.length : place(clamp(end), bytes.length);
            return make(bytes.subarray(from, Math.max(from, to)), cleanType(`${contentType}`));
        }
        stream() { return internal.need('body').streamOf(this.#b.bytes).object; }
        text() { return promised(this, ({ bytes }) => internal.decode(bytes, [0, 0, 0, 0, 0, false], true, 0)); }
        arrayBuffer() { return promised(this, ({ bytes }) => new Uint8Array(bytes).buffer); }
        bytes() { return promised(this, ({ bytes }) => new Uint8Array(bytes)); }
    }
    const { stateOf } = Blob;
    delete Blob.stateOf;
    idl(Blob);
    const make = (bytes, type) => new Blob(secret, { bytes, type });
    function promised(blob, fn) {
        const b = stateOf(blob);
        return b === undefined ? internal.rejected(new TypeError('this is no Blob')) : internal.resolved(fn(b));
    }

    class File extends Blob {
        #name; #lastModified;
        constructor(fileBits, fileName, options = {}) {
            if (fileBits !== secret)
                need(arguments, 2, 'File');
            if (fileBits !== secret && !isObject(fileBits))
                throw new TypeError('File: the parts must be a list');
            super(fileBits, options);
            this.#name = usv(fileName);
            const time = options?.lastModified;
            this.#lastModified = time === undefined ? Date.now() : Math.trunc(Number(time)) || 0;
        }
        get name() { return this.#name; }
        get lastModified() { return this.#lastModified; }
        get webkitRelativePath() { this.#name; return ''; }
    }
    idl(File);
    const makeFile = (bytes, name, type, lastModified) => new File(secret, name, { bytes, type, lastModified });

    return { Blob, File, stateOf, make, makeFile, join, copyOf, isBuffer, isObject };
})
