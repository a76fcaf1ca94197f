/* A bundle of certificate authorities: whatever the file holds, an entry lies inside of what was decoded. */
#include <string.h>

#include "net/ca.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    abx_ca_bundle *b = abx_ca_bundle_parse((const char *)data, size);
    size_t count = abx_ca_bundle_count(b);

    for (size_t i = 0; i < count; i++) {
        const abx_ca_entry *e = abx_ca_bundle_entry(b, i);
        ABX_CHECK(e->subject >= e->der && e->subject + e->subject_len <= e->der + e->len);
        ABX_CHECK(abx_ca_bundle_find(b, 0, e->subject, e->subject_len) <= i);
    }
    abx_ca_bundle_free(b);
    return 0;
}
