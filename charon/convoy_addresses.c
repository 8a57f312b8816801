/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_addresses.h"

#include <daemon.h>
#include <processing/jobs/callback_job.h>

struct convoy_addresses_t {
    listener_t listener;
    convoy_link_t *link;
};

static void tell(convoy_addresses_t *this, host_t *address, bool is_held) {
    convoy_message_t message;

    convoy_begin(&message, CONVOY_VIRTUAL_IP);
    convoy_put_u8(&message, is_held);
    convoy_put_zeros(&message, 3);
    convoy_put_host(&message, address);
    convoy_link_ask(this->link, &message, &message);
}

static void tell_of(convoy_addresses_t *this, ike_sa_t *ike_sa, bool is_held) {
    enumerator_t *enumerator = ike_sa->create_virtual_ip_enumerator(ike_sa, TRUE);
    host_t *address;

    while (enumerator->enumerate(enumerator, &address)) {
        tell(this, address, is_held);
    }
    enumerator->destroy(enumerator);
}

/* charon calls it for an IKE_SA that got addresses, and for one that ends, which has none left if another took them over. */
METHOD(listener_t, handle_vips, bool, convoy_addresses_t *this, ike_sa_t *ike_sa, bool is_held) {
    tell_of(this, ike_sa, is_held);
    return TRUE;
}

static job_requeue_t tell_all(convoy_addresses_t *this) {
    enumerator_t *enumerator = charon->controller->create_ike_sa_enumerator(charon->controller, TRUE);
    ike_sa_t *ike_sa;

    while (enumerator->enumerate(enumerator, &ike_sa)) {
        tell_of(this, ike_sa, TRUE);
    }
    enumerator->destroy(enumerator);
    return JOB_REQUEUE_NONE;
}

void convoy_addresses_recover(convoy_addresses_t *this) {
    lib->processor->queue_job(lib->processor,
                              (job_t *)callback_job_create((callback_job_cb_t)tell_all, this, NULL, NULL));
}

convoy_addresses_t *convoy_addresses_create(convoy_link_t *link) {
    convoy_addresses_t *this;

    INIT(this, .listener = {.handle_vips = _handle_vips}, .link = link);
    charon->bus->add_listener(charon->bus, &this->listener);
    return this;
}

void convoy_addresses_destroy(convoy_addresses_t *this) {
    charon->bus->remove_listener(charon->bus, &this->listener);
    free(this);
}
