#include "net/keeper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"

#define STACK_SIZE ((size_t)256 * 1024)

struct abx_keeper {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool lives, closing;
    void (*fn)(void *arg); /* what is to be run; NULL: nothing */
    void *arg;
};

static void *keep(void *data)
{
    abx_keeper *k = data;
    pthread_mutex_lock(&k->lock);
    while (!k->closing) {
        if (!k->fn) {
            pthread_cond_wait(&k->changed, &k->lock);
            continue;
        }
        k->fn(k->arg); /* who asked for it waits anyway */
        k->fn = NULL;
        pthread_cond_broadcast(&k->changed);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* No signal of the program is ever handled in this thread. */
static int start_thread(abx_keeper *k)
{
    sigset_t all, before;
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&k->thread, &how, keep, k);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    k->lives = rc == 0;
    errno = rc;
    return rc == 0 ? 0 : -1;
}

abx_keeper *abx_keeper_new(void)
{
    abx_keeper *k = ABX_NEW(abx_keeper);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
    return k;
}

void abx_keeper_free(abx_keeper *k)
{
    if (!k)
        return;
    if (k->lives) {
        pthread_mutex_lock(&k->lock);
        k->closing = true;
        pthread_cond_broadcast(&k->changed);
        pthread_mutex_unlock(&k->lock);
        pthread_join(k->thread, NULL);
    }
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    free(k);
}

int abx_keeper_run(abx_keeper *k, void (*fn)(void *arg), void *arg)
{
    if (!k) {
        fn(arg);
        return 0;
    }
    if (!k->lives && start_thread(k) < 0)
        return -1;
    pthread_mutex_lock(&k->lock);
    k->fn = fn;
    k->arg = arg;
    pthread_cond_broadcast(&k->changed);
    while (k->fn)
        pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
    return 0;
}
