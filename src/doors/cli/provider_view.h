/* Shared by the verbs about providers. */
#ifndef ABX_CLI_PROVIDER_VIEW_H
#define ABX_CLI_PROVIDER_VIEW_H

#include "doors/cli/cli.h"
#include "host/providers.h"

/* Open home and configuration only and fill *known, which borrows from cli. 0, or -1 and *err. */
int abx_cli_providers(abx_cli *cli, abx_providers *known, abx_error **err);
/* Whether a word names a folder: it has a "/", or is no known id but a folder here. */
bool abx_names_folder(const abx_providers *known, const char *word);

#endif
