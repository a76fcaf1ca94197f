#include "local/plan.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/text.h"
#include "local/ids.h"
#include "local/slots.h"
#include "local/template/stack.h"

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif

static int check_spec(const abx_local_spec *spec, abx_error **err)
{
    if (!spec->id || !abx_is_id(spec->id))
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is no sandbox id", spec->id ? spec->id : "");
    if (spec->name && !abx_is_name(spec->name))
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is no sandbox name", spec->name);
    return 0;
}

static int choose_network(abx_plan *p, const abx_local_spec *spec, abx_error **err)
{
    if (abx_network_parse(spec->network, &p->network, err) < 0)
        return -1;
    if (p->network == ABX_NETWORK_NONE)
        return 0;
    if (p->weaker & ABX_LAYER_BIT(ABX_LAYER_NET)) {
        abx_fail(err, ABX_ERR_USAGE, "'--network internet' needs layer 'net'");
        return abx_hint(err, "leave one of --network and --allow-weaker net out");
    }
    return abx_uplink_choose(&p->uplink, err);
}

abx_ids abx_ids_wanted(bool with_root)
{
    ABX_AUTO_BUF map = ABX_BUF(8192);
    uint32_t ids[4];
    if (geteuid() == 0 && abx_read_file("/proc/self/uid_map", map.max, &map, NULL) == 0 &&
        abx_ids_mapped(abx_buf_cstr(&map), abx_slot_base(), ABX_SLOT_COUNT * ABX_SLOT_SIZE))
        return ABX_IDS_SLOT;
    return with_root && abx_subid_read(&ids[0], &ids[1], &ids[2], &ids[3], NULL) == 0
               ? ABX_IDS_RANGE
               : ABX_IDS_SINGLE;
}

/* Name the layers that may be left out. */
static int hint_layers(abx_error **err)
{
    ABX_AUTO_BUF list = ABX_BUF(1024);
    for (int i = 0; i < ABX_LAYER_COUNT; i++)
        if (abx_layer_row_of((abx_layer)i)->weaker)
            ABX_CHECK(abx_buf_addf(&list, "%s%s", list.len ? ", " : "",
                                   abx_layer_row_of((abx_layer)i)->name) == 0);
    return abx_hint(err, "layers that may be left out: %s", abx_buf_cstr(&list));
}

static int choose_weaker(abx_plan *p, const abx_local_spec *spec, abx_error **err)
{
    for (size_t i = 0; i < spec->weaker_count; i++) {
        int layer = abx_layer_find(spec->weaker[i]);
        if (layer < 0) {
            abx_fail(err, ABX_ERR_USAGE, "'%s' is no layer of the isolation", spec->weaker[i]);
            return hint_layers(err);
        }
        if (!abx_layer_row_of((abx_layer)layer)->weaker) {
            abx_fail(err, ABX_ERR_USAGE, "a sandbox cannot be made without layer '%s'",
                     spec->weaker[i]);
            return hint_layers(err);
        }
        p->weaker |= ABX_LAYER_BIT(layer);
    }
    return 0;
}

static int fill_map(char *out, const abx_id_line *lines, size_t n)
{
    return abx_id_map_text(lines, n, out, ABX_ID_MAP_SIZE);
}

void abx_plan_use_slot(abx_plan *p, int slot)
{
    p->slot = slot;
    uint32_t first = abx_slot_first(abx_slot_base(), slot);
    abx_id_line line = {0, first, ABX_SLOT_SIZE};
    ABX_CHECK(fill_map(p->uid_map, &line, 1) > 0 && fill_map(p->gid_map, &line, 1) > 0);
    p->outer_uid = p->outer_gid = first + ABX_INSIDE_UID;
}

static int use_range(abx_plan *p, abx_error **err)
{
    ABX_AUTO_ERROR why = NULL;
    if (abx_subid_read(&p->sub_uid, &p->sub_uids, &p->sub_gid, &p->sub_gids, &why) < 0) {
        if (p->weaker & ABX_LAYER_BIT(ABX_LAYER_RANGE))
            return 0;
        return abx_error_take(err, ABX_TAKE(why));
    }
    p->ids = ABX_IDS_RANGE;
    return 0;
}

/* A single id that is root outside is never mapped: no process limit holds for it, and it owns the host's files. */
static int use_single(abx_plan *p, const char *outer_map, abx_error **err)
{
    abx_id_line uid = {ABX_INSIDE_UID, geteuid(), 1}, gid = {ABX_INSIDE_UID, getegid(), 1};
    if (geteuid() == 0 && abx_id_outside(outer_map, 0) == 0) {
        abx_fail(
            err, ABX_ERR_ISOLATION,
            "layer 'ids' is refused: this root is root of the host, but its user namespace has "
            "no ids for sandboxes");
        return abx_hint(err, "run abx outside of this user namespace, or as an ordinary user");
    }
    ABX_CHECK(fill_map(p->uid_map, &uid, 1) > 0 && fill_map(p->gid_map, &gid, 1) > 0);
    return 0;
}

