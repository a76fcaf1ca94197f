// node:buffer: Buffer as most code uses it, over Uint8Array.
(function (internal) {
    'use strict';
    const { encode, latin1 } = internal;
    const KINDS = {
        utf8: 'utf8', 'utf-8': 'utf8', hex: 'hex', base64: 'base64', base64url: 'base64url', latin1: 'latin1', binary: 'latin1', ascii: 'ascii',
        utf16le: 'utf16le', 'utf-16le': 'utf16le', ucs2: 'utf16le', 'ucs-2': 'utf16le',
    };
    function kindOf(encoding) {
        const kind = encoding === undefined || encoding === null ? 'utf8' : KINDS[`${encoding}`.toLowerCase()];
        if (kind === undefined)
            throw new TypeError(`Unknown encoding: ${encoding}`);
        return kind;
    }
    function units(text, size) {
        const out = new Uint8Array(text.length * size);
        for (let i = 0; i < text.length; i++) {
            const c = text.charCodeAt(i);
            out[i * size] = c;
            if (size === 2)
                out[i * 2 + 1] = c >> 8;
        }
        return out;
    }
    function fromText(text, encoding) {
        switch (kindOf(encoding)) {
        case 'utf8': return encode(text);
        case 'hex': {
            const good = /^(?:[0-9a-fA-F]{2})*/.exec(text)[0];
            return Uint8Array.fromHex(good);
        }
        case 'base64':
        case 'base64url': {
            const clean = text.split('=')[0].replace(/-/g, '+').replace(/_/g, '/').replace(/[^A-Za-z0-9+/]/g, '');
            return Uint8Array.fromBase64(clean.length % 4 === 1 ? clean.slice(0, -1) : clean);
        }
        case 'utf16le': return units(text, 2);
        default: return units(text, 1);
        }
    }
    function toText(b, encoding) {
        switch (kindOf(encoding)) {
        case 'utf8': return internal.decode(b, [0, 0, 0, 0, 0, false], true, 0);
        case 'hex': return b.toHex();
        case 'base64': return b.toBase64();
        case 'base64url': return b.toBase64({ alphabet: 'base64url', omitPadding: true });
        case 'utf16le': return internal.decode(b.subarray(0, b.length & ~1), [0, 0, 0, 0, 0, false], true, 1);
        case 'ascii': return latin1(b.map((x) => x & 127));
        default: return latin1(b);
        }
    }
    class Buffer extends Uint8Array {
        static from(value, encoding, length) {
            if (typeof value === 'string')
                return wrap(fromText(value, encoding));
            if (value instanceof ArrayBuffer)
                return new Buffer(value, encoding, length);
            if (typeof value === 'object' && value !== null) {
                if (value.type === 'Buffer' && Array.isArray(value.data))
                    value = value.data;
                if (typeof value.length === 'number' || typeof value[Symbol.iterator] === 'function')
                    return wrap(Uint8Array.from(value));
                const plain = value.valueOf?.();
                if (plain !== value && plain !== null && plain !== undefined)
                    return Buffer.from(plain, encoding, length);
            }
            throw new TypeError('Buffer.from: a string, a list, or an ArrayBuffer or a view of one is needed');
        }
        static of(...items) { return wrap(Uint8Array.of(...items)); }
        static alloc(size, fill = undefined, encoding = undefined) {
            const b = new Buffer(size);
            return fill === undefined || fill === 0 ? b : b.fill(fill, encoding);
        }
        static allocUnsafe(size) { return new Buffer(size); }
        static allocUnsafeSlow(size) { return new Buffer(size); }
        static isBuffer(v) { return v instanceof Buffer; }
        static isEncoding(name) { return typeof name === 'string' && KINDS[name.toLowerCase()] !== undefined; }
        static byteLength(v, encoding = undefined) { return typeof v === 'string' ? fromText(v, encoding).length : v.byteLength; }
        static compare(a, b) {
            for (let i = 0; i < a.length && i < b.length; i++)
                if (a[i] !== b[i])
                    return a[i] < b[i] ? -1 : 1;
            return Math.sign(a.length - b.length);
        }
        static concat(list, total = undefined) {
            const size = total ?? list.reduce((sum, b) => sum + b.length, 0), out = new Buffer(size);
            let at = 0;
            for (const b of list) {
                if (at >= size)
                    break;
                out.set(b.subarray(0, size - at), at);
                at += b.length;
            }
            return out;
        }
        toString(encoding = undefined, start = 0, end = this.length) {
            return toText(new Uint8Array(this.buffer, this.byteOffset, this.byteLength).subarray(Math.max(0, start), Math.max(0, end)), encoding);
        }
        toJSON() { return { type: 'Buffer', data: Array.from(this) }; }
        equals(other) { return Buffer.compare(this, other) === 0; }
        compare(other) { return Buffer.compare(this, other); }
        slice(start, end) { return this.subarray(start, end); }
        fill(value, ...rest) {
            if (typeof value !== 'string')
                return super.fill(value, ...rest);
            const pattern = fromText(value, rest.find((x) => typeof x === 'string')), [from = 0, to = this.length] = rest.filter(Number.isInteger);
            for (let i = from; i < to && pattern.length > 0; i++)
                this[i] = pattern[(i - from) % pattern.length];
            return this;
        }
        write(text, offset = 0, length = undefined, encoding = undefined) {
            if (typeof offset === 'string')
                [encoding, offset] = [offset, 0];
            if (typeof length === 'string')
                [encoding, length] = [length, undefined];
            const b = fromText(text, encoding), n = Math.max(0, Math.min(b.length, length ?? Infinity, this.length - offset));
            this.set(b.subarray(0, n), offset);
            return n;
        }
        copy(target, at = 0, start = 0, end = this.length) {
            const part = this.subarray(start, Math.min(end, start + Math.max(0, target.length - at)));
            target.set(part, at);
            return part.length;
        }
        indexOf(what, from = 0, encoding = undefined) {
            if (typeof what === 'number')
                return super.indexOf(what & 255, from);
            const b = typeof what === 'string' ? fromText(what, encoding) : what;
            for (let i = from < 0 ? Math.max(0, this.length + from) : from; i <= this.length - b.length; i++) {
                let n = 0;
                while (n < b.length && this[i + n] === b[n])
                    n++;
                if (n === b.length)
                    return i;
            }
            return -1;
        }
        includes(what, from = 0, encoding = undefined) { return this.indexOf(what, from, encoding) >= 0; }
    }
    const wrap = (b) => new Buffer(b.buffer, b.byteOffset, b.byteLength);
    // readUInt16LE, writeDoubleBE …: numbers by DataView
    const numbers = { UInt8: 'Uint8', Int8: 'Int8', UInt16: 'Uint16', Int16: 'Int16', UInt32: 'Uint32', Int32: 'Int32', Float: 'Float32',
        Double: 'Float64', BigUInt64: 'BigUint64', BigInt64: 'BigInt64' };
    const sizes = { Uint8: 1, Int8: 1, Uint16: 2, Int16: 2, Uint32: 4, Int32: 4, Float32: 4, Float64: 8, BigUint64: 8, BigInt64: 8 };
    for (const [name, kind] of Object.entries(numbers))
        for (const order of sizes[kind] === 1 ? [''] : ['LE', 'BE']) {
            const view = (b) => new DataView(b.buffer, b.byteOffset, b.byteLength), little = order === 'LE';
            const define = (key, value) => Object.defineProperty(Buffer.prototype, key, { value, writable: true, configurable: true });
            define(`read${name}${order}`, function (at = 0) { return view(this)[`get${kind}`](at, little); });
            define(`write${name}${order}`, function (value, at = 0) {
                view(this)[`set${kind}`](at, value, little);
                return at + sizes[kind];
            });
        }
    const { atob, btoa } = globalThis;
    return {
        exports: {
            Buffer, atob, btoa, kMaxLength: 2 ** 31 - 1, constants: { MAX_LENGTH: 2 ** 31 - 1 },
            get Blob() { return internal.need('blob').Blob; }, get File() { return internal.need('blob').File; },
        },
    };
})
