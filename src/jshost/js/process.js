// process: nothing of the host's.
(function (internal) {
    'use strict';
    return {
        process: Object.freeze({
            env: Object.freeze(Object.create(null)), argv: Object.freeze([]), platform: 'linux',
            versions: Object.freeze({ abx: internal.version }),
        }),
    };
})