static int choose_ids(abx_plan *p, const abx_local_spec *spec, abx_error **err)
{
    ABX_AUTO_BUF map = ABX_BUF(8192);
    p->ids = ABX_IDS_SINGLE;
    p->slot = -1;
    p->outer_uid = geteuid();
    p->outer_gid = getegid();
    if (geteuid() == 0) {
        if (abx_read_file("/proc/self/uid_map", map.max, &map, NULL) != 0) {
            abx_fail(err, ABX_ERR_ISOLATION, "layer 'proc' is refused: there is no '/proc' here");
            return abx_hint(err, "mount -t proc proc /proc");
        }
        if (abx_ids_mapped(abx_buf_cstr(&map), abx_slot_base(), ABX_SLOT_COUNT * ABX_SLOT_SIZE)) {
            p->ids = ABX_IDS_SLOT;
            p->usr_overlay = true;
            return 0;
        }
    }
    if (spec->with_root && use_range(p, err) < 0)
        return -1;
    return p->ids == ABX_IDS_RANGE ? 0 : use_single(p, abx_buf_cstr(&map), err);
}

static void choose_namespaces(abx_plan *p)
{
    /* the net namespace comes later: net_helper.c */
    p->namespaces =
        CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
}

/* base: of the template; what the caller gives comes behind it and wins. */
static void copy_env(abx_plan *p, yyjson_val *base, yyjson_val *env)
{
    p->env =
        (char **)abx_alloc_array(yyjson_obj_size(base) + yyjson_obj_size(env) + 1, sizeof(char *));
    size_t n = 0, i, max;
    yyjson_val *key, *value;
    yyjson_obj_foreach(base, i, max, key, value)
    {
        if (yyjson_is_str(value) && !yyjson_obj_getn(env, yyjson_get_str(key), yyjson_get_len(key)))
            p->env[n++] = abx_format("%s=%s", yyjson_get_str(key), yyjson_get_str(value));
    }
    yyjson_obj_foreach(env, i, max, key, value)
    {
        if (yyjson_is_str(value))
            p->env[n++] = abx_format("%s=%s", yyjson_get_str(key), yyjson_get_str(value));
    }
}

/* With one id an image's user that is neither root nor 1000 does not exist: its commands run as `user`. */
static void choose_user(abx_plan *p, yyjson_val *config)
{
    int64_t uid = abx_json_int(config, "uid", ABX_INSIDE_UID);
    if (p->ids != ABX_IDS_SINGLE || uid == 0 || uid == ABX_INSIDE_UID)
        p->user = abx_strdup(abx_json_str(config, "user", NULL));
    p->workdir = abx_strdup(abx_json_str(config, "workdir", NULL));
}

static int choose_stack(abx_local *local, abx_plan *p, const abx_local_spec *spec, abx_error **err)
{
    const char *word = abx_str_eq(spec->template_name, "host") ? NULL : spec->template_name;
    abx_store store;
    if (!word && !spec->snapshot)
        return 0;
    if (abx_store_open(local, true, &store, err) < 0)
        return -1;
    p->stack_lock = abx_store_take(&store, ABX_LOCK_USE, false, true, err);
    if (p->stack_lock >= 0)
        p->stack = abx_stack_find(&store, word, spec->snapshot, p->ids, err);
    abx_store_close(&store);
    if (!p->stack)
        return -1;
    if (p->stack->missing)
        return abx_fail(err, ABX_ERR_LOCAL_STATE, "the layers of template '%s' are not there",
                        word);
    if (!p->stack->on_host)
        p->usr_overlay = true;
    p->copied_root = p->stack->flat;
    choose_user(p, p->stack->config);
    return 0;
}

bool abx_plan_on_host(const abx_plan *p)
{
    return !p->stack || p->stack->on_host;
}

abx_plan *abx_plan_new(abx_local *local, const abx_local_spec *spec, abx_error **err)
{
    if (check_spec(spec, err) < 0)
        return NULL;
    ABX_AUTO(abx_plan, abx_plan_free) p = ABX_NEW(abx_plan);
    p->id = abx_strdup(spec->id);
    p->name = abx_strdup(spec->name);
    p->timeout_ms = spec->timeout_ms;
    p->idle_ms = spec->idle_ms;
    p->pause_on_limit = spec->pause_on_limit;
    p->tied = spec->tied;
    p->stack_lock = -1;
    if (choose_weaker(p, spec, err) < 0 || choose_network(p, spec, err) < 0 ||
        choose_ids(p, spec, err) < 0 || abx_limits_choose(&spec->sizes, &p->limits, err) < 0 ||
        choose_stack(local, p, spec, err) < 0)
        return NULL;
    p->uplink.has_root = p->ids != ABX_IDS_SINGLE;
    choose_namespaces(p);
    copy_env(p, p->stack ? abx_json_get(p->stack->config, "env") : NULL, spec->env);
    unsigned char secret[32];
    abx_random_bytes(secret, sizeof(secret));
    abx_hex(secret, sizeof(secret), p->token);
    return ABX_TAKE(p);
}

void abx_plan_free(abx_plan *p)
{
    if (!p)
        return;
    for (char **e = p->env; e && *e; e++)
        free(*e);
    free(p->env);
    free(p->id);
    free(p->name);
    free(p->upper);
    abx_stack_free(p->stack);
    abx_close_fd(&p->stack_lock);
    free(p->uplink.path);
    free(p->user);
    free(p->workdir);
    explicit_bzero(p->token, sizeof(p->token));
    free(p);
}
