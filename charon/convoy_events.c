/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_events.h"

#include <daemon.h>
#include <processing/jobs/callback_job.h>

struct convoy_events_t {
    listener_t listener;
    convoy_link_t *link;
};

/* Names to tell, out of the way of anyone who holds charon's locks. */
typedef struct {
    convoy_link_t *link;
    uint32_t reqid;
    uint8_t mode;
    /* NULL of a trap that has just been installed. */
    char *connection;
    child_cfg_t *child;
} naming_t;

static void destroy_naming(naming_t *naming) {
    free(naming->connection);
    naming->child->destroy(naming->child);
    free(naming);
}

static bool has_child(peer_cfg_t *peer_cfg, child_cfg_t *child) {
    enumerator_t *enumerator;
    child_cfg_t *candidate;
    bool has = FALSE;

    enumerator = peer_cfg->create_child_cfg_enumerator(peer_cfg);
    while (!has && enumerator->enumerate(enumerator, &candidate)) {
        has = candidate == child;
    }
    enumerator->destroy(enumerator);
    return has;
}

/* The name of the connection that a child is of; NULL if it has been unloaded. */
static char *connection_of(child_cfg_t *child) {
    enumerator_t *enumerator;
    peer_cfg_t *peer_cfg;
    char *name = NULL;

    enumerator = charon->backends->create_peer_cfg_enumerator(charon->backends, NULL, NULL, NULL, NULL, IKE_ANY);
    while (!name && enumerator->enumerate(enumerator, &peer_cfg)) {
        if (has_child(peer_cfg, child)) {
            name = strdup(peer_cfg->get_name(peer_cfg));
        }
    }
    enumerator->destroy(enumerator);
    return name;
}

static job_requeue_t tell_name(naming_t *naming) {
    convoy_message_t message;

    if (!naming->connection) {
        naming->connection = connection_of(naming->child);
    }
    convoy_begin(&message, CONVOY_NAME_REQID);
    convoy_put_u32(&message, naming->reqid);
    convoy_put_u8(&message, naming->mode);
    convoy_put_zeros(&message, 3);
    convoy_put_name(&message, naming->connection ?: "");
    convoy_put_name(&message, naming->child->get_name(naming->child));
    convoy_link_ask(naming->link, &message, &message);
    return JOB_REQUEUE_NONE;
}

/* IKEv2's transform type of key exchanges, and the first of the additional ones (RFC 9370), which older headers lack. */
#define KEY_EXCHANGE 4
#define ADDITIONAL_KEY_EXCHANGE 6
#define KEY_EXCHANGES 8

/* Who the peer of a CHILD_SA is. */
typedef struct {
    convoy_link_t *link;
    uint32_t reqid;
    uint16_t key_exchanges[KEY_EXCHANGES];
    char *identity;
    char *virtual_ips;
} peer_t;

static void destroy_peer(peer_t *peer) {
    free(peer->identity);
    free(peer->virtual_ips);
    free(peer);
}

static job_requeue_t send_peer(peer_t *peer) {
    convoy_message_t message;
    int i;

    convoy_begin(&message, CONVOY_PEER);
    convoy_put_u32(&message, peer->reqid);
    for (i = 0; i < KEY_EXCHANGES; i++) {
        convoy_put_u16(&message, peer->key_exchanges[i]);
    }
    convoy_put_name(&message, peer->identity ?: "");
    convoy_put_name(&message, peer->virtual_ips ?: "");
    convoy_link_ask(peer->link, &message, &message);
    return JOB_REQUEUE_NONE;
}

static char *virtual_ips_of(ike_sa_t *ike_sa) {
    enumerator_t *enumerator;
    host_t *host;
    char *all = NULL, *more;

    enumerator = ike_sa->create_virtual_ip_enumerator(ike_sa, FALSE);
    while (enumerator->enumerate(enumerator, &host)) {
        if (asprintf(&more, "%s%s%H", all ?: "", all ? " " : "", host) >= 0) {
            free(all);
            all = more;
        }
    }
    enumerator->destroy(enumerator);
    return all;
}

static void queue_peer(convoy_events_t *this, ike_sa_t *ike_sa, child_sa_t *child_sa) {
    proposal_t *proposal = ike_sa->get_proposal(ike_sa);
    peer_t *peer;
    uint16_t number;
    int i;

    INIT(peer, .link = this->link, .reqid = child_sa->get_reqid(child_sa), .virtual_ips = virtual_ips_of(ike_sa),
         .identity = convoy_print("%Y", ike_sa->get_other_eap_id(ike_sa)));
    for (i = 0; proposal && i < KEY_EXCHANGES; i++) {
        if (proposal->get_algorithm(proposal, i ? ADDITIONAL_KEY_EXCHANGE + i - 1 : KEY_EXCHANGE, &number, NULL)) {
            peer->key_exchanges[i] = number;
        }
    }
    lib->processor->queue_job(lib->processor,
                              (job_t *)callback_job_create((callback_job_cb_t)send_peer, peer,
                                                           (callback_job_cleanup_t)destroy_peer, NULL));
}

static void queue_name(convoy_events_t *this, child_sa_t *child_sa, char *connection) {
    child_cfg_t *config = child_sa->get_config(child_sa);
    naming_t *naming;

    INIT(naming, .link = this->link, .reqid = child_sa->get_reqid(child_sa), .mode = config->get_mode(config),
         .connection = connection ? strdup(connection) : NULL, .child = config->get_ref(config));
    lib->processor->queue_job(lib->processor,
                              (job_t *)callback_job_create((callback_job_cb_t)tell_name, naming,
                                                           (callback_job_cleanup_t)destroy_naming, NULL));
}

