/* HOME/e2b/key.json (0600): the door's key, the seed of the tokens of its sandboxes, and the port of last time. They stay the same
 * over a restart, so that a shell that has E2B_API_KEY in its environment and a program that holds a sandbox go on. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/openssl_tables.h"
#include "base/text.h"
#include "doors/e2b/life.h"
#include "doors/e2b/secure.h"

#define KEY_BYTES    24
#define FILE_MAX     4096
#define DIGEST_BYTES 32

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const char *text, uint8_t *out, size_t n)
{
    if (!text || strlen(text) != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static bool is_key(const char *key)
{
    uint8_t bytes[KEY_BYTES];
    return key && abx_has_prefix(key, "e2b_") && read_hex(key + 4, bytes, sizeof bytes);
}

static int fail_file(const char *path, const char *what, abx_error **err)
{
    abx_fail(err, ABX_ERR_HOME, "'%s' %s", path, what);
    return abx_hint(err, "remove it: the next start makes a new key, and sandboxes get new tokens");
}

static int read_last(yyjson_val *root, const char *name)
{
    int64_t port = abx_json_int(root, name, 0);
    return port < 0 || port > 65535 ? 0 : (int)port;
}

/* 0, 1: there is none, -1. */
static int load(e2b_door *door, const char *path, int ports[2], abx_error **err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 1
                               : abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return fail_file(path, "is no file of yours", err);
    if ((st.st_mode & 077) != 0)
        return fail_file(path, "holds a key and could be read by others", err);
    ABX_AUTO_BUF text = ABX_BUF(FILE_MAX);
    if (abx_read_file(path, FILE_MAX, &text, err) != 0)
        return -1;
    ABX_AUTO_JSON doc = abx_json_parse(text.data, text.len, ABX_ERR_HOME, path, NULL);
    yyjson_val *root = doc ? yyjson_doc_get_root(doc) : NULL;
    const char *key = abx_json_str(root, "key", NULL);
    if (!is_key(key) || !read_hex(abx_json_str(root, "seed", NULL), door->seed, E2B_SEED_SIZE))
        return fail_file(path, "holds no key", err);
    memcpy(door->key, key, E2B_KEY_SIZE + 1);
    ports[0] = read_last(root, "port");
    ports[1] = door->last_tls_port = read_last(root, "tlsPort");
    return 0;
}

static void make(e2b_door *door)
{
    uint8_t bytes[KEY_BYTES];
    abx_random_bytes(bytes, sizeof bytes);
    memcpy(door->key, "e2b_", 4);
    abx_hex(bytes, sizeof bytes, door->key + 4);
    abx_random_bytes(door->seed, sizeof door->seed);
}

static char *key_path(const e2b_door *door)
{
    return abx_format("%s/e2b/key.json", door->home);
}

int e2b_keys_load(e2b_door *door, int ports[2], abx_error **err)
{
    ABX_AUTO_FREE char *folder = abx_path_join(door->home, "e2b");
    ABX_AUTO_FREE char *path = key_path(door);
    ports[0] = ports[1] = 0;
    if (abx_make_dirs(folder, 0700, err) < 0)
        return -1;
    ABX_AUTO_FD dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) /* we have the lock: who wrote them was killed */
        (void)abx_sweep_temporaries(dir, E2B_ANY_AGE);
    int rc = load(door, path, ports, err);
    if (rc == 1)
        make(door);
    return rc < 0 ? -1 : 0;
}

int e2b_keys_save(const e2b_door *door, abx_error **err)
{
    char seed[2 * E2B_SEED_SIZE + 1];
    ABX_AUTO_FREE char *path = key_path(door);
    abx_hex(door->seed, E2B_SEED_SIZE, seed);
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "key", door->key);
    abx_mut_str(d, root, "seed", seed);
    abx_mut_int(d, root, "port", door->port);
    abx_mut_int(d, root, "tlsPort", door->secure ? door->secure->port : door->last_tls_port);
    ABX_AUTO_BUF text = ABX_BUF(FILE_MAX);
    ABX_CHECK(abx_json_write_mut(root, &text) == 0 && abx_buf_add_byte(&text, '\n') == 0);
    return abx_write_atomic(path, text.data, text.len, 0600, true, err);
}

void e2b_token(const e2b_door *door, const char *text, char out[E2B_TOKEN_SIZE + 1])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    abx_openssl_ready();
    ABX_CHECK(HMAC(EVP_sha256(), door->seed, E2B_SEED_SIZE, (const uint8_t *)text, strlen(text),
                   digest, &len) != NULL);
    ABX_CHECK(len == DIGEST_BYTES);
    abx_hex(digest, len, out);
}

bool e2b_key_fits(const e2b_door *door, const char *key)
{
    return key && abx_equal_secret(key, strlen(key), door->key, E2B_KEY_SIZE);
}
