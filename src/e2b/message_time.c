#include "e2b/message_inner.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* Days since 1970-01-01 → year, month, day of the Gregorian calendar. The count starts in March, so that the
 * leap day is a year's last; 400 years have 146097 days. */
static void civil_of_days(int64_t days, int *year, int *month, int *day)
{
    int64_t z = days + 719468; /* since 0000-03-01 */
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t m = (5 * doy + 2) / 153;
    *day = (int)(doy - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *year = (int)(yoe + era * 400 + (*month <= 2));
}

int abx__e2b_format_time(int64_t seconds, int64_t nanos, char out[ABX__E2B_TIME_SIZE])
{
    if (seconds < -62135596800 || seconds > 253402300799 || nanos < 0 || nanos > 999999999)
        return -1;
    int64_t days = seconds / 86400, rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    int year = 0, month = 0, day = 0;
    civil_of_days(days, &year, &month, &day);
    int n = snprintf(out, ABX__E2B_TIME_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d", year, month, day,
                     (int)(rest / 3600), (int)(rest / 60 % 60), (int)(rest % 60));
    size_t at = (size_t)n;
    if (nanos > 0) {
        at += (size_t)snprintf(out + at, ABX__E2B_TIME_SIZE - at, ".%09d", (int)nanos);
        while (out[at - 1] == '0')
            at--;
    }
    memcpy(out + at, "Z", 2);
    return 0;
}

int abx__e2b_parse_time(const char *text, int64_t *seconds, int32_t *nanos)
{
    int64_t ms = 0;
    if (abx_parse_rfc3339(text, &ms) < 0)
        return -1;
    *seconds = ms >= 0 ? ms / 1000 : -((999 - ms) / 1000);
    const char *dot = strchr(text, '.');
    int32_t value = 0;
    int digits = 0;
    for (const char *p = dot ? dot + 1 : ""; *p >= '0' && *p <= '9'; p++)
        if (digits < 9) {
            value = value * 10 + (*p - '0');
            digits++;
        }
    for (; digits < 9; digits++)
        value *= 10;
    *nanos = value;
    return 0;
}
