/* Errors for words that the tables do not have, with the nearest word that they have. */
#ifndef ABX_CLI_SUGGEST_H
#define ABX_CLI_SUGGEST_H

#include "base/error.h"
#include "doors/cli/spec.h"

/* All return -1 and fill *err with USAGE. verb NULL: no verb came before. name: without the dashes. */
int abx_fail_unknown_flag(const abx_verb *verb, const char *name, abx_error **err);
/* A flag whose values are a list does not know this one. */
int abx_fail_unknown_choice(const abx_flag *flag, const char *value, abx_error **err);
/* letter: text that begins with the unknown letter. */
int abx_fail_unknown_letter(const abx_verb *verb, const char *letter, abx_error **err);
/* group: the first word of a verb of two, or NULL. word NULL: the second is missing. */
int abx_fail_unknown_verb(const char *group, const char *word, abx_error **err);

#endif
