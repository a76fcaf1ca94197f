/* How long a door that is a server lives (host/serving.h): it wants to end when nobody has asked for something for a while, or when
 * it has drained; it is freed when the last of its parts has gone. Threads: all on the loop's. */
#ifndef ABX_HOST_SERVING_LIFE_H
#define ABX_HOST_SERVING_LIFE_H

#include "host/serving.h"
#include "net/http_server.h"

typedef struct abx_serving_life abx_serving_life;

typedef struct abx_serving_hooks {
    bool (*busy)(void *door); /* requests or streams live: it is not idle, and has not drained */
    void (*tick)(void *door, uint64_t now_ms); /* at each look, some times a second */
    /* It has drained as long as it may, and something is still busy: tell those whose connections are cut off soon. NULL
     * allowed. */
    void (*last_words)(void *door);
    /* While it closes, each time that a part has gone: true if nothing is left of the door's own. May begin to close the next
     * part; then false, and the door is not touched any more, since it may have gone meanwhile. */
    bool (*gone)(void *door);
    void (*free)(void *door); /* the last that it hears */
} abx_serving_hooks;

#define ABX_SERVING_ADDRESS "127.0.0.1"

/* Listen on this port of 127.0.0.1 (0: any free one): 0 and *got, or -1 and *err, which says what to do when it is in use. */
int abx_serving_listen(abx_http_server *http, int port, int *got, abx_error **err);

/* Takes over the lock; hooks and what o->on_end needs must live as long as it. */
abx_serving_life *abx_serving_life_new(const abx_serve_options *o, abx_serving *serving,
                                       const abx_serving_hooks *hooks, void *door);
/* It serves: from now on the looks come. */
void abx_serving_life_start(abx_serving_life *life);
/* Something was asked. */
void abx_serving_life_touch(abx_serving_life *life);
/* Take no more connections (http), and want to end when nothing is busy any more, at the latest some seconds later. */
void abx_serving_life_drain(abx_serving_life *life, abx_http_server *http);
/* Close listener (NULL allowed) and timer, then, when hooks->gone is true, free door and life, and cb(data). cb: NULL allowed. */
void abx_serving_life_close(abx_serving_life *life, abx_http_server *http, void (*cb)(void *data),
                            void *data);
/* A further part that must be closed before; and: it has been. */
void abx_serving_life_part(abx_serving_life *life);
void abx_serving_life_part_closed(abx_serving_life *life);
/* Something that hooks->gone looks at has changed. */
void abx_serving_life_check(abx_serving_life *life);

#endif
