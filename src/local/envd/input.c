/* Standard input and what is typed at a terminal: written as far as the process takes it, the rest waits here. */
#include "local/envd/inner.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static abx__chan *input_chan(abx__proc *p)
{
    return &p->chans[p->tty ? ABX_E2B_PTY : ABX_E2B_STDIN];
}

const char *abx__input_refusal(const abx__proc *p, abx_e2b_channel channel)
{
    if (channel == ABX_E2B_PTY && !p->tty)
        return "error writing to tty: tty not assigned to process \xe2\x80\x94 input should be "
               "written to the stdin, not the tty";
    if (channel == ABX_E2B_STDIN && p->tty)
        return "error writing to stdin: tty assigned to process \xe2\x80\x94 input should be "
               "written to the pty, not the stdin";
    if (channel == ABX_E2B_STDIN && (p->chans[ABX_E2B_STDIN].fd < 0 || p->input_closed))
        return "error writing to stdin: stdin not enabled or closed";
    if (channel == ABX_E2B_PTY && p->chans[ABX_E2B_PTY].fd < 0)
        return "error writing to tty: file already closed";
    return NULL;
}

static void item_free(abx__input *i)
{
    abx_link_remove(&i->node);
    free(i->bytes);
    free(i);
}

/* This item is written, or never will be (err). */
static void item_done(abx__proc *p, abx__input *i, int err)
{
    abx_e2b_call *call = ABX_TAKE(i->call);
    char text[96];
    bool is_stream = i->is_stream, paused = i->paused;
    void *owner = i->owner;
    item_free(i);
    if (!call)
        return;
    if (err && is_stream)
        free(owner);
    if (err == EPIPE && !p->tty)
        abx_e2b_fail(call, ABX_E2B_CODE_INTERNAL,
                     "error writing to stdin: error writing to stdin of process '%d': write |1: "
                     "broken pipe",
                     p->pid);
    else if (err)
        abx_e2b_fail(call, ABX_E2B_CODE_INTERNAL, "error writing to %s: %s",
                     p->tty ? "tty" : "stdin", abx__errno_text(err, text));
    else if (is_stream && paused)
        abx_e2b_call_resume(call);
    else if (!is_stream)
        abx_e2b_answer(call, NULL);
}

void abx__input_fail(abx__proc *p, int err)
{
    while (p->inputs.next != &p->inputs)
        /* the list lets go of what is freed: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        item_done(p, ABX_OF(p->inputs.next, abx__input, node), err);
}

void abx__input_pump(abx__proc *p)
{
    abx__chan *c = input_chan(p);
    while (p->inputs.next != &p->inputs) {
        abx__input *i = ABX_OF(p->inputs.next, abx__input, node);
        /* the list lets go of what is freed: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        while (i->at < i->len && c->fd >= 0) {
            ssize_t n = write(c->fd, i->bytes + i->at, i->len - i->at);
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0 && errno == EAGAIN) {
                c->writing = true;
                abx__chan_update(c);
                return;
            }
            if (n < 0) {
                abx__input_fail(p, errno);
                return;
            }
            i->at += (size_t)n;
        }
        if (i->at < i->len) {
            abx__input_fail(p, EPIPE);
            return;
        }
        bool close_now = i->then_close;
        item_done(p, i, 0);
        if (close_now && !p->tty)
            abx__chan_close(c);
    }
    if (c->writing) {
        c->writing = false;
        abx__chan_update(c);
    }
}

static void add(abx__proc *p, const abx__input *like)
{
    abx__input *i = ABX_NEW(abx__input);
    *i = *like;
    abx_link_append(&p->inputs, &i->node);
    if (p->inputs.next == &i->node)
        abx__input_pump(p);
}

void abx__input_add(abx__proc *p, uint8_t *bytes, size_t n, abx_e2b_call *call, bool then_close)
{
    add(p, &(abx__input){.bytes = bytes, .len = n, .call = call, .then_close = then_close});
}

void abx__input_add_stream(abx__proc *p, uint8_t *bytes, size_t n, abx_e2b_call *call, void *owner)
{
    add(p,
        &(abx__input){.bytes = bytes, .len = n, .call = call, .owner = owner, .is_stream = true});
    if (p->inputs.next == &p->inputs)
        return;
    ABX_OF(p->inputs.prev, abx__input, node)->paused = true;
    abx_e2b_call_pause(call);
}

void abx__input_close(abx__proc *p)
{
    p->input_closed = true;
    if (p->chans[ABX_E2B_STDIN].fd < 0)
        return;
    if (p->inputs.next == &p->inputs)
        abx__chan_close(&p->chans[ABX_E2B_STDIN]);
    else
        ABX_OF(p->inputs.prev, abx__input, node)->then_close = true;
}
