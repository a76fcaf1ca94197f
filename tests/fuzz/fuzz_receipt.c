/* Any bytes as a receipt: read or refused; what was read is the same after it was written again. And as a list of files. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/store_inner.h"

static void fuzz_receipt(const uint8_t *data, size_t n)
{
    abx_store_entry first, again;
    ABX_AUTO_ERROR err = NULL;
    if (abx__receipt_parse("demo", "fuzz", data, n, &first, &err) < 0) {
        ABX_CHECK(err != NULL);
        return;
    }
    ABX_AUTO_BUF text = ABX_BUF(1 << 22);
    abx__receipt_write(&first, &text);
    ABX_CHECK(abx__receipt_parse("demo", "fuzz", text.data, text.len, &again, &err) == 0);
    ABX_CHECK(abx_str_eq(first.source, again.source) && abx_str_eq(first.version, again.version));
    ABX_CHECK(first.kind == again.kind && first.trust == again.trust);
    ABX_CHECK(memcmp(first.consent, again.consent, sizeof(first.consent)) == 0);
    abx_store_entry_clear(&first);
    abx_store_entry_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n > 1 << 16)
        return 0;
    fuzz_receipt(data, n);
    ABX_AUTO_BUF one = ABX_BUF(1 << 16);
    ABX_AUTO_BUF two = ABX_BUF(1 << 16);
    ABX_CHECK(abx_buf_add(&one, data, n / 2) == 0 &&
              abx_buf_add(&two, data + n / 2, n - n / 2) == 0);
    free(abx_tree_difference(&one, &two));
    return 0;
}