METHOD(listener_t, child_state_change, bool, convoy_events_t *this, ike_sa_t *ike_sa, child_sa_t *child_sa,
       child_sa_state_t state) {
    if (state == CHILD_INSTALLED || state == CHILD_ROUTED) {
        queue_name(this, child_sa, ike_sa ? ike_sa->get_name(ike_sa) : NULL);
        if (ike_sa && state == CHILD_INSTALLED) {
            queue_peer(this, ike_sa, child_sa);
        }
    }
    return TRUE;
}

static void hear_expire(convoy_message_t *message) {
    uint32_t spi = htonl(convoy_get_u32(message));
    uint8_t protocol = convoy_get_u8(message);
    bool is_hard = convoy_get_flag(message);
    host_t *destination;

    convoy_get_zeros(message, 2);
    destination = convoy_get_host(message);
    if (destination && convoy_is_whole(message)) {
        charon->kernel->expire(charon->kernel, protocol, spi, destination, is_hard);
    }
    DESTROY_IF(destination);
}

static void hear_acquire(convoy_message_t *message) {
    uint32_t reqid = convoy_get_u32(message);
    uint32_t resource = convoy_get_u32(message);
    kernel_acquire_data_t packet = {};

    packet.src = convoy_get_selector(message);
    packet.dst = convoy_get_selector(message);
#ifdef CPU_ID_MAX
    packet.cpu = resource == CONVOY_NO_RESOURCE ? CPU_ID_MAX : resource;
    resource = CONVOY_NO_RESOURCE;
#endif
    /* An older charon has no policy that asks for one of a CPU. */
    if (resource == CONVOY_NO_RESOURCE && packet.src && packet.dst && convoy_is_whole(message)) {
        charon->kernel->acquire(charon->kernel, reqid, &packet);
    }
    DESTROY_IF(packet.src);
    DESTROY_IF(packet.dst);
}

static void hear_mapping(convoy_message_t *message) {
    uint32_t spi = htonl(convoy_get_u32(message));
    uint8_t protocol = convoy_get_u8(message);
    host_t *destination, *source;

    convoy_get_zeros(message, 3);
    destination = convoy_get_host(message);
    source = convoy_get_host(message);
    if (destination && source && convoy_is_whole(message)) {
        charon->kernel->mapping(charon->kernel, protocol, spi, destination, source);
    }
    DESTROY_IF(destination);
    DESTROY_IF(source);
}

void convoy_events_hear(convoy_message_t *message) {
    uint32_t id;
    convoy_kind_t kind = convoy_open(message, &id);

    if (id) {
        message->bad = TRUE;
    }
    switch (kind) {
        case CONVOY_EXPIRE:
            hear_expire(message);
            break;
        case CONVOY_ACQUIRE:
            hear_acquire(message);
            break;
        case CONVOY_MAPPING:
            hear_mapping(message);
            break;
        default:
            DBG1(DBG_KNL, "convoy: the gateway tells of something unknown, of kind %d", kind);
            break;
    }
}

/* A soft expiry is how a kernel asks for new keys. */
static void rekey_children(ike_sa_t *ike_sa) {
    enumerator_t *enumerator = ike_sa->create_child_sa_enumerator(ike_sa);
    child_sa_t *child_sa;

    while (enumerator->enumerate(enumerator, &child_sa)) {
        if (child_sa->get_state(child_sa) == CHILD_INSTALLED) {
            charon->kernel->expire(charon->kernel, child_sa->get_protocol(child_sa) == PROTO_AH ? IPPROTO_AH : IPPROTO_ESP,
                                   child_sa->get_spi(child_sa, TRUE), ike_sa->get_my_host(ike_sa), FALSE);
        }
    }
    enumerator->destroy(enumerator);
}

static job_requeue_t rekey_all(convoy_events_t *this) {
    enumerator_t *enumerator;
    ike_sa_t *ike_sa;

    enumerator = charon->controller->create_ike_sa_enumerator(charon->controller, TRUE);
    while (enumerator->enumerate(enumerator, &ike_sa)) {
        rekey_children(ike_sa);
    }
    enumerator->destroy(enumerator);
    return JOB_REQUEUE_NONE;
}

static job_requeue_t name_traps(convoy_events_t *this) {
    enumerator_t *enumerator;
    peer_cfg_t *peer_cfg;
    child_sa_t *child_sa;

    enumerator = charon->traps->create_enumerator(charon->traps);
    while (enumerator->enumerate(enumerator, &peer_cfg, &child_sa)) {
        queue_name(this, child_sa, peer_cfg->get_name(peer_cfg));
    }
    enumerator->destroy(enumerator);
    return JOB_REQUEUE_NONE;
}

void convoy_events_recover(convoy_events_t *this, bool is_new) {
    if (is_new) {
        lib->processor->queue_job(lib->processor,
                                  (job_t *)callback_job_create((callback_job_cb_t)rekey_all, this, NULL, NULL));
    }
    lib->processor->queue_job(lib->processor,
                              (job_t *)callback_job_create((callback_job_cb_t)name_traps, this, NULL, NULL));
}

convoy_events_t *convoy_events_create(convoy_link_t *link) {
    convoy_events_t *this;

    INIT(this, .listener = {.child_state_change = _child_state_change}, .link = link);
    charon->bus->add_listener(charon->bus, &this->listener);
    return this;
}

void convoy_events_destroy(convoy_events_t *this) {
    charon->bus->remove_listener(charon->bus, &this->listener);
    free(this);
}
