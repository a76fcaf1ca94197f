#include "base/clock.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t read_ms(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t abx_now_mono_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}
uint64_t abx_now_boot_ms(void)
{
    return read_ms(CLOCK_BOOTTIME);
}
int64_t abx_now_wall_ms(void)
{
    return (int64_t)read_ms(CLOCK_REALTIME);
}

/* Years that begin in March, so that the day of a leap year is the last one; 400 of them are 146,097 days. */
int abx_utc(int64_t seconds, struct tm *out)
{
    enum { DAY = 86400, TO_YEAR_0 = 719468, PERIOD = 146097 };
    static const int64_t first = -62167219200, last = 253402300799;
    if (seconds < first || seconds > last)
        return -1;
    int64_t days = seconds / DAY - (seconds % DAY < 0);
    int rest = (int)(seconds - days * DAY);
    int since = (int)(days + TO_YEAR_0 + PERIOD); /* one period before year 0: never negative */
    int period = since / PERIOD - 1, day = since % PERIOD;
    int year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int in_year = day - (365 * year + year / 4 - year / 100);
    int month = (5 * in_year + 2) / 153; /* 0: March */
    *out = (struct tm){.tm_sec = rest % 60, .tm_min = rest / 60 % 60, .tm_hour = rest / 3600};
    out->tm_mday = in_year - (153 * month + 2) / 5 + 1;
    out->tm_mon = (month + 2) % 12;
    out->tm_year = year + 400 * period + (month >= 10) - 1900;
    out->tm_wday = (int)(((days + 4) % 7 + 7) % 7);
    int full = out->tm_year + 1900;
    bool leap = full % 4 == 0 && (full % 100 != 0 || full % 400 == 0);
    out->tm_yday = month >= 10 ? in_year - 306 : in_year + 59 + leap;
    return 0;
}

