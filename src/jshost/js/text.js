// Text and bytes: UTF-8, UTF-16 and windows-1252, which is what the web calls latin1 and ascii.
(function (internal) {
    'use strict';
    const { idl } = internal.need('idl');
    const names = ['utf-8', 'utf-16le', 'utf-16be', 'windows-1252'], labels = [
        ' unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8 ',
        ' csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le ',
        ' unicodefffe utf-16be ',
        ' ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 '
        + 'us-ascii windows-1252 x-cp1252 ',
    ];
    function kindOf(label) {
        const name = `${label}`.replace(/^[\t\n\f\r ]+|[\t\n\f\r ]+$/g, '').toLowerCase();
        for (let i = 0; i < labels.length && name !== '' && !name.includes(' '); i++)
            if (labels[i].includes(` ${name} `))
                return i;
        throw new RangeError(`TextDecoder: the encoding '${name.slice(0, 80)}' is not known here`);
    }
    function bytesOf(v, what) {
        if (v === undefined)
            return new Uint8Array(0);
        if (v instanceof ArrayBuffer)
            return new Uint8Array(v);
        if (ArrayBuffer.isView(v))
            return new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
        throw new TypeError(`${what}: an ArrayBuffer or a view of one is needed`);
    }
    const isObject = (v) => (typeof v === 'object' && v !== null) || typeof v === 'function';
    function dictionary(v) {
        if (v === undefined || v === null)
            return {};
        if (!isObject(v))
            throw new TypeError('the options must be an object');
        return v;
    }
    class TextEncoder {
        #brand;
        get encoding() { this.#brand; return 'utf-8'; }
        encode(text = '') {
            this.#brand;
            return internal.encode(`${text}`);
        }
        encodeInto(source, destination) {
            this.#brand;
            if (!(destination instanceof Uint8Array))
                throw new TypeError('encodeInto: a Uint8Array is needed');
            return internal.encodeInto(`${source}`, destination);
        }
    }
    idl(TextEncoder);

    const fresh = () => [0, 0, 0, 0, 0, false];
    function decode(d, input, stream) {
        if (!d.goesOn) {
            d.state = fresh();
            d.begun = false;
        }
        d.goesOn = stream;
        let s = internal.decode(input === undefined ? new Uint8Array(0) : input, d.state, !stream, d.kind);
        if (d.fatal && d.state[5]) {
            d.state = fresh();
            d.goesOn = false;
            throw new TypeError(`the bytes are no ${names[d.kind]}`);
        }
        if (!d.begun && s !== '') {
            d.begun = true;
            if (!d.ignoreBOM && s.charCodeAt(0) === 0xFEFF)
                s = s.slice(1);
        }
        return s;
    }
    class TextDecoder {
        #d;
        static of(decoder) { return decoder.#d; }
        constructor(label = 'utf-8', options = {}) {
            const kind = kindOf(label), o = dictionary(options);
            this.#d = { kind, fatal: !!o.fatal, ignoreBOM: !!o.ignoreBOM, state: fresh(), begun: false, goesOn: false };
        }
        get encoding() { return names[this.#d.kind]; }
        get fatal() { return this.#d.fatal; }
        get ignoreBOM() { return this.#d.ignoreBOM; }
        decode(input = undefined, options = {}) {
            return decode(this.#d, input, !!dictionary(options).stream);
        }
    }
    const { of } = TextDecoder;
    delete TextDecoder.of;
    idl(TextDecoder);
    // As UTF-8 at once, a mark of the byte order left away: for bodies.
    function utf8(bytes) {
        const s = internal.decode(bytes, fresh(), true, 0);
        return s.charCodeAt(0) === 0xFEFF ? s.slice(1) : s;
    }
    return { TextEncoder, TextDecoder, bytesOf, utf8, decode: (decoder, input, stream) => decode(of(decoder), input, stream) };
})
