// URL over the record that C keeps, and URLSearchParams.
(function (internal) {
    'use strict';
    const { idl, need, usv, pairs } = internal.need('idl');
    const { urlParse, urlGet, urlSet, formParse, formEscape } = internal;
    const HREF = 0, ORIGIN = 1, PROTOCOL = 2, USERNAME = 3, PASSWORD = 4, HOST = 5, HOSTNAME = 6, PORT = 7, PATHNAME = 8, SEARCH = 9, HASH = 10;
    const isObject = (v) => (typeof v === 'object' && v !== null) || typeof v === 'function';

    // --- URLSearchParams: a list of [name, value]

    function parseForm(text) {
        const flat = formParse(text), list = [];
        for (let i = 0; i < flat.length; i += 2)
            list[list.length] = [flat[i], flat[i + 1]];
        return list;
    }
    function printForm(list) {
        let out = '';
        for (let i = 0; i < list.length; i++)
            out += `${i ? '&' : ''}${formEscape(list[i][0])}=${formEscape(list[i][1])}`;
        return out;
    }
    function listFrom(init) {
        if (!isObject(init)) {
            const text = usv(init);
            return parseForm(text[0] === '?' ? text.slice(1) : text);
        }
        const list = [], make = init[Symbol.iterator];
        if (make !== undefined && make !== null) {
            if (typeof make !== 'function')
                throw new TypeError('URLSearchParams: the list of pairs cannot be iterated');
            for (const pair of { [Symbol.iterator]: () => Reflect.apply(make, init, []) }) {
                if (!isObject(pair))
                    throw new TypeError('URLSearchParams: a pair is no list');
                const two = [...pair];
                if (two.length !== 2)
                    throw new TypeError('URLSearchParams: a pair must have two members');
                list[list.length] = [usv(two[0]), usv(two[1])];
            }
            return list;
        }
        const seen = new Map();
        for (const key of Reflect.ownKeys(init)) {
            if (!Reflect.getOwnPropertyDescriptor(init, key)?.enumerable)
                continue;
            if (typeof key === 'symbol')
                throw new TypeError('URLSearchParams: a name is a symbol');
            seen.set(usv(key), usv(init[key]));
        }
        return [...seen];
    }
    class URLSearchParams {
        #p;
        static of(v) { return v.#p; }
        static is(v) { return isObject(v) && #p in v; }
        constructor(init = '') {
            this.#p = { list: init === link ? [] : listFrom(init), record: undefined };
        }
        get size() { return this.#p.list.length; }
        append(name, value) {
            const p = this.#p;
            need(arguments, 2, 'append');
            p.list[p.list.length] = [usv(name), usv(value)];
            update(p);
        }
        delete(name, value = undefined) {
            const p = this.#p;
            need(arguments, 1, 'delete');
            name = usv(name);
            if (value !== undefined)
                value = usv(value);
            p.list = p.list.filter((x) => x[0] !== name || (value !== undefined && x[1] !== value));
            update(p);
        }
        get(name) {
            const { list } = this.#p;
            need(arguments, 1, 'get');
            name = usv(name);
            return list.find((x) => x[0] === name)?.[1] ?? null;
        }
        getAll(name) {
            const { list } = this.#p;
            need(arguments, 1, 'getAll');
            name = usv(name);
            return list.filter((x) => x[0] === name).map((x) => x[1]);
        }
        has(name, value = undefined) {
            const { list } = this.#p;
            need(arguments, 1, 'has');
            name = usv(name);
            if (value !== undefined)
                value = usv(value);
            return list.some((x) => x[0] === name && (value === undefined || x[1] === value));
        }
        set(name, value) {
            const p = this.#p;
            need(arguments, 2, 'set');
            name = usv(name);
            value = usv(value);
            let there = false;
            p.list = p.list.filter((x) => {
                if (x[0] !== name)
                    return true;
                if (there)
                    return false;
                there = true;
                x[1] = value;
                return true;
            });
            if (!there)
                p.list[p.list.length] = [name, value];
            update(p);
        }
        sort() {
            const p = this.#p;
            p.list.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
            update(p);
        }
        toString() { return printForm(this.#p.list); }
    }
    const { of, is } = URLSearchParams, link = Symbol('of a URL');
    delete URLSearchParams.of;
    delete URLSearchParams.is;
    pairs(URLSearchParams, (v) => of(v).list);
    idl(URLSearchParams);
    // A URL that it belongs to follows.
    function update(p) {
        if (p.record !== undefined)
            urlSet(p.record, SEARCH, printForm(p.list));
    }

    // --- URL

    const invalid = (text) => Object.assign(new TypeError(`'${text.slice(0, 200)}' is no URL`), { code: 'ERR_INVALID_URL', input: text });
    class URL {
        #u; #params;
        static record(v) { return isObject(v) && #u in v ? v.#u : undefined; }
        constructor(url, base = undefined) {
            if (url === link) {
                this.#u = base;
                return;
            }
            need(arguments, 1, 'URL');
            url = `${url}`;
            this.#u = urlParse(url, base === undefined ? undefined : `${base}`);
            if (this.#u === undefined)
                throw invalid(url);
        }
        static canParse(url, base = undefined) {
            need(arguments, 1, 'URL.canParse');
            return urlParse(`${url}`, base === undefined ? undefined : `${base}`) !== undefined;
        }
        static parse(url, base = undefined) {
            need(arguments, 1, 'URL.parse');
            const u = urlParse(`${url}`, base === undefined ? undefined : `${base}`);
            return u === undefined ? null : new URL(link, u);
        }
        #refresh() {
            if (this.#params !== undefined)
                of(this.#params).list = parseForm(urlGet(this.#u, SEARCH).slice(1));
        }
        get href() { return urlGet(this.#u, HREF); }
        set href(v) {
            v = `${v}`;
            if (!urlSet(this.#u, HREF, v))
                throw invalid(v);
            this.#refresh();
        }
        get origin() { return urlGet(this.#u, ORIGIN); }
        get protocol() { return urlGet(this.#u, PROTOCOL); }
        set protocol(v) { urlSet(this.#u, PROTOCOL, `${v}`); }
        get username() { return urlGet(this.#u, USERNAME); }
        set username(v) { urlSet(this.#u, USERNAME, `${v}`); }
        get password() { return urlGet(this.#u, PASSWORD); }
        set password(v) { urlSet(this.#u, PASSWORD, `${v}`); }
        get host() { return urlGet(this.#u, HOST); }
        set host(v) { urlSet(this.#u, HOST, `${v}`); }
        get hostname() { return urlGet(this.#u, HOSTNAME); }
        set hostname(v) { urlSet(this.#u, HOSTNAME, `${v}`); }
        get port() { return urlGet(this.#u, PORT); }
        set port(v) { urlSet(this.#u, PORT, `${v}`); }
        get pathname() { return urlGet(this.#u, PATHNAME); }
        set pathname(v) { urlSet(this.#u, PATHNAME, `${v}`); }
        get search() { return urlGet(this.#u, SEARCH); }
        set search(v) {
            urlSet(this.#u, SEARCH, `${v}`);
            this.#refresh();
        }
        get searchParams() {
            const u = this.#u;
            if (this.#params === undefined) {
                this.#params = new URLSearchParams(link);
                of(this.#params).record = u;
                this.#refresh();
            }
            return this.#params;
        }
        get hash() { return urlGet(this.#u, HASH); }
        set hash(v) { urlSet(this.#u, HASH, `${v}`); }
        toString() { return urlGet(this.#u, HREF); }
        toJSON() { return urlGet(this.#u, HREF); }
    }
    const { record } = URL;
    delete URL.record;
    idl(URL);

    return { URL, URLSearchParams, isSearchParams: is, paramsText: (v) => printForm(of(v).list), parseForm, record };
})
