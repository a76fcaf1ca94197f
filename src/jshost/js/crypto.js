// Random numbers.
(function (internal) {
    'use strict';
    const hex = (b) => Array.from(b, (x) => (x + 256).toString(16).slice(1)).join('');
    const crypto = {
        getRandomValues(view) {
            if (!ArrayBuffer.isView(view) || view instanceof DataView || view instanceof Float32Array ||
                view instanceof Float64Array)
                throw new DOMException('an array of whole numbers is needed', 'TypeMismatchError');
            if (view.byteLength > 65536)
                throw new DOMException('more than 65536 bytes', 'QuotaExceededError');
            new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(internal.random(view.byteLength));
            return view;
        },
        randomUUID() {
            const b = internal.random(16);
            b[6] = (b[6] & 15) | 64;
            b[8] = (b[8] & 63) | 128;
            const h = hex(b);
            return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
        },
    };
    return { crypto };
})