void abx_format_rfc3339(int64_t wall_ms, char out[ABX_RFC3339_SIZE])
{
    int64_t ms = wall_ms % 1000;
    int64_t seconds = wall_ms / 1000;
    if (ms < 0) {
        ms += 1000;
        seconds--;
    }
    struct tm tm;
    if (abx_utc(seconds, &tm) < 0) {
        snprintf(out, ABX_RFC3339_SIZE, "9999-12-31T23:59:59Z");
        return;
    }
    /* strftime would not pad the year. */
    size_t n =
        (size_t)snprintf(out, ABX_RFC3339_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u",
                         (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
                         (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
                         (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
    if (ms)
        n += (size_t)snprintf(out + n, ABX_RFC3339_SIZE - n, ".%03d", (int)ms);
    snprintf(out + n, ABX_RFC3339_SIZE - n, "Z");
}

/* n digits at *p as a number in [low, high]; moves *p on. */
static int digits(const char **p, int n, int low, int high, int *out)
{
    int value = 0;
    for (int i = 0; i < n; i++, (*p)++) {
        if (!isdigit((unsigned char)**p))
            return -1;
        value = value * 10 + (**p - '0');
    }
    *out = value;
    return value >= low && value <= high ? 0 : -1;
}

static int one_of(const char **p, const char *set)
{
    if (!**p || !strchr(set, **p))
        return -1;
    (*p)++;
    return 0;
}

static int parse_zone(const char **p, int *offset_s)
{
    *offset_s = 0;
    if (**p == 'Z' || **p == 'z') {
        (*p)++;
        return 0;
    }
    int sign = **p == '-' ? -1 : 1, hours, minutes;
    if (one_of(p, "+-") < 0 || digits(p, 2, 0, 23, &hours) < 0 || one_of(p, ":") < 0 ||
        digits(p, 2, 0, 59, &minutes) < 0)
        return -1;
    *offset_s = sign * (hours * 3600 + minutes * 60);
    return 0;
}

/* month: 1 to 12 */
static int days_of(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (leap && month == 2);
}

int abx_parse_rfc3339(const char *s, int64_t *wall_ms)
{
    struct tm tm = {0};
    const char *p = s;
    int ms = 0, offset;
    if (digits(&p, 4, 0, 9999, &tm.tm_year) < 0 || one_of(&p, "-") < 0 ||
        digits(&p, 2, 1, 12, &tm.tm_mon) < 0 || one_of(&p, "-") < 0 ||
        digits(&p, 2, 1, 31, &tm.tm_mday) < 0 || one_of(&p, "Tt ") < 0 ||
        digits(&p, 2, 0, 23, &tm.tm_hour) < 0 || one_of(&p, ":") < 0 ||
        digits(&p, 2, 0, 59, &tm.tm_min) < 0 || one_of(&p, ":") < 0 ||
        digits(&p, 2, 0, 60, &tm.tm_sec) < 0)
        return -1;
    if (*p == '.') {
        int weight = 100;
        if (!isdigit((unsigned char)*++p))
            return -1;
        for (; isdigit((unsigned char)*p); p++, weight /= 10)
            ms += (*p - '0') * weight;
    }
    if (parse_zone(&p, &offset) < 0 || *p || tm.tm_mday > days_of(tm.tm_year, tm.tm_mon))
        return -1;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *wall_ms = ((int64_t)timegm(&tm) - offset) * 1000 + ms;
    return 0;
}

int abx_parse_rfc3339_ns(const char *s, int64_t *seconds, long *ns)
{
    int64_t ms;
    if (abx_parse_rfc3339(s, &ms) < 0)
        return -1;
    *seconds = ms / 1000 - (ms % 1000 < 0);
    *ns = 0;
    const char *p = strchr(s, '.');
    long weight = 100000000;
    for (p = p ? p + 1 : ""; isdigit((unsigned char)*p) && weight > 0; p++, weight /= 10)
        *ns += (*p - '0') * weight;
    return 0;
}

void abx_format_rfc3339_ns(int64_t seconds, long ns, char out[ABX_RFC3339_NS_SIZE])
{
    char whole[ABX_RFC3339_SIZE];
    abx_format_rfc3339(seconds * 1000, whole);
    whole[strcspn(whole, "Z.")] = 0;
    snprintf(out, ABX_RFC3339_NS_SIZE, "%.24s.%09ldZ", whole, ns);
}

static const struct {
    const char *name;
    uint64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

static bool take_unit(const char **p, uint64_t *ms)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t n = strlen(units[i].name);
        bool ends = !isalpha((unsigned char)(*p)[n < strlen(*p) ? n : strlen(*p)]);
        if (strncmp(*p, units[i].name, n) == 0 && ends) {
            *p += n;
            *ms = units[i].ms;
            return true;
        }
    }
    return false;
}

int abx_parse_duration(const char *s, uint64_t *ms)
{
    if (strcmp(s, "none") == 0 || strcmp(s, "0") == 0) {
        *ms = ABX_FOREVER;
        return 0;
    }
    if (!*s)
        return -1;
    uint64_t total = 0;
    bool is_first = true;
    const char *p = s;
    while (*p) {
        uint64_t value = 0, unit = 1000;
        if (!isdigit((unsigned char)*p))
            return -1;
        for (; isdigit((unsigned char)*p); p++) {
            value = value * 10 + (uint64_t)(*p - '0');
            if (value > 1000000000000ULL)
                return -1;
        }
        bool bare = *p == 0 && is_first;
        is_first = false;
        if (!bare && !take_unit(&p, &unit))
            return -1;
        if (__builtin_mul_overflow(value, unit, &value) ||
            __builtin_add_overflow(total, value, &total) || total > (uint64_t)INT64_MAX / 2)
            return -1;
    }
    *ms = total == 0 ? ABX_FOREVER : total;
    return 0;
}

void abx_format_duration(uint64_t ms, char out[32])
{
    if (ms == ABX_FOREVER) {
        snprintf(out, 32, "none");
        return;
    }
    if (ms < 1000) {
        snprintf(out, 32, "%dms", (int)ms);
        return;
    }
    uint64_t s = ms / 1000;
    unsigned long long d = s / 86400, h = s / 3600 % 24, m = s / 60 % 60;
    if (d)
        snprintf(out, 32, h ? "%llud%lluh" : "%llud", d, h);
    else if (h)
        snprintf(out, 32, m ? "%lluh%llum" : "%lluh", h, m);
    else if (m)
        snprintf(out, 32, s % 60 ? "%llum%llus" : "%llum", m, (unsigned long long)(s % 60));
    else
        snprintf(out, 32, "%llus", (unsigned long long)s);
}

void abx_format_relative(int64_t wall_ms, int64_t now_wall_ms, char out[32])
{
    int64_t diff = wall_ms - now_wall_ms;
    uint64_t s = (uint64_t)(diff < 0 ? -diff : diff) / 1000;
    unsigned long long n = s;
    const char *unit = "s";
    if (s >= 172800) {
        n = s / 86400;
        unit = "d";
    } else if (s >= 7200) {
        n = s / 3600;
        unit = "h";
    } else if (s >= 120) {
        n = s / 60;
        unit = "m";
    }
    snprintf(out, 32, diff < 0 ? "%llu%s ago" : "in %llu%s", n, unit);
}
