// node:url: names of files are only texts here.
(function (internal) {
    'use strict';
    const { URL, URLSearchParams } = internal.need('url');
    function fileURLToPath(url) {
        const u = typeof url === 'string' ? new URL(url) : url;
        if (u.protocol !== 'file:' || u.host !== '')
            throw new TypeError('the URL is not of a file of this machine');
        if (/%2f/i.test(u.pathname))
            throw new TypeError('the path of the URL holds an escaped slash');
        return decodeURIComponent(u.pathname);
    }
    function pathToFileURL(path) {
        const parts = [];
        for (const part of `${path}`.split('/'))
            if (part === '..')
                parts.pop();
            else if (part !== '' && part !== '.')
                parts.push(part);
        const slash = `${path}`.endsWith('/') && parts.length > 0 ? '/' : '';
        return new URL(`file:///${parts.map((x) => encodeURIComponent(x).replace(/%(3A|40|24|26|2B|2C|3B|3D)/g, decodeURIComponent)).join('/')}${slash}`);
    }
    return { exports: { URL, URLSearchParams, fileURLToPath, pathToFileURL } };
})
