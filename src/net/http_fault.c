#include "net/http_client_inner.h"

const char *abx_http_reason(const abx_http_transfer *t)
{
    return t->reason ? t->reason : "";
}

abx_http_fault abx_http_fault_of(const abx_http_transfer *t, int *number)
{
    *number = t->system;
    switch (t->code) {
    case CURLE_OK: return t->head_done ? ABX_HTTP_FAULT_NONE : ABX_HTTP_FAULT_ANSWER;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return ABX_HTTP_FAULT_NAME;
    case CURLE_COULDNT_CONNECT: return ABX_HTTP_FAULT_CONNECT;
    case CURLE_OPERATION_TIMEDOUT:
        return t->connected ? ABX_HTTP_FAULT_OTHER : ABX_HTTP_FAULT_CONNECT_TIME;
    case CURLE_PEER_FAILED_VERIFICATION: return ABX_HTTP_FAULT_TRUST;
    case CURLE_SSL_CONNECT_ERROR: return ABX_HTTP_FAULT_TLS;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_FAIL_REWIND: return ABX_HTTP_FAULT_CLOSED;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_TOO_LARGE: return ABX_HTTP_FAULT_ANSWER;
    default: return ABX_HTTP_FAULT_OTHER;
    }
}
