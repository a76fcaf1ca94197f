/* A request of the control plane: what its handlers share. A handler answers now or later, once. It may keep the request over a
 * turn of the loop by a reference; the client may go away meanwhile (x is NULL then, an answer is dropped). */
#ifndef ABX_DOORS_E2B_CONTROL_H
#define ABX_DOORS_E2B_CONTROL_H

#include "doors/e2b/door.h"

typedef struct e2b_request e2b_request;

typedef struct e2b_route {
    const char *method;
    const char *path; /* "{}" is one segment, decoded */
    void (*run)(e2b_request *r);
} e2b_route;

struct e2b_request {
    e2b_door *door;
    abx_exchange *x; /* NULL: the client is gone */
    const e2b_route *route;
    char *word;       /* what stood for the {}; or NULL */
    yyjson_doc *doc;  /* … that body points into */
    yyjson_val *body; /* object; NULL: none was sent */
    e2b_box *box;     /* referenced; or NULL */
    void *state;      /* the handler's */
    void (*free_state)(void *state);
    int refs;
    bool v2; /* the path began with /v2 */
};

/* --- request (control.c) ------------------------------------------------------------------------------------ */
void e2b_request_ref(e2b_request *r);
void e2b_request_unref(e2b_request *r);
/* Answers. root: of a document of the caller's; NULL: no body. */
void e2b_reply(e2b_request *r, int status, yyjson_mut_val *root);
void e2b_reply_with(e2b_request *r, int status, yyjson_mut_val *root, const char *const *headers,
                    size_t count);
void e2b_reply_error(e2b_request *r, const abx_error *err);
void e2b_reply_refuse(e2b_request *r, int status, const char *fmt, ...) ABX_PRINTF(3, 4);
/* 404 with the text of a sandbox that is not there. */
void e2b_reply_no_box(e2b_request *r);
/* A parameter of the query, decoded, owned; NULL: absent, or the client is gone. */
char *e2b_query(e2b_request *r, const char *name);

/* Find the sandbox of r->word, at the provider too, and go on with it in r->box; else answer 404. fresh: with a look at it first, so
 * that its state is the present one. fn runs now or later. */
void e2b_with_box(e2b_request *r, bool fresh, void (*fn)(e2b_request *r));
/* As e2b_ask for this request, which is kept until cb. data of cb: the request. */
void e2b_request_ask(e2b_request *r, abx_op_id op, yyjson_mut_doc *params, e2b_answer_cb cb);

/* A member of the body: 1 and *out, 0: absent or null, -1: another type (400 was answered). */
int e2b_body_int(e2b_request *r, const char *name, int64_t least, int64_t most, int64_t *out);
int e2b_body_bool(e2b_request *r, const char *name, bool *out);
int e2b_body_map(e2b_request *r, const char *name, yyjson_val **out);

/* --- answers (answer.c) --------------------------------------------------------------------------------------- */
void e2b_answer(abx_exchange *x, int status, yyjson_mut_val *body, const char *const *headers,
                size_t count);
int e2b_status_of(const abx_error *err);
/* The data plane's {"sandboxId","message","code"}. */

/* --- views (view.c) --------------------------------------------------------------------------------------------- */
/* The objects Sandbox, ListedSandbox and SandboxDetail of a box. */
yyjson_mut_val *e2b_view_sandbox(yyjson_mut_doc *d, e2b_box *box);
yyjson_mut_val *e2b_view_listed(yyjson_mut_doc *d, e2b_box *box);
yyjson_mut_val *e2b_view_detail(yyjson_mut_doc *d, e2b_box *box);
const char *e2b_box_template(const e2b_box *box);
yyjson_val *e2b_box_metadata(const e2b_box *box); /* object, or NULL */
void e2b_reply_sandbox(e2b_request *r, int status, e2b_box *box);

/* --- what survives a restart (box_file.c) ------------------------------------------------------------------------- */
/* Has it notes of this door's? */
bool e2b_box_is_noted(const e2b_box *box);
/* Of a box that comes without notes: none, unless there is a file that told some. Owned. */
yyjson_doc *e2b_box_unread_notes(const e2b_box *box);
/* Put these notes in the place of the old ones and write them to the box's file; a failure is logged. 0; -1 and *err: it was not
 * written, and without it the ports of the box would be open to all after a restart. */
