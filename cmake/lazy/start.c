/* The start of a static program on x86-64: from the kernel's first instruction (rcrt1.o) to main, in place of glibc's.
 *
 * glibc asks the processor 68 questions before main (cpuid) to choose among its functions for memory and text. In a virtual machine
 * each of them leaves the machine: 0.7 ms together here, three times as much as the rest of this program's start. This start does what
 * glibc's does, in its order, and leaves the questions out; glibc then takes the functions that every x86-64 processor can run.
 *
 * It calls functions inside glibc, so it is for one version only (cmake/AbxStatic.cmake): elsewhere glibc's own start is linked. */
#include <elf.h>
#include <features.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined __x86_64__ || __GLIBC__ != 2 || __GLIBC_MINOR__ != 36
#error "this start is for glibc 2.36 on x86-64"
#endif

typedef int program(int argc, char **argv, char **env);
typedef void early(int argc, char **argv, char **env);
typedef void late(void);

#pragma GCC visibility push(hidden)

/* What glibc would have learned about caches: its own values for a processor that it does not know. Bytes. */
long __x86_data_cache_size = 32 << 10;
long __x86_data_cache_size_half = 16 << 10;
long __x86_shared_cache_size = 1 << 20;
long __x86_shared_cache_size_half = 512 << 10;
long __x86_shared_non_temporal_threshold = 768 << 10;
long __x86_rep_movsb_threshold = 2 << 10;
long __x86_rep_movsb_stop_threshold = 768 << 10;
long __x86_rep_stosb_threshold = 2 << 10;
int __x86_string_control = 0;

/* Of glibc. */
extern void *_dl_random; /* 16 random bytes of the kernel */
void _dl_aux_init(ElfW(auxv_t) * aux);
void __tunables_init(char **env);
void _dl_relocate_static_pie(void);
void __libc_setup_tls(void);
void __libc_early_init(bool first);
void __libc_init_first(int argc, char **argv, char **env);
void __libc_check_standard_fds(void);

/* Of the linker; the lazy part: cmake/lazy/tables.ld. */
extern char abx__lazy_begin[] __attribute__((weak));
extern char abx__lazy_end[] __attribute__((weak));
extern char data_end[] __asm__("_edata");
extern const ElfW(Rela) __rela_iplt_start[] __attribute__((weak));
extern const ElfW(Rela) __rela_iplt_end[] __attribute__((weak));
extern early *const __preinit_array_start[], *const __preinit_array_end[];
extern early *const __init_array_start[], *const __init_array_end[];
extern late *const __fini_array_start[], *const __fini_array_end[];
void _init(void);
void _fini(void);

#pragma GCC visibility pop

extern void *__libc_stack_end;
extern int __libc_enable_secure;
int __cxa_atexit(void (*call)(void *), void *with, void *dso);

static void finish(void *unused)
{
    for (size_t n = (size_t)(__fini_array_end - __fini_array_start); n > 0; n--)
        __fini_array_start[n - 1]();
    _fini();
}

static void call_all(early *const *from, early *const *to, int argc, char **argv)
{
    for (; from < to; from++)
        (*from)(argc, argv, environ);
}

/* The pages that relocations are about to touch, taken at once instead of by a fault for each. Older kernels refuse: no harm. */
static void take_pages(const void *from, const void *to)
{
    uintptr_t first = (uintptr_t)from & ~(uintptr_t)4095;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYS_madvise), "D"(first), "S"((uintptr_t)to - first), "d"((long)MADV_POPULATE_WRITE)
                     : "rcx", "r11", "memory");
}

/* Where a function has several forms, the linker left a question: which one? After the addresses, before the first call. */
static void choose_functions(void)
{
    for (const ElfW(Rela) *r = __rela_iplt_start; r < __rela_iplt_end; r++)
        *(uintptr_t *)r->r_offset = ((uintptr_t(*)(void))r->r_addend)();
}

/* The values that code compiled with a stack protector, and pointers that glibc keeps, are checked by. */
static void set_guards(void)
{
    const uintptr_t *random = _dl_random;
    __asm__ volatile("mov %0, %%fs:0x28" ::"r"(random[0] & ~(uintptr_t)0xff));
    __asm__ volatile("mov %0, %%fs:0x30" ::"r"(random[1]));
}

_Noreturn int __libc_start_main(program *run, int argc, char **argv, late *init, late *fini, late *of_loader, void *stack);

/* Called by rcrt1.o. init and fini: unused since glibc 2.34; of_loader: none in a static program. */
_Noreturn int __libc_start_main(program *run, int argc, char **argv, late *init, late *fini, late *of_loader, void *stack)
{
    char **end = environ = argv + argc + 1;
    __libc_stack_end = stack;
    while (*end)
        end++;
    _dl_aux_init((ElfW(auxv_t) *)(end + 1));
    __tunables_init(environ);
    take_pages(__init_array_start, abx__lazy_begin ? abx__lazy_begin : data_end);
    if (abx__lazy_begin)
        take_pages(abx__lazy_end, data_end);
    _dl_relocate_static_pie();
    choose_functions();
    __libc_setup_tls();
    set_guards();
    __libc_early_init(true);
    __libc_init_first(argc, argv, environ);
    __cxa_atexit(finish, NULL, NULL);
    if (__libc_enable_secure)
        __libc_check_standard_fds();
    call_all(__preinit_array_start, __preinit_array_end, argc, argv);
    _init();
    call_all(__init_array_start, __init_array_end, argc, argv);
    exit(run(argc, argv, environ));
}

/* Forms for processors with FMA or AVX, which are never chosen: not linked, 0.3 MB. */
_Noreturn void abx__no_such_form(void);
_Noreturn void abx__no_such_form(void)
{
    abort();
}
#define NEVER(name) void name(void) __attribute__((alias("abx__no_such_form"), visibility("hidden")));
#define FMA(name)  NEVER(name##_fma) NEVER(name##_fma4)
#define ALL(name)  FMA(name) NEVER(name##_avx)
ALL(__atan)
ALL(__cos)
ALL(__ieee754_atan2)
ALL(__ieee754_exp)
ALL(__ieee754_log)
ALL(__sin)
ALL(__tan)
FMA(__ieee754_acos)
FMA(__ieee754_asin)
FMA(__ieee754_pow)
NEVER(__expm1_fma)
NEVER(__log1p_fma)
NEVER(__log2_fma)
