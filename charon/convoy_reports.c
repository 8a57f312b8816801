/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_reports.h"

#include <daemon.h>
#include <encoding/payloads/notify_payload.h>
#include <processing/jobs/callback_job.h>

struct convoy_reports_t {
    listener_t listener;
    convoy_link_t *link;
    /* The number of the last report, by which the gateway knows their order: jobs have none. */
    refcount_t number;
    /* Reports of refusals in the second that began last. */
    time_t second;
    u_int refusals;
};

/* Reports a second of what charon refuses, which anyone may send: a connection with any peer is chosen by what a stranger
 * says of itself. */
#define MOST_REFUSALS 10

/* A report, out of the way of anyone who holds charon's locks. */
typedef struct {
    convoy_link_t *link;
    uint32_t number;
    convoy_report_t kind;
    uint8_t exchange;
    /* The type of a notify; of CONVOY_NO_ANSWER how often the message was sent again. */
    uint16_t detail;
    host_t *peer;
    char *connection;
    /* The subject of a certificate; else empty. */
    char *subject;
} report_t;

static void destroy_report(report_t *report) {
    DESTROY_IF(report->peer);
    free(report->connection);
    free(report->subject);
    free(report);
}

static job_requeue_t send_report(report_t *report) {
    convoy_message_t message;

    convoy_begin(&message, CONVOY_IKE_REPORT);
    convoy_put_u32(&message, report->number);
    convoy_put_u8(&message, report->kind);
    convoy_put_u8(&message, report->exchange);
    convoy_put_u16(&message, report->detail);
    convoy_put_host(&message, report->peer);
    convoy_put_name(&message, report->connection);
    convoy_put_name(&message, report->subject);
    convoy_link_ask(report->link, &message, &message);
    return JOB_REQUEUE_NONE;
}

static bool may_report_refusal(convoy_reports_t *this) {
    time_t now = time_monotonic(NULL);

    if (__atomic_exchange_n(&this->second, now, __ATOMIC_RELAXED) != now) {
        __atomic_store_n(&this->refusals, 0, __ATOMIC_RELAXED);
    }
    return __atomic_fetch_add(&this->refusals, 1, __ATOMIC_RELAXED) < MOST_REFUSALS;
}

/* Takes `subject`. */
static void queue_report(convoy_reports_t *this, ike_sa_t *ike_sa, convoy_report_t kind, uint8_t exchange,
                         uint16_t detail, char *subject) {
    report_t *report;
    host_t *peer = ike_sa->get_other_host(ike_sa);
    /* A responder does not know at first whom it talks to. */
    bool is_named = ike_sa->get_peer_cfg(ike_sa) != NULL;
    bool is_refusal = kind == CONVOY_NOTIFY_SENT || kind >= CONVOY_CERTIFICATE_EXPIRED;

    if ((is_refusal || !is_named) && !may_report_refusal(this)) {
        free(subject);
        return;
    }
    INIT(report, .link = this->link, .number = ref_get(&this->number), .kind = kind, .exchange = exchange, .detail = detail,
         .peer = peer->clone(peer), .connection = strdup(is_named ? ike_sa->get_name(ike_sa) : ""), .subject = subject ?: strdup(""));
    lib->processor->queue_job(lib->processor,
                              (job_t *)callback_job_create((callback_job_cb_t)send_report, report,
                                                           (callback_job_cleanup_t)destroy_report, NULL));
}

/* Whether a notify ends what was tried: INVALID_KE_PAYLOAD asks for another group, and two that rekey at once try again. */
static bool is_final(notify_type_t type) {
    return type < 16384 && type != INVALID_KE_PAYLOAD && type != TEMPORARY_FAILURE && type != CHILD_SA_NOT_FOUND;
}

METHOD(listener_t, message_hook, bool, convoy_reports_t *this, ike_sa_t *ike_sa, message_t *message, bool incoming, bool plain) {
    enumerator_t *enumerator;
    payload_t *payload;
    notify_type_t type;

    if (!plain || message->get_major_version(message) != 2) {
        return TRUE;
    }
    enumerator = message->create_payload_enumerator(message);
    while (enumerator->enumerate(enumerator, &payload)) {
        if (payload->get_type(payload) == PLV2_NOTIFY) {
            type = ((notify_payload_t *)payload)->get_notify_type((notify_payload_t *)payload);
            if (is_final(type)) {
                queue_report(this, ike_sa, incoming ? CONVOY_NOTIFY_RECEIVED : CONVOY_NOTIFY_SENT,
                             message->get_exchange_type(message), type, NULL);
            }
        }
    }
    enumerator->destroy(enumerator);
    return TRUE;
}

/* The subject of a certificate that was refused. */
static char *subject_of(certificate_t *certificate) {
    return convoy_print("%Y", certificate->get_subject(certificate));
}

METHOD(listener_t, alert, bool, convoy_reports_t *this, ike_sa_t *ike_sa, alert_t alert, va_list args) {
    if (!ike_sa) {
        return TRUE;
    }
    switch (alert) {
        case ALERT_RETRANSMIT_SEND:
            va_arg(args, packet_t *);
            queue_report(this, ike_sa, CONVOY_NO_ANSWER, 0, va_arg(args, u_int), NULL);
            break;
        case ALERT_RETRANSMIT_SEND_CLEARED:
            queue_report(this, ike_sa, CONVOY_ANSWERED, 0, 0, NULL);
            break;
        case ALERT_RETRANSMIT_SEND_TIMEOUT:
            queue_report(this, ike_sa, CONVOY_GAVE_UP, 0, 0, NULL);
            break;
        case ALERT_PEER_ADDR_FAILED:
            queue_report(this, ike_sa, CONVOY_NO_ADDRESS, 0, 0, NULL);
            break;
        case ALERT_CERT_EXPIRED:
            queue_report(this, ike_sa, CONVOY_CERTIFICATE_EXPIRED, 0, 0, subject_of(va_arg(args, certificate_t *)));
            break;
        case ALERT_CERT_REVOKED:
            queue_report(this, ike_sa, CONVOY_CERTIFICATE_REVOKED, 0, 0, subject_of(va_arg(args, certificate_t *)));
            break;
        case ALERT_CERT_NO_ISSUER:
        case ALERT_CERT_UNTRUSTED_ROOT:
        case ALERT_CERT_VALIDATION_FAILED:
        case ALERT_CERT_EXCEEDED_PATH_LEN:
        case ALERT_CERT_POLICY_VIOLATION:
            queue_report(this, ike_sa, CONVOY_CERTIFICATE_UNTRUSTED, 0, 0, subject_of(va_arg(args, certificate_t *)));
            break;
        default:
            break;
    }
    return TRUE;
}

convoy_reports_t *convoy_reports_create(convoy_link_t *link) {
    convoy_reports_t *this;

    INIT(this, .listener = {.message = _message_hook, .alert = _alert}, .link = link);
    charon->bus->add_listener(charon->bus, &this->listener);
    return this;
}

void convoy_reports_destroy(convoy_reports_t *this) {
    charon->bus->remove_listener(charon->bus, &this->listener);
    free(this);
}
