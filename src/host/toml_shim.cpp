// The only C++ of the program: toml++ behind host/toml.h. No exception can leave it (none are compiled in); running
// out of memory ends the program, as everywhere.
#include "host/toml.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define TOML_EXCEPTIONS                 0
#define TOML_ENABLE_FORMATTERS          0
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#define TOML_ENABLE_SIMD                0
#define TOML_MAX_NESTED_VALUES          ABX_TOML_DEPTH
#include <toml++/toml.h>

namespace
{

// Most dots in one key: tables are freed by recursion, so their depth must have a bound.
constexpr size_t max_dots = 100;

// Where each character and each line begins, to turn a position into an offset at once.
struct Text {
    const char *data;
    size_t size;
    std::vector<uint32_t> chars; // character → offset
    std::vector<uint32_t> lines; // line → its first character

    Text(const char *d, size_t n) : data(d), size(n), lines{0}
    {
        for (size_t i = 0; i < n; i++) {
            if ((static_cast<unsigned char>(d[i]) & 0xc0) != 0x80)
                chars.push_back(static_cast<uint32_t>(i));
            if (d[i] == '\n')
                lines.push_back(static_cast<uint32_t>(chars.size()));
        }
    }

    size_t offset(const toml::source_position &at) const
    {
        if (at.line == 0 || at.line > lines.size())
            return size;
        const size_t i = size_t{lines[at.line - 1]} + (at.column ? at.column - 1 : 0);
        return i < chars.size() ? chars[i] : size;
    }
};

char *copy(std::string_view s)
{
    char *out = static_cast<char *>(std::malloc(s.size() + 1));
    if (!out)
        std::abort();
    if (!s.empty())
        std::memcpy(out, s.data(), s.size());
    out[s.size()] = 0;
    return out;
}

void fail(abx_toml_error *error, unsigned line, unsigned column, std::string_view text)
{
    error->line = line;
    error->column = column;
    const size_t n = std::min(text.size(), sizeof error->text - 1);
    std::memcpy(error->text, text.data(), n);
    error->text[n] = 0;
}

// A key of very many parts, a byte order mark, and text over the limit are refused before the parser sees them.
bool check(const char *data, size_t size, abx_toml_error *error)
{
    if (size > ABX_TOML_MAX) {
        fail(error, 1, 1, "the file is over 256 KiB");
        return false;
    }
    if (size >= 3 && std::memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        fail(error, 1, 1, "found a byte order mark, expected plain UTF-8");
        return false;
    }
    size_t dots = 0;
    unsigned line = 1;
    for (size_t i = 0; i < size; i++) {
        const char c = data[i];
        line += c == '\n';
        if (std::strchr(",=[]{}\n", c) != nullptr && c != 0)
            dots = 0;
        else if (c == '.' && ++dots > max_dots) {
            fail(error, line, 1, "found a key of more than 100 parts");
            return false;
        }
    }
    return true;
}

abx_toml_type type_of(const toml::node &node)
{
    switch (node.type()) {
    case toml::node_type::table: return ABX_TOML_TABLE;
    case toml::node_type::array: return ABX_TOML_ARRAY;
    case toml::node_type::string: return ABX_TOML_STRING;
    case toml::node_type::integer: return ABX_TOML_INT;
    case toml::node_type::floating_point: return ABX_TOML_FLOAT;
    case toml::node_type::boolean: return ABX_TOML_BOOL;
    default: return ABX_TOML_TIME;
    }
}

abx_toml_node *children_of(size_t count)
{
    if (count == 0)
        return nullptr;
    void *p = std::calloc(count, sizeof(abx_toml_node));
    if (!p)
        std::abort();
    return static_cast<abx_toml_node *>(p);
}

void convert(const Text &t, const toml::node &from, abx_toml_node &to);

void convert_table(const Text &t, const toml::table &from, abx_toml_node &to)
{
    to.is_inline = from.is_inline();
    to.children = children_of(from.size());
    for (auto &&[key, value] : from) {
        abx_toml_node &child = to.children[to.count++];
        child.key = copy(key.str());
        child.key_begin = t.offset(key.source().begin);
        child.key_end = t.offset(key.source().end);
        convert(t, value, child);
        child.line = key.source().begin.line;
        child.column = key.source().begin.column;
    }
    std::sort(
        to.children, to.children + to.count,
        [](const abx_toml_node &a, const abx_toml_node &b) { return a.key_begin < b.key_begin; });
}

void convert(const Text &t, const toml::node &from, abx_toml_node &to)
{
    to.type = type_of(from);
    to.line = from.source().begin.line;
    to.column = from.source().begin.column;
    to.value_begin = t.offset(from.source().begin);
    to.value_end = t.offset(from.source().end);
    if (auto *table = from.as_table()) {
        convert_table(t, *table, to);
    } else if (auto *array = from.as_array()) {
        to.children = children_of(array->size());
        for (auto &&item : *array)
            convert(t, item, to.children[to.count++]);
    } else if (auto *string = from.as_string()) {
        to.text = copy(string->get());
        to.len = string->get().size();
    } else if (auto *integer = from.as_integer()) {
        to.whole = integer->get();
    } else if (auto *real = from.as_floating_point()) {
        to.real = real->get();
    } else if (auto *boolean = from.as_boolean()) {
        to.whole = boolean->get() ? 1 : 0;
    }
}

// Texts of the parser's own tree may be secrets as well: overwrite them before it is freed.
void wipe(toml::node &node)
{
    if (auto *table = node.as_table()) {
        for (auto &&[key, value] : *table)
            wipe(value);
    } else if (auto *array = node.as_array()) {
        for (auto &&item : *array)
            wipe(item);
    } else if (auto *string = node.as_string()) {
        explicit_bzero(string->get().data(), string->get().size());
    }
}

} // namespace

extern "C" int abx_toml_parse(const char *text, size_t n, abx_toml_node **root,
                              abx_toml_error *error)
{
    if (!check(text, n, error))
        return -1;
    const Text t(text, n);
    toml::parse_result result = toml::parse(std::string_view(text, n));
    if (!result) {
        const toml::source_position at = result.error().source().begin;
        fail(error, at.line ? at.line : 1, at.column ? at.column : 1, result.error().description());
        return -1;
    }
    *root = children_of(1);
    convert(t, result.table(), **root);
    wipe(result.table());
    return 0;
}
