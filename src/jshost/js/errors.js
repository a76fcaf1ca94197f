// Errors: the classes of the kit, an error in words, and what of an error goes to the host.
(function (internal) {
    'use strict';
    const {
        ArrayPrototypeFilter, ArrayPrototypeIncludes, ArrayPrototypeJoin, ArrayPrototypeMap, ArrayPrototypePush, ArrayPrototypeSlice,
        DOMException, Error, JSONStringify, ObjectDefineProperty, ObjectFreeze, ObjectValues, String, StringPrototypeIncludes,
        StringPrototypeReplace, StringPrototypeSlice, StringPrototypeSplit, StringPrototypeStartsWith, StringPrototypeTrim, TypeError, WeakMap,
        WeakMapPrototypeGet, WeakMapPrototypeSet,
    } = internal.need('primordials');
    const prefix = `${internal.head.id}/`;
    const own = new WeakMap(); // error → {code, hint, retryable} for the host
    const rows = { __proto__: null }; // code → row of the table
    const firsts = { __proto__: null }; // type → its first row
    for (const row of internal.errors) {
        rows[row.code] = row;
        firsts[row.type] ??= row;
    }

    // --- the classes: one a type of the table

    const of = (e) => WeakMapPrototypeGet(own, e);
    function rowFor(C, code, first) {
        if (code === undefined)
            return first;
        const row = typeof code === 'string' ? rows[code] : undefined;
        if (!row || (C !== ProviderError && row.type !== first.type))
            throw new TypeError(`kit.errors.${first.type}: '${String(code)}' is no code of this error`);
        return row;
    }
    class ProviderError extends Error {
        constructor(message, options) {
            const { cause, code, hint, retryable } = options ?? {};
            super(message, cause === undefined ? undefined : { __proto__: null, cause });
            const first = firstOf(new.target), row = rowFor(classOf(new.target), code, first);
            WeakMapPrototypeSet(own, this, {
                __proto__: null, row, code: row.code,
                hint: hint === undefined || hint === null ? row.hint : String(hint),
                retryable: typeof retryable === 'boolean' ? retryable : row.retryable,
                given: typeof retryable === 'boolean' ? retryable : undefined,
            });
            ObjectDefineProperty(this, 'name', { __proto__: null, value: row.type, writable: true, configurable: true });
        }
        get code() { return of(this)?.code; }
        get type() { return of(this)?.row.type; }
        get hint() { return of(this)?.hint; }
        get retryable() { return of(this)?.retryable; }
        get status() { return of(this)?.row.status; }
    }
    const errors = { __proto__: null, ProviderError };
    const typeOf = new WeakMap(); // class → type
    for (const type of Object.keys(firsts)) {
        errors[type] ??= { [type]: class extends ProviderError {} }[type];
        WeakMapPrototypeSet(typeOf, errors[type], type);
    }
    const getPrototypeOf = Object.getPrototypeOf;
    function classOf(C) {
        while (C !== null && C !== ProviderError && !WeakMapPrototypeGet(typeOf, C))
            C = getPrototypeOf(C);
        return C ?? ProviderError;
    }
    function firstOf(C) {
        const type = WeakMapPrototypeGet(typeOf, classOf(C));
        return type ? firsts[type] : rows.E6002;
    }
    for (const C of ObjectValues(errors)) {
        ObjectFreeze(C);
        ObjectFreeze(C.prototype);
    }
    ObjectFreeze(errors);

    // --- in words

    const attempt = (f, otherwise) => {
        try {
            return f();
        } catch {
            return otherwise;
        }
    };
    function frames(e) {
        const lines = ArrayPrototypeMap(StringPrototypeSplit(attempt(() => String(e.stack), ''), '\n'), (l) => StringPrototypeTrim(l));
        return ArrayPrototypeMap(ArrayPrototypeFilter(lines, (l) => StringPrototypeIncludes(l, prefix)),
            (l) => StringPrototypeReplace(l, 'at ', ''));
    }
    const isObject = (e) => (typeof e === 'object' && e !== null) || typeof e === 'function';
    // A member as text; '' when there is none.
    const words = (e, key) => attempt(() => (e[key] === undefined || e[key] === null ? '' : String(e[key])), '');
    // What an object that is no error says of itself.
    function text(e) {
        const said = attempt(() => String(e), '');
        const json = said === '' || StringPrototypeStartsWith(said, '[object ') ? attempt(() => JSONStringify(e), undefined) : undefined;
        return StringPrototypeSlice(json ?? said, 0, 200);
    }
    // first: it was thrown; else it is the cause of something. Anything may be either.
    function headline(e, first) {
        const thrown = first ? ' was thrown' : '';
        if (typeof e === 'string')
            return e || `an empty text${thrown}`;
        if (!isObject(e))
            return String(e) + thrown;
        if (typeof e === 'function')
            return `a function${thrown}`;
        const name = words(e, 'name'), message = words(e, 'message');
        if (name || message || attempt(() => e instanceof Error, false))
            return `${name || 'Error'}${message ? ': ' : ''}${message}`;
        const said = text(e);
        return `an object ${said ? `(${said})` : 'without a text'}${thrown}`;
    }
    // In one line, with where it was thrown and what caused it.
    function describe(e) {
        const parts = [], seen = [];
        for (let at = e; parts.length < 8 && !ArrayPrototypeIncludes(seen, at);) {
            ArrayPrototypePush(seen, at);
            const where = ArrayPrototypeSlice(frames(at), 0, 3);
            ArrayPrototypePush(parts, headline(at, at === e) + (where.length ? ` (at ${ArrayPrototypeJoin(where, ', at ')})` : ''));
            const from = at;
            at = typeof from === 'object' && from !== null ? attempt(() => from.cause, undefined) : undefined;
            if (at === undefined)
                break;
        }
        return StringPrototypeSlice(ArrayPrototypeJoin(parts, '; caused by '), 0, 16384);
    }
    function report(e, unhandled) {
        internal.log(unhandled ? 'warn' : 'error', `${unhandled ? 'nobody handles a rejection: ' : ''}${describe(e)}`);
    }

    // --- for the host: {code, message, hint?, retryable?}

    // An error that the runtime itself made means this code to the host: {code, hint?, retryable?}.
    function mark(e, wire) {
        WeakMapPrototypeSet(own, e, { __proto__: null, row: rows[wire.code], given: wire.retryable, ...wire });
        return e;
    }
    function wireError(e) {
        const mine = typeof e === 'object' && e !== null ? of(e) : undefined;
        if (mine) {
            const cause = attempt(() => e.cause, undefined), message = attempt(() => String(e.message), '');
            return {
                __proto__: null, code: mine.code, hint: mine.hint, retryable: mine.given,
                message: cause === undefined ? message : `${message}: ${describe(cause)}`,
            };
        }
        const kind = attempt(() => (e instanceof DOMException ? e.name : ''), '');
        if (kind === 'AbortError')
            return { __proto__: null, code: 'E5002', message: 'cancelled' };
        if (kind === 'TimeoutError')
            return { __proto__: null, code: 'E5001', message: describe(e) };
        const message = describe(e);
        internal.log('error', message);
        return { __proto__: null, code: 'E8008', message };
    }
    internal.describe = describe;
    internal.report = report;
    return { errors, describe, report, wireError, mark };
})
