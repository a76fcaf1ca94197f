/* Where the service is: API and sandboxes have addresses that belong together. */
#include <stdlib.h>
#include <string.h>

#include "adapters/builtin/alicloud_express.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service.h"
#include "host/config_keys.h"

/* The service has two families of names, "REGION" before each. */
static const struct {
    const char *name, *suffix;
} families[] = {{"fc", ".e2b.fc.aliyuncs.com"}, {"sandbox", ".sandbox.aliyuncs.com"}};
#define FAMILIES ABX_COUNT(families)

const char *express_regions(void)
{
    const abx_setting_row *row =
        abx_setting_find("providers." EXPRESS_ID ".region", ABX_ERR_INTERNAL, NULL);
    return row && row->choices ? row->choices : "";
}

/* Which family a domain is of; FAMILIES: none, a domain of the user's own. region_n: bytes of the region in front of it. */
static size_t family_of(const char *domain, size_t *region_n)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        if (!abx_has_suffix(domain, families[i].suffix))
            continue;
        *region_n = strlen(domain) - strlen(families[i].suffix);
        return i;
    }
    return FAMILIES;
}

static bool is_label(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return n > 0 && n <= 63 && s[n] == 0 && s[0] != '-';
}

static int fail_no_region(abx_error **err)
{
    ABX_AUTO_BUF known = ABX_BUF(2048);
    for (const char *c = express_regions(); *c;) {
        int n = (int)strcspn(c, "|");
        (void)!abx_buf_addf(&known, "%s%.*s", known.len ? ", " : "", n, c);
        c += n + (c[n] == '|');
    }
    abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "provider '%s' needs the region of your key",
             EXPRESS_ID);
    return abx_hint(err, "abx config set providers.%s.region REGION, or -O region=REGION: %s",
                    EXPRESS_ID, abx_buf_cstr(&known));
}

static int place_of_region(express_place *place, const express_wish *wish, abx_error **err)
{
    size_t family = 0;
    if (!is_label(wish->region)) {
        ABX_AUTO_FREE char *shown = abx_printable(wish->region);
        return abx_fail(err, ABX_ERR_PROVIDER_CONFIG,
                        "'%s' is no region: it is a name as 'cn-hangzhou'", shown);
    }
    while (wish->family && family + 1 < FAMILIES &&
           strcmp(families[family].name, wish->family) != 0)
        family++;
    place->domain = abx_format("%s%s", wish->region, families[family].suffix);
    place->api_url = abx_format("https://api.%s", place->domain);
    place->region = abx_strdup(wish->region);
    return 0;
}

/* The names of API and sandboxes must be of one region and one family: a key and a sandbox of the one are unknown to the other. */
static int check_pair(const express_place *place, abx_error **err)
{
    ABX_AUTO_FREE char *of_api = abx_e2b_domain_of(place->api_url);
    size_t api_n, domain_n;
    size_t api = family_of(of_api, &api_n), domain = family_of(place->domain, &domain_n);
    if (api == FAMILIES || domain == FAMILIES || strcmp(of_api, place->domain) == 0)
        return 0;
    abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "api_url '%s' and domain '%s' are of two %s",
             place->api_url, place->domain, api == domain ? "regions" : "families of names");
    return abx_hint(err, "leave one of them out, it follows from the other: abx config unset "
                         "providers." EXPRESS_ID ".domain");
}

/* What was said beside an address must not say otherwise. */
static int check_wish(const express_place *place, const express_wish *wish, size_t family,
                      abx_error **err)
{
    if (place->region && wish->region && strcmp(wish->region, place->region) != 0) {
        abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "region '%s' is not that of the address '%s'",
                 wish->region, wish->api_url ? wish->api_url : wish->domain);
        return abx_hint(err, "leave one of them out: abx config unset providers.%s.%s", EXPRESS_ID,
                        wish->api_url ? "api_url" : "domain");
    }
    if (family < FAMILIES && wish->family && strcmp(wish->family, families[family].name) != 0) {
        abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "family '%s' is not that of the address '%s'",
                 wish->family, wish->api_url ? wish->api_url : wish->domain);
        return abx_hint(err, "leave one of them out: abx config unset providers.%s.family",
                        EXPRESS_ID);
    }
    return 0;
}

int express_place_init(express_place *place, const express_wish *wish, abx_error **err)
{
    *place = (express_place){0};
    if (!wish->api_url && !wish->domain)
        return wish->region ? place_of_region(place, wish, err) : fail_no_region(err);
    place->api_url =
        wish->api_url ? abx_strdup(wish->api_url) : abx_format("https://api.%s", wish->domain);
    place->domain = wish->domain ? abx_strdup(wish->domain) : abx_e2b_domain_of(wish->api_url);
    ABX_AUTO_FREE char *of_api = abx_e2b_domain_of(place->api_url);
    size_t n, family = family_of(of_api, &n);
    if (family < FAMILIES)
        place->region = abx_strndup(of_api, n);
    if (check_pair(place, err) == 0 && check_wish(place, wish, family, err) == 0)
        return 0;
    express_place_clear(place);
    return -1;
}

void express_place_clear(express_place *place)
{
    free(place->api_url);
    free(place->domain);
    free(place->region);
    *place = (express_place){0};
}
