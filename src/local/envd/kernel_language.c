#include "local/envd/code_inner.h"

#include <string.h>
#include <unistd.h>

#include "kernels.h" /* made from src/local/kernels */

/* Reads its driver from descriptor 3 and becomes it; the text of the driver is then in no process list. */
static const char PYTHON[] = "import os\n"
                             "def r(n):\n"
                             " b=b''\n"
                             " while len(b)<n:b+=os.read(3,n-len(b)) or os._exit(0)\n"
                             " return b\n"
                             "h=b''\n"
                             "while h[-1:]!=b'\\n':h+=r(1)\n"
                             "exec(compile(r(int(h.split()[1])),'<abx>','exec'),"
                             "{'__file__':'<abx>','__name__':'abx_kernel'})\n";

static const char NODE[] =
    "(()=>{const fs=require('fs');"
    "const r=n=>{const b=Buffer.alloc(n);let a=0;"
    "while(a<n){const k=fs.readSync(3,b,a,n-a);if(!k)process.exit(0);a+=k}return b};"
    "let h='';while(!h.endsWith('\\n'))h+=r(1).toString('latin1');"
    "require('vm').runInThisContext('(function(require,load){'+r(+h.split(' ')[1])+'\\n})',"
    "{filename:'abx-kernel.js'})(require,s=>import(s))})()";

static const abx__language LANGUAGES[] = {
    {.name = "python",
     .aliases = ",python,python3,py,",
     .programs = {"python3", "python"},
     .arguments = {"-c", PYTHON},
     .source = abx__kernel_python,
     .source_len = sizeof(abx__kernel_python)},
    {.name = "javascript",
     .aliases = ",javascript,js,node,nodejs,",
     .programs = {"node", "nodejs"},
     .arguments = {"--no-warnings=ExperimentalWarning", "-e", NODE},
     .source = abx__kernel_node,
     .source_len = sizeof(abx__kernel_node)},
    {.name = "bash",
     .aliases = ",bash,sh,",
     .programs = {"bash"},
     .arguments = {"--noprofile", "--norc", "--noediting", "-i", "+m"},
     .source = abx__kernel_bash,
     .source_len = sizeof(abx__kernel_bash),
     .commands = "__abx_next\n"
                 "__abx_begin; eval \"$__abx_code\" 3>&- </dev/null\n"
                 "__abx_done\n"},
};

/* Without case and without blanks around it, as E2B takes it. */
const abx__language *abx__language_find(const char *name)
{
    char word[32] = ",";
    name += strspn(name, " \t\n");
    size_t n = strlen(name);
    while (n > 0 && strchr(" \t\n", name[n - 1]))
        n--;
    if (n == 0 || n + 3 > sizeof(word))
        return NULL;
    for (size_t i = 0; i < n; i++)
        word[i + 1] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
    word[n + 1] = ',';
    for (size_t i = 0; i < ABX_COUNT(LANGUAGES); i++)
        if (strstr(LANGUAGES[i].aliases, word))
            return &LANGUAGES[i];
    return NULL;
}

char *abx__language_program(const abx__language *l, char *const *envp)
{
    for (size_t i = 0; i < ABX_COUNT(l->programs) && l->programs[i]; i++) {
        char **paths = abx__spawn_paths(l->programs[i], envp);
        char *found = NULL;
        for (size_t k = 0; paths[k] && !found; k++)
            if (access(paths[k], X_OK) == 0)
                found = abx_strdup(paths[k]);
        abx__strings_free(paths);
        if (found)
            return found;
    }
    return NULL;
}

static void add_name(abx_buf *out, const char *name)
{
    ABX_CHECK(abx_buf_addf(out, "%s%s", out->len > 0 ? ", " : "", name) == 0);
}

char *abx__languages_there(char *const *envp)
{
    ABX_AUTO_BUF out = ABX_BUF(256);
    for (size_t i = 0; i < ABX_COUNT(LANGUAGES); i++) {
        ABX_AUTO_FREE char *path = abx__language_program(&LANGUAGES[i], envp);
        if (path)
            add_name(&out, LANGUAGES[i].name);
    }
    return abx_buf_take(&out);
}

char *abx__languages_known(void)
{
    ABX_AUTO_BUF out = ABX_BUF(256);
    for (size_t i = 0; i < ABX_COUNT(LANGUAGES); i++)
        add_name(&out, LANGUAGES[i].name);
    return abx_buf_take(&out);
}
