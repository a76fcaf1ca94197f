// crypto: random numbers, digests and HMAC.
(function (internal) {
    'use strict';
    const { idl, need, isObject } = internal.need('idl');
    const { hashNew, hashUpdate, hashEnd, sameBytes, rejected, resolved, random } = internal;
    const secret = Symbol('made by the runtime');
    const HASHES = { 'SHA-1': ['sha1', 20, 512], 'SHA-256': ['sha256', 32, 512], 'SHA-384': ['sha384', 48, 1024], 'SHA-512': ['sha512', 64, 1024] };
    const fail = (name, message) => { throw new DOMException(message, name); };

    function copyOf(v, what) {
        if (v instanceof ArrayBuffer)
            return new Uint8Array(v.slice(0));
        if (!ArrayBuffer.isView(v))
            throw new TypeError(`${what}: an ArrayBuffer or a view of one is needed`);
        return new Uint8Array(new Uint8Array(v.buffer, v.byteOffset, v.byteLength));
    }
    // An algorithm's name, as the list has it.
    function nameOf(algorithm, known) {
        const given = isObject(algorithm) ? algorithm.name : algorithm;
        if (isObject(algorithm) && given === undefined)
            throw new TypeError('the algorithm has no name');
        const name = `${given}`.toUpperCase(), found = known.find((x) => x.toUpperCase() === name);
        return found ?? fail('NotSupportedError', `the algorithm '${`${given}`.slice(0, 80)}' is not known here`);
    }
    const hashOf = (algorithm) => nameOf(algorithm, Object.keys(HASHES));
    function digest(hash, bytes, key) {
        const h = hashNew(HASHES[hash][0], key);
        hashUpdate(h, bytes);
        return hashEnd(h);
    }

    class CryptoKey {
        #k;
        static of(v) { return isObject(v) && #k in v ? v.#k : undefined; }
        constructor(key, k) {
            if (key !== secret)
                throw new TypeError('a CryptoKey is made by crypto.subtle');
            this.#k = k;
        }
        get type() { this.#k; return 'secret'; }
        get extractable() { return this.#k.extractable; }
        get algorithm() { return this.#k.algorithm; }
        get usages() { return this.#k.usages; }
    }
    const { of } = CryptoKey;
    delete CryptoKey.of;
    idl(CryptoKey);

    function usagesOf(list) {
        if (!isObject(list) || typeof list[Symbol.iterator] !== 'function')
            throw new TypeError('keyUsages must be a list');
        const all = ['encrypt', 'decrypt', 'sign', 'verify', 'deriveKey', 'deriveBits', 'wrapKey', 'unwrapKey'], given = [...list].map(String);
        for (const u of given)
            if (!all.includes(u))
                throw new TypeError(`'${u.slice(0, 80)}' is no use of a key`);
        if (given.some((u) => u !== 'sign' && u !== 'verify'))
            fail('SyntaxError', 'a key of HMAC signs and verifies');
        const usages = ['sign', 'verify'].filter((u) => given.includes(u));
        return usages.length > 0 ? usages : fail('SyntaxError', 'a key needs a use');
    }
    function newKey(bytes, hash, length, extractable, usages) {
        return new CryptoKey(secret, { bytes, extractable: !!extractable, usages, algorithm: { name: 'HMAC', length, hash: { name: hash } } });
    }
    function lengthOf(algorithm, bits) {
        if (algorithm.length === undefined)
            return bits;
        const length = Number(algorithm.length);
        return length > bits || length <= bits - 8 ? fail('DataError', 'the key has another length') : length;
    }
    function fromJwk(jwk, hash, extractable, usages) {
        if (!isObject(jwk) || ArrayBuffer.isView(jwk) || jwk instanceof ArrayBuffer)
            throw new TypeError('a JSON web key is needed');
        const alg = `HS${HASHES[hash][0].slice(3)}`;
        if (jwk.kty !== 'oct' || typeof jwk.k !== 'string' || (jwk.alg !== undefined && jwk.alg !== alg))
            fail('DataError', 'this is no JSON web key of HMAC with this digest');
        if (jwk.use !== undefined && jwk.use !== 'sig')
            fail('DataError', 'the key is for another use');
        if (jwk.key_ops !== undefined && (!Array.isArray(jwk.key_ops) || usages.some((u) => !jwk.key_ops.includes(u))))
            fail('DataError', 'the key is for other uses');
        if (jwk.ext === false && extractable)
            fail('DataError', 'the key may not be exported');
        try {
            return Uint8Array.fromBase64(jwk.k, { alphabet: 'base64url' });
        } catch {
            return fail('DataError', 'k is no base64url');
        }
    }
    function importKey(format, keyData, algorithm, extractable, keyUsages) {
        format = `${format}`;
        if (!['raw', 'jwk', 'pkcs8', 'spki'].includes(format))
            throw new TypeError(`'${format.slice(0, 80)}' is no format of a key`);
        const data = format === 'jwk' ? keyData : copyOf(keyData, 'importKey');
        nameOf(algorithm, ['HMAC']);
        if (algorithm.hash === undefined)
            throw new TypeError('HMAC needs a digest');
        const hash = hashOf(algorithm.hash), usages = usagesOf(keyUsages);
        if (format !== 'raw' && format !== 'jwk')
            fail('NotSupportedError', `HMAC has no keys in the format ${format}`);
        const bytes = format === 'raw' ? data : fromJwk(data, hash, extractable, usages);
        if (bytes.length === 0)
            fail('DataError', 'the key is empty');
        return newKey(bytes, hash, lengthOf(algorithm, bytes.length * 8), extractable, usages);
    }
    function generateKey(algorithm, extractable, keyUsages) {
        nameOf(algorithm, ['HMAC']);
        const hash = hashOf(algorithm.hash ?? ''), usages = usagesOf(keyUsages);
        const length = algorithm.length === undefined ? HASHES[hash][2] : Number(algorithm.length);
        if (!(length > 0) || length > 65536 * 8)
            fail('OperationError', 'a key of this length cannot be made');
        return newKey(random(Math.ceil(length / 8)), hash, length, extractable, usages);
    }
    function exportKey(format, key) {
        const k = of(key);
        if (k === undefined)
            throw new TypeError('a CryptoKey is needed');
        if (!k.extractable)
            fail('InvalidAccessError', 'the key may not be exported');
        if (format === 'raw')
            return new Uint8Array(k.bytes).buffer;
        if (format !== 'jwk')
            fail('NotSupportedError', 'a key is exported as raw or jwk');
        return {
            kty: 'oct', k: k.bytes.toBase64({ alphabet: 'base64url', omitPadding: true }), alg: `HS${HASHES[k.algorithm.hash.name][0].slice(3)}`,
            ext: true, key_ops: [...k.usages],
        };
    }
    function keyFor(algorithm, key, usage) {
        nameOf(algorithm, ['HMAC']);
        const k = of(key);
        if (k === undefined)
            throw new TypeError('a CryptoKey is needed');
        return k.usages.includes(usage) ? k : fail('InvalidAccessError', `the key is not for '${usage}'`);
    }
    const sign = (k, bytes) => digest(k.algorithm.hash.name, bytes, k.bytes);
    // A method whose errors are rejections; data are copied before anything waits.
    const method = (name, count, fn) => ({
        [name](...args) {
            try {
                if (!isSubtle(this))
                    throw new TypeError('this is no SubtleCrypto');
                need(args, count, name);
                return resolved(fn(...args));
            } catch (e) {
                return rejected(e);
            }
        },
    })[name];
    class SubtleCrypto {
        #brand;
        static is(v) { return isObject(v) && #brand in v; }
        constructor(key) {
            if (key !== secret)
                throw new TypeError('there is one SubtleCrypto: crypto.subtle');
        }
    }
    const isSubtle = SubtleCrypto.is;
    delete SubtleCrypto.is;
    const methods = {
        digest: [2, (algorithm, data) => digest(hashOf(algorithm), copyOf(data, 'digest')).buffer],
        exportKey: [2, (format, key) => exportKey(`${format}`, key)],
        generateKey: [3, generateKey],
        importKey: [5, importKey],
        sign: [3, (algorithm, key, data) => sign(keyFor(algorithm, key, 'sign'), copyOf(data, 'sign')).buffer],
        verify: [4, (algorithm, key, signature, data) => sameBytes(sign(keyFor(algorithm, key, 'verify'), copyOf(data, 'verify')),
            copyOf(signature, 'verify'))],
    };
    for (const name of Object.keys(methods))
        Object.defineProperty(SubtleCrypto.prototype, name,
            { value: method(name, ...methods[name]), writable: true, enumerable: true, configurable: true });
    idl(SubtleCrypto);

    class QuotaExceededError extends DOMException {
        #quota; #requested;
        constructor(message = '', { quota, requested } = {}) {
            super(message, 'QuotaExceededError');
            this.#quota = quota ?? null;
            this.#requested = requested ?? null;
        }
        get quota() { return this.#quota; }
        get requested() { return this.#requested; }
    }
    idl(QuotaExceededError);
    const WHOLE = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array];
    class Crypto {
        #subtle;
        constructor(key) {
            if (key !== secret)
                throw new TypeError('there is one Crypto: crypto');
            this.#subtle = new SubtleCrypto(secret);
        }
        get subtle() { return this.#subtle; }
        getRandomValues(array) {
            this.#subtle; // is it one?
            if (!WHOLE.some((C) => array instanceof C))
                throw new DOMException('an array of whole numbers is needed', 'TypeMismatchError');
            if (array.byteLength > 65536)
                throw new QuotaExceededError('more than 65536 bytes');
            new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(random(array.byteLength));
            return array;
        }
        randomUUID() {
            this.#subtle;
            const b = random(16);
            b[6] = (b[6] & 15) | 64;
            b[8] = (b[8] & 63) | 128;
            const h = b.toHex();
            return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
        }
    }
    idl(Crypto);
    return { crypto: new Crypto(secret), Crypto, SubtleCrypto, CryptoKey, QuotaExceededError };
})
