/* Clocks, durations and times as text. Milliseconds everywhere. */
#ifndef ABX_BASE_CLOCK_H
#define ABX_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define ABX_FOREVER UINT64_MAX

uint64_t abx_now_mono_ms(void); /* CLOCK_MONOTONIC */
uint64_t abx_now_boot_ms(void); /* CLOCK_BOOTTIME: goes on during suspend */
int64_t abx_now_wall_ms(void);  /* Unix time */

/* What gmtime_r does, but for the file of the time zone, which that one reads at its first call. Seconds of years 0 to 9999;
 * -1 for others. */
int abx_utc(int64_t seconds, struct tm *out);

#define ABX_RFC3339_SIZE 32
/* "2026-01-31T12:00:00.123Z" (fraction left out when 0). */
void abx_format_rfc3339(int64_t wall_ms, char out[ABX_RFC3339_SIZE]);
/* Any RFC 3339 time with Z or an offset, any fraction. 0, or -1. */
int abx_parse_rfc3339(const char *s, int64_t *wall_ms);
/* The same with nanoseconds: seconds since 1970 (rounded down) and 0 to 999999999. */
int abx_parse_rfc3339_ns(const char *s, int64_t *seconds, long *ns);
/* "2026-01-31T12:00:00.123456789Z", always nine digits; out has room for ABX_RFC3339_NS_SIZE. */
#define ABX_RFC3339_NS_SIZE 40
void abx_format_rfc3339_ns(int64_t seconds, long ns, char out[ABX_RFC3339_NS_SIZE]);

/* "500ms", "30s", "5m", "2h", "1h30m", "2d"; a bare integer is seconds; "0" and "none" are no limit and
 * give ABX_FOREVER. 0, or -1 when it is no duration. */
int abx_parse_duration(const char *s, uint64_t *ms);
/* "1h30m", "45s", "120ms"; "none" for ABX_FOREVER. out has room for 32. */
void abx_format_duration(uint64_t ms, char out[32]);
/* "3m ago", "in 2h" for tables. out has room for 32. */
void abx_format_relative(int64_t wall_ms, int64_t now_wall_ms, char out[32]);

#endif
