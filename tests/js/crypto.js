const hex = (b) => new Uint8Array(b).toHex(), bytes = (s) => new TextEncoder().encode(s);
check('digests', async () => {
    same(hex(await crypto.subtle.digest('SHA-256', bytes('abc'))), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    same(hex(await crypto.subtle.digest({ name: 'sha-1' }, new ArrayBuffer(0))), 'da39a3ee5e6b4b0d3255bfef95601890afd80709');
    const data = bytes('abc'), later = crypto.subtle.digest('SHA-256', data);
    data[0] = 0; // the data are copied first
    same(hex(await later).slice(0, 8), 'ba7816bf');
    await fails(() => crypto.subtle.digest('MD5', data), 'NotSupportedError');
    await fails(() => crypto.subtle.digest('SHA-256', 'text'), 'TypeError');
});
check('HMAC', async () => {
    const key = await crypto.subtle.importKey('raw', bytes('key'), { name: 'HMAC', hash: 'SHA-256' }, true, ['sign', 'verify']);
    const data = bytes('The quick brown fox jumps over the lazy dog'), mac = await crypto.subtle.sign('HMAC', key, data);
    same(hex(mac), 'f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8');
    same(await crypto.subtle.verify('HMAC', key, mac, data), true);
    same(await crypto.subtle.verify('HMAC', key, mac.slice(1), data), false);
    same((await crypto.subtle.exportKey('jwk', key)).k, 'a2V5');
    const other = await crypto.subtle.importKey('raw', new Uint8Array(200), { name: 'HMAC', hash: 'SHA-512' }, false, ['verify']);
    await fails(() => crypto.subtle.sign('HMAC', other, data), 'InvalidAccessError');
    await fails(() => crypto.subtle.exportKey('raw', other), 'InvalidAccessError');
    await fails(() => crypto.subtle.importKey('raw', bytes(''), { name: 'HMAC', hash: 'SHA-256' }, true, ['sign']), 'DataError');
});
check('random numbers', async () => {
    const a = crypto.getRandomValues(new Uint8Array(32));
    same(a.some((x) => x !== 0), true);
    same(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()), true);
    await fails(() => crypto.getRandomValues(new Uint8Array(65537)), 'QuotaExceededError');
    await fails(() => crypto.getRandomValues(new Float32Array(1)), 'TypeMismatchError');
});
check('process', async () => {
    same([Object.keys(process.env).length, process.argv, process.cwd()], [0, [], '/']);
    await new Promise((resolve) => process.nextTick(resolve));
    same(process.hrtime.bigint() > 0n, true);
});
