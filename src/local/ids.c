#include "local/ids.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

int abx_id_map_text(const abx_id_line *lines, size_t n, char *out, size_t room)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        int add = snprintf(out + len, room - len, "%" PRIu32 " %" PRIu32 " %" PRIu32 "\n",
                           lines[i].inside, lines[i].outside, lines[i].count);
        if (add < 0 || (size_t)add >= room - len)
            return -1;
        len += (size_t)add;
    }
    return (int)len;
}

size_t abx_id_range_lines(uint32_t caller, uint32_t sub, uint32_t count, abx_id_line out[3])
{
    if (count < 1001)
        return 0;
    uint32_t rest = count - 1000;
    if (rest > 64535)
        rest = 64535;
    out[0] = (abx_id_line){0, sub, 1000};
    out[1] = (abx_id_line){1000, caller, 1};
    out[2] = (abx_id_line){1001, sub + 1000, rest};
    return 3;
}

/* The next line of *text as a string in line (cut to its size), 0 at the end. */
static int next_line(const char **text, char *line, size_t room)
{
    if (!**text)
        return 0;
    size_t n = strcspn(*text, "\n");
    size_t take = n < room ? n : room - 1;
    memcpy(line, *text, take);
    line[take] = 0;
    *text += n + ((*text)[n] == '\n');
    return 1;
}

bool abx_subid_find(const char *text, const char *name, uint32_t id, uint32_t *first,
                    uint32_t *count)
{
    char line[256], number[16];
    bool found = false;
    snprintf(number, sizeof(number), "%" PRIu32, id);
    *first = *count = 0;
    while (next_line(&text, line, sizeof(line))) {
        char *rest = line;
        const char *who = strsep(&rest, ":"), *start = strsep(&rest, ":"), *size = rest;
        uint64_t a, n;
        if (!start || !size || abx_parse_uint(start, UINT32_MAX, &a) < 0 ||
            abx_parse_uint(size, UINT32_MAX, &n) < 0 || a + n > UINT32_MAX)
            continue;
        if (!abx_str_eq(who, number) && !(name && abx_str_eq(who, name)))
            continue;
        if (n <= *count)
            continue;
        *first = (uint32_t)a;
        *count = (uint32_t)n;
        found = true;
    }
    return found;
}

/* The caller's name by /etc/passwd alone: a name service may block. NULL: none. Owned. */
static char *caller_name(void)
{
    ABX_AUTO_BUF text = ABX_BUF(4u << 20);
    if (abx_read_file("/etc/passwd", text.max, &text, NULL) != 0)
        return NULL;
    char line[512];
    const char *at = abx_buf_cstr(&text);
    while (next_line(&at, line, sizeof(line))) {
        char *rest = line;
        const char *name = strsep(&rest, ":");
        strsep(&rest, ":");
        const char *uid = strsep(&rest, ":");
        uint64_t n;
        if (uid && abx_parse_uint(uid, UINT32_MAX, &n) == 0 && n == getuid())
            return abx_strdup(name);
    }
    return NULL;
}

static int read_one(const char *path, const char *name, uint32_t *first, uint32_t *count,
                    abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(1u << 20);
    int rc = abx_read_file(path, text.max, &text, err);
    if (rc < 0)
        return -1;
    if (rc == 0 && abx_subid_find(abx_buf_cstr(&text), name, getuid(), first, count) &&
        *count > 1000)
        return 0;
    abx_fail(err, ABX_ERR_ISOLATION, "layer 'range' is refused: '%s' has no range for this user",
             path);
    return abx_hint(err,
                    "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s; "
                    "or go on with one id: --allow-weaker range",
                    name ? name : "NAME");
}

int abx_subid_read(uint32_t *uid_first, uint32_t *uid_count, uint32_t *gid_first,
                   uint32_t *gid_count, abx_error **err)
{
    ABX_AUTO_FREE char *name = caller_name();
    if (read_one("/etc/subuid", name, uid_first, uid_count, err) < 0)
        return -1;
    return read_one("/etc/subgid", name, gid_first, gid_count, err);
}

bool abx_ids_mapped(const char *map_text, uint32_t first, uint32_t count)
{
    char line[64];
    while (next_line(&map_text, line, sizeof(line))) {
        uint32_t inside, outside, n;
        if (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu32, &inside, &outside, &n) == 3 &&
            first >= inside && (uint64_t)first + count <= (uint64_t)inside + n)
            return true;
    }
    return false;
}

uint32_t abx_id_outside(const char *map_text, uint32_t id)
{
    char line[64];
    while (next_line(&map_text, line, sizeof(line))) {
        uint32_t inside, outside, n;
        if (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu32, &inside, &outside, &n) == 3 &&
            id >= inside && id - inside < n)
            return outside + (id - inside);
    }
    return UINT32_MAX;
}
