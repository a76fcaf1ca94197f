// node:crypto: what is small of it.
(function (internal) {
    'use strict';
    const { hashNew, hashUpdate, hashEnd, sameBytes, random } = internal;
    const { crypto } = internal.need('crypto'), { Buffer } = internal.need('node_buffer').exports;
    const bytesOf = (v, encoding) => (typeof v === 'string' ? Buffer.from(v, encoding) : v);
    class Hash {
        #h;
        constructor(name, key) {
            const h = hashNew(`${name}`.toLowerCase().replace('-', ''), key);
            if (h === undefined)
                throw new Error(`the digest '${`${name}`.slice(0, 80)}' is not known here`);
            this.#h = h;
        }
        update(data, encoding) {
            hashUpdate(this.#h, bytesOf(data, encoding));
            return this;
        }
        digest(encoding) {
            const b = Buffer.from(hashEnd(this.#h).buffer);
            return encoding === undefined || encoding === 'buffer' ? b : b.toString(encoding);
        }
    }
    class Hmac extends Hash {}
    const exports = {
        createHash: (name) => new Hash(name),
        createHmac: (name, key) => new Hmac(name, bytesOf(key)),
        getHashes: () => ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'],
        getRandomValues: (array) => crypto.getRandomValues(array),
        randomBytes(n, callback) {
            const b = Buffer.alloc(n);
            for (let at = 0; at < b.length; at += 65536)
                b.set(random(Math.min(65536, b.length - at)), at);
            if (typeof callback !== 'function')
                return b;
            queueMicrotask(() => callback(null, b));
            return undefined;
        },
        randomInt(low, high) {
            if (high === undefined)
                [low, high] = [0, low];
            const range = high - low;
            if (!(range > 0) || range > 2 ** 48)
                throw new RangeError('randomInt: the range is not possible');
            for (const most = 2 ** 48 - (2 ** 48 % range);;) {
                const n = random(6).reduce((sum, byte) => sum * 256 + byte, 0);
                if (n < most)
                    return low + (n % range);
            }
        },
        randomUUID: () => crypto.randomUUID(),
        timingSafeEqual(a, b) {
            if (a.byteLength !== b.byteLength)
                throw new RangeError('timingSafeEqual: both must have the same length');
            return sameBytes(a, b);
        },
        webcrypto: crypto, subtle: crypto.subtle, Hash, Hmac,
    };
    return { exports };
})
