#include "base/openssl_tables.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define TABLE_WORDS 2048

/* Filled by cmake/lazy/split.c: the number of words, then relocations in the packed form of DT_RELR. volatile: what
 * the compiler sees here is not what is there at run time. */
static const volatile uint64_t lazy_relocations[1 + TABLE_WORDS]
    __attribute__((section(".abx.relr"), used)) = {0};

extern char abx__lazy_begin[] __attribute__((weak, visibility("hidden")));
extern char abx__lazy_end[] __attribute__((weak, visibility("hidden")));
extern const char abx__image[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void relocate(uintptr_t base, uint64_t address)
{
    uintptr_t *where = (uintptr_t *)(base + address);
    *where += base;
}

/* An even word is an address; an odd one is a map of the 63 words that follow the last address or map. */
static void apply(uintptr_t base, uint64_t words)
{
    uint64_t next = 0;
    for (uint64_t i = 0; i < words; i++) {
        uint64_t word = lazy_relocations[1 + i];
        if (!(word & 1)) {
            relocate(base, word);
            next = word + sizeof(uint64_t);
            continue;
        }
        for (unsigned bit = 0; bit < 63; bit++)
            if (word >> (bit + 1) & 1)
                relocate(base, next + bit * sizeof(uint64_t));
        next += 63 * sizeof(uint64_t);
    }
}

static void relocate_all(void)
{
    uint64_t words = lazy_relocations[0];
    size_t size = (size_t)(abx__lazy_end - abx__lazy_begin);
    if (words == 0)
        return;
    if (words > TABLE_WORDS || mprotect(abx__lazy_begin, size, PROT_READ | PROT_WRITE) < 0)
        abort();
    apply((uintptr_t)abx__image, words);
    if (mprotect(abx__lazy_begin, size, PROT_READ) < 0)
        abort();
}

void abx_openssl_ready(void)
{
    (void)pthread_once(&once, relocate_all);
}
