// Types of content: reading and writing them.
(function () {
    'use strict';
    const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/, quotable = /^[\t\x20-\x7E\x80-\xFF]*$/;
    const trim = (s) => s.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
    // A quoted string that begins at s[at]: [text, where it ends]
    function quotedString(s, at) {
        let out = '';
        for (at++; at < s.length && s[at] !== '"'; at++) {
            if (s[at] === '\\' && at + 1 < s.length)
                at++;
            out += s[at];
        }
        return [out, at + 1];
    }
    // {essence, parameters: Map}, or null
    function parseMime(s) {
        s = trim(s);
        const stop = s.indexOf(';'), whole = stop < 0 ? s : s.slice(0, stop), slash = whole.indexOf('/');
        const type = whole.slice(0, slash), subtype = whole.slice(slash + 1).replace(/[\t\n\r ]+$/, '');
        if (slash < 0 || !token.test(type) || !token.test(subtype))
            return null;
        const parameters = new Map();
        for (let at = stop < 0 ? s.length : stop; at < s.length;) {
            at++;
            while (at < s.length && /[\t\n\r ]/.test(s[at]))
                at++;
            let end = at;
            while (end < s.length && s[end] !== ';' && s[end] !== '=')
                end++;
            const name = s.slice(at, end).toLowerCase();
            at = end;
            if (s[at] !== '=')
                continue;
            at++;
            let value;
            if (s[at] === '"') {
                [value, at] = quotedString(s, at);
                while (at < s.length && s[at] !== ';')
                    at++;
            } else {
                end = s.indexOf(';', at);
                end = end < 0 ? s.length : end;
                value = s.slice(at, end).replace(/[\t\n\r ]+$/, '');
                at = end;
                if (value === '')
                    continue;
            }
            if (token.test(name) && quotable.test(value) && !parameters.has(name))
                parameters.set(name, value);
        }
        return { essence: `${type}/${subtype}`.toLowerCase(), parameters };
    }
    function printMime({ essence, parameters }) {
        let out = essence;
        for (const [name, value] of parameters)
            out += `;${name}=${value !== '' && token.test(value) ? value : `"${value.replace(/["\\]/g, '\\$&')}"`}`;
        return out;
    }
    // Values of headers that were joined by commas.
    function split(s) {
        const out = [];
        let from = 0;
        for (let at = 0; at < s.length; at++) {
            if (s[at] === '"')
                at = quotedString(s, at)[1] - 1;
            else if (s[at] === ',') {
                out.push(s.slice(from, at));
                from = at + 1;
            }
        }
        out.push(s.slice(from));
        return out.map((x) => x.replace(/^[\t ]+|[\t ]+$/g, ''));
    }
    // Of a state of Headers: the type of the content, or null.
    function mimeOf(h) {
        let found = null, charset = null, essence = null;
        for (const part of split(h.list.filter((x) => x[2] === 'content-type').map((x) => x[1]).join(', '))) {
            const mime = parseMime(part);
            if (mime === null || mime.essence === '*/*')
                continue;
            found = mime;
            if (mime.essence !== essence) {
                charset = mime.parameters.get('charset') ?? null;
                ({ essence } = mime);
            } else if (!mime.parameters.has('charset') && charset !== null) {
                mime.parameters.set('charset', charset);
            }
        }
        return found;
    }
    return { parseMime, printMime, mimeOf };
})
