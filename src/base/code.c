#include "base/code.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

extern const ElfW(Ehdr) abx__image __asm__("__ehdr_start") __attribute__((visibility("hidden")));

void abx_code_let_go(void)
{
    const uintptr_t base = (uintptr_t)&abx__image, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)(base + abx__image.e_phoff);
    for (unsigned i = 0; i < abx__image.e_phnum; i++) {
        if (p[i].p_type != PT_LOAD || (p[i].p_flags & PF_W))
            continue;
        uintptr_t from = (base + p[i].p_vaddr) & ~(page - 1);
        uintptr_t to = (base + p[i].p_vaddr + p[i].p_memsz + page - 1) & ~(page - 1);
        (void)madvise((void *)from, to - from,
                      MADV_DONTNEED); /* NOLINT(performance-no-int-to-ptr) */
    }
}
