// Text and bytes.
(function (internal) {
    'use strict';
    function bytesOf(v, what) {
        if (v === undefined)
            return new Uint8Array(0);
        if (v instanceof ArrayBuffer)
            return new Uint8Array(v);
        if (ArrayBuffer.isView(v))
            return new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
        throw new TypeError(`${what}: an ArrayBuffer or a view of one is needed`);
    }
    class TextEncoder {
        get encoding() { return 'utf-8'; }
        encode(s = '') { return internal.encode(String(s)); }
        encodeInto(s, to) {
            s = String(s);
            let read = 0, written = 0;
            for (const c of s) {
                const b = internal.encode(c);
                if (written + b.length > to.length)
                    break;
                to.set(b, written);
                written += b.length;
                read += c.length;
            }
            return { read, written };
        }
    }
    class TextDecoder {
        #fatal; #keepBom; #state = [0, 0, 0, 0, 0]; #begun = false;
        constructor(label = 'utf-8', options = {}) {
            const names = ['utf-8', 'utf8', 'unicode-1-1-utf-8', 'unicode11utf8', 'unicode20utf8', 'x-unicode20utf8'];
            if (!names.includes(String(label).trim().toLowerCase()))
                throw new RangeError(`TextDecoder: the encoding '${label}' is not known here`);
            this.#fatal = !!options?.fatal;
            this.#keepBom = !!options?.ignoreBOM;
        }
        get encoding() { return 'utf-8'; }
        get fatal() { return this.#fatal; }
        get ignoreBOM() { return this.#keepBom; }
        decode(input, options) {
            const stream = !!options?.stream;
            let s = internal.decode(bytesOf(input, 'decode'), this.#state, !stream);
            const wrong = this.#state[5];
            if (!stream || (this.#fatal && wrong))
                this.#state = [0, 0, 0, 0, 0];
            if (this.#fatal && wrong) {
                this.#begun = false;
                throw new TypeError('the bytes are no UTF-8');
            }
            if (!this.#begun && s.length > 0) {
                this.#begun = true;
                if (!this.#keepBom && s.charCodeAt(0) === 0xFEFF)
                    s = s.slice(1);
            }
            if (!stream)
                this.#begun = false;
            return s;
        }
    }
    return { TextEncoder, TextDecoder, bytesOf };
})
