/* libm, loaded at its first call (src/base/libm.h). Linked into everything but static programs, with --wrap of each name (libm.txt). A name
 * that is missing here is taken from libm as usual, which then is loaded at every start. */
#include "base/libm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define PLAIN(X) /* double name(double) */                                                         \
    X(acos)                                                                                        \
    X(acosh)                                                                                       \
    X(asin)                                                                                        \
    X(asinh)                                                                                       \
    X(atan)                                                                                        \
    X(atanh)                                                                                       \
    X(cbrt)                                                                                        \
    X(ceil)                                                                                        \
    X(cos)                                                                                         \
    X(cosh)                                                                                        \
    X(exp)                                                                                         \
    X(expm1)                                                                                       \
    X(floor)                                                                                       \
    X(log)                                                                                         \
    X(log10)                                                                                       \
    X(log1p)                                                                                       \
    X(log2)                                                                                        \
    X(round)                                                                                       \
    X(sin)                                                                                         \
    X(sinh)                                                                                        \
    X(sqrt)                                                                                        \
    X(tan)                                                                                         \
    X(tanh)                                                                                        \
    X(trunc)
#define OTHER(X) /* result, name, parameters, arguments */                                         \
    X(int, fegetround, (void), ())                                                                 \
    X(int, fesetround, (int a), (a))                                                               \
    X(double, atan2, (double a, double b), (a, b))                                                 \
    X(double, fmod, (double a, double b), (a, b))                                                  \
    X(double, frexp, (double a, int *b), (a, b))                                                   \
    X(double, hypot, (double a, double b), (a, b))                                                 \
    X(long, lrint, (double a), (a))                                                                \
    X(double, modf, (double a, double *b), (a, b))                                                 \
    X(double, pow, (double a, double b), (a, b))                                                   \
    X(double, scalbn, (double a, int b), (a, b))

#define ALL(X)                                                                                     \
    PLAIN(PLAIN_##X)                                                                               \
    OTHER(X)

/* Where each function lies, once it is loaded. */
static struct {
#define PLAIN_PLACE(name)                          double (*name)(double);
#define PLACE(result, name, parameters, arguments) result(*name) parameters;
    ALL(PLACE)
} libm;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool loaded;

static void load(void)
{
    void *lib = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        abort();
#define PLAIN_FIND(name)                                                                           \
    if (!(*(void **)&libm.name = dlsym(lib, #name)))                                               \
        abort();
#define FIND(result, name, parameters, arguments) PLAIN_FIND(name)
    ALL(FIND)
    atomic_store_explicit(&loaded, true, memory_order_release);
}

void abx_libm_ready(void)
{
    if (!atomic_load_explicit(&loaded, memory_order_acquire))
        (void)pthread_once(&once, load);
}

#define PLAIN_WRAPPER(name)                                                                        \
    double __wrap_##name(double a);                                                                \
    double __wrap_##name(double a)                                                                 \
    {                                                                                              \
        abx_libm_ready();                                                                          \
        return libm.name(a);                                                                       \
    }
#define WRAPPER(result, name, parameters, arguments)                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters                                                                \
    {                                                                                              \
        abx_libm_ready();                                                                          \
        return libm.name arguments;                                                                \
    }
ALL(WRAPPER)
