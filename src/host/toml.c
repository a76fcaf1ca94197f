#include "host/toml.h"

#include <stdlib.h>
#include <string.h>

static void node_clear(abx_toml_node *node)
{
    for (size_t i = 0; i < node->count; i++)
        node_clear(&node->children[i]);
    free(node->children);
    if (node->text)
        explicit_bzero(node->text, node->len);
    free(node->text);
    free(node->key);
}

void abx_toml_free(abx_toml_node *root)
{
    if (!root)
        return;
    node_clear(root);
    free(root);
}

const char *abx_toml_type_name(abx_toml_type type)
{
    switch (type) {
    case ABX_TOML_TABLE: return "a table";
    case ABX_TOML_ARRAY: return "an array";
    case ABX_TOML_STRING: return "text";
    case ABX_TOML_INT: return "a whole number";
    case ABX_TOML_FLOAT: return "a fraction";
    case ABX_TOML_BOOL: return "true or false";
    case ABX_TOML_TIME: return "a date or time";
    }
    return "a value";
}

abx_toml_node *abx_toml_get(const abx_toml_node *table, const char *key)
{
    if (!table || table->type != ABX_TOML_TABLE)
        return NULL;
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->children[i].key, key) == 0)
            return &table->children[i];
    return NULL;
}