int e2b_box_note(e2b_box *box, yyjson_mut_doc *notes, abx_error **err);
/* A box that nobody has heard of must not be: it is killed at the provider and forgotten. */
void e2b_box_undo(e2b_box *box);
void e2b_box_drop_notes(const e2b_box *box);
/* The notes of this door's provider that files hold, into the table. */
void e2b_boxes_load(e2b_door *door);
/* A copy of the notes, to be changed. */
yyjson_mut_doc *e2b_notes_copy(const e2b_box *box, yyjson_mut_val **root);

/* As e2b_box_forget, but the sandbox lives on: the door ends. boxes.c */
void e2b_box_let_go(e2b_box *box);
/* Around the callbacks of a look: what has to be broken off waits for the end. boxes.c */
void e2b_box_looked_at(e2b_box *box, bool begins);
/* Read token, environment and times from box->notes. */
void e2b_box_read_notes(e2b_box *box);
/* Find a box by its id at this door, at the provider too: cb once, now or later, with the box (borrowed), or NULL and
 * err (the provider did not say), or NULL and NULL (there is none). find.c */
typedef void (*e2b_find_cb)(void *data, e2b_box *box, const abx_error *err);
void e2b_find(e2b_door *door, const char *id, e2b_find_cb cb, void *data);
/* The list of the provider: each is seen, what it does not hold is forgotten. As e2b_find's cb, box NULL. find.c */
typedef void (*e2b_listed_cb)(void *data, const abx_error *err);
void e2b_list_all(e2b_door *door, e2b_listed_cb cb, void *data);
/* expiry.c: some box has another end now. */
void e2b_expiry_arm(e2b_door *door);
void e2b_expiry_open(e2b_door *door);
void e2b_expiry_close(e2b_door *door, uv_close_cb cb);

/* Who waits for the one answer about a box (look.c). True: the first one, so that the question is to be asked. cb may be NULL. */
typedef struct e2b_waiter e2b_waiter;
bool e2b_wait(e2b_waiter **list, e2b_look_cb cb, void *data);
/* The answer for all of them; that it is not there is no error to them, but the box's state. */
void e2b_wait_over(e2b_waiter **list, e2b_box *box, const abx_error *err);

/* Let a paused box go on: cb once, later, as of e2b_box_look. timeout_s 0: what it was made with. cold: without what ran in
 * it. resume.c */
void e2b_resume(e2b_box *box, int64_t timeout_s, bool cold, e2b_look_cb cb, void *data);

/* metrics.c: take a first sample, and go on with it; each 5 s; the end of a box. */
void e2b_samples_watch(e2b_box *box);
/* Before something is told for which a sample is needed: true, and cb comes when there is one; false: there is one, or there will
 * be none. */
bool e2b_samples_first(e2b_box *box, void (*cb)(void *data, const abx_error *err), void *data);
void e2b_samples_tick(e2b_door *door);
void e2b_samples_free(struct e2b_samples *s);
/* Fill in what is 0 from the last sample; MiB. */
void e2b_samples_sizes(const e2b_box *box, int64_t *cpus, int64_t *memory, int64_t *disk);

/* --- handlers ------------------------------------------------------------------------------------------------------- */
void e2b_do_health(e2b_request *r);
void e2b_do_create(e2b_request *r);
void e2b_do_list(e2b_request *r);
void e2b_do_info(e2b_request *r);
void e2b_do_kill(e2b_request *r);
void e2b_do_timeout(e2b_request *r);
void e2b_do_refresh(e2b_request *r);
void e2b_do_pause(e2b_request *r);
void e2b_do_connect(e2b_request *r);
void e2b_do_resume(e2b_request *r);
void e2b_do_fork(e2b_request *r);
void e2b_do_metrics(e2b_request *r);
void e2b_do_metrics_of_many(e2b_request *r);
void e2b_do_logs(e2b_request *r);
void e2b_do_network(e2b_request *r);
void e2b_do_snapshot_create(e2b_request *r);
void e2b_do_snapshot_list(e2b_request *r);
void e2b_do_template_remove(e2b_request *r);
void e2b_do_template_list(e2b_request *r);
void e2b_do_template_alias(e2b_request *r);
/* What to say of a path that belongs to a part of E2B that is not here; or NULL. routes.c */
const char *e2b_route_absent(const char *path);

#endif
