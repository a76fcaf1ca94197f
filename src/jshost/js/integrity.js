// Answers whose bytes must have a digest that the caller names.
(function (internal) {
    'use strict';
    const { hashNew, hashUpdate, hashEnd } = internal, STRENGTH = ['sha256', 'sha384', 'sha512'];
    function digest(name, bytes) {
        const h = hashNew(name, undefined);
        hashUpdate(h, bytes);
        return hashEnd(h).toBase64({ omitPadding: true });
    }
    // By the strongest digest that is named; what names none is met.
    function meets(bytes, integrity) {
        let wanted = [], best = -1;
        for (const item of integrity.split(/[\t\n\f\r ]+/)) {
            const m = /^(sha256|sha384|sha512)-([A-Za-z0-9+/_-]+)={0,2}(?:\?[\x21-\x7E]*)?$/i.exec(item);
            const strength = m === null ? -1 : STRENGTH.indexOf(m[1].toLowerCase());
            if (strength > best) {
                best = strength;
                wanted = [];
            }
            if (m !== null && strength === best)
                wanted[wanted.length] = m[2].replace(/-/g, '+').replace(/_/g, '/');
        }
        return best < 0 || wanted.includes(digest(STRENGTH[best], bytes));
    }
    // A source of a body (see body.js) over bytes that are there.
    function sourceOf(bytes) {
        let left = bytes;
        return {
            read() {
                const chunk = left;
                left = undefined;
                return internal.resolved(chunk === undefined || chunk.length === 0 ? undefined : chunk);
            },
            collect: () => internal.resolved(bytes),
            cancel() { left = undefined; },
        };
    }
    // A promise of the source, once all of it has come and is what was wanted.
    async function checked(source, integrity) {
        const bytes = source === null ? new Uint8Array(0) : await source.collect();
        if (!meets(bytes, integrity))
            throw new TypeError('fetch failed', { cause: new Error('integrity mismatch') });
        return source === null ? null : sourceOf(bytes);
    }
    return { checked, sourceOf };
})
