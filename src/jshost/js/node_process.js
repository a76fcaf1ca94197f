(function (internal) {
    'use strict';
    return { exports: internal.need('process').process };
})
