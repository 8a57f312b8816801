/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_kernel.h"

#include <daemon.h>

#include "convoy_addresses.h"
#include "convoy_events.h"
#include "convoy_plugin.h"
#include "convoy_policies.h"
#include "convoy_reports.h"

/* Flags of add_sa. */
#define INBOUND (1 << 0)
#define RESERVED (1 << 1)
#define ENCAPSULATED (1 << 2)
#define ESN (1 << 3)
#define COPY_DF (1 << 4)
#define COPY_ECN (1 << 5)

typedef struct {
    kernel_ipsec_t public;
    convoy_link_t *link;
    convoy_policies_t *policies;
    convoy_events_t *events;
    convoy_reports_t *reports;
    convoy_addresses_t *addresses;
} convoy_kernel_t;

METHOD(kernel_ipsec_t, get_features, kernel_feature_t, convoy_kernel_t *this) {
    /* Not KERNEL_POLICY_SPI: charon then installs an outbound SA only when it is to be used, which is when the gateway uses it. */
    return KERNEL_ESP_V3_TFC;
}

/* Marks choose among SAs in a way that the gateway does not have. The interface is reported with the policies. */
static bool is_plain(kernel_ipsec_sa_id_t *id) {
    if (id->mark.value) {
        DBG1(DBG_KNL, "convoy: the gateway has no marks");
        return FALSE;
    }
    return TRUE;
}

static void put_sa(convoy_message_t *message, kernel_ipsec_sa_id_t *id) {
    convoy_put_u32(message, ntohl(id->spi));
    convoy_put_u8(message, id->proto);
    convoy_put_zeros(message, 3);
    convoy_put_host(message, id->src);
    convoy_put_host(message, id->dst);
}

METHOD(kernel_ipsec_t, get_spi, status_t, convoy_kernel_t *this, host_t *src, host_t *dst, uint8_t protocol,
       uint32_t *spi) {
    convoy_message_t message;
    status_t status;

    convoy_begin(&message, CONVOY_GET_SPI);
    convoy_put_u8(&message, protocol);
    convoy_put_zeros(&message, 3);
    convoy_put_host(&message, src);
    convoy_put_host(&message, dst);
    status = convoy_link_ask(this->link, &message, &message);
    if (status == SUCCESS) {
        *spi = htonl(convoy_get_u32(&message));
        status = convoy_is_whole(&message) ? SUCCESS : FAILED;
    }
    return status;
}

METHOD(kernel_ipsec_t, get_cpi, status_t, convoy_kernel_t *this, host_t *src, host_t *dst, uint16_t *cpi) {
    return NOT_SUPPORTED;
}

static bool is_doable(kernel_ipsec_sa_id_t *id, kernel_ipsec_add_sa_t *data) {
    if (!is_plain(id)) {
        return FALSE;
    }
    if (data->mark.value || data->label ||
        (data->hw_offload != HW_OFFLOAD_NO && data->hw_offload != HW_OFFLOAD_AUTO)) {
        DBG1(DBG_KNL, "convoy: the gateway has neither marks nor security labels nor hardware that charon could ask for");
        return FALSE;
    }
    if (data->enc_key.len > CONVOY_KEY || data->int_key.len > CONVOY_KEY) {
        DBG1(DBG_KNL, "convoy: the gateway has no keys of that length");
        return FALSE;
    }
    return TRUE;
}

static uint8_t flags_of(kernel_ipsec_add_sa_t *data) {
    return (data->inbound ? INBOUND : 0) | (data->update ? RESERVED : 0) | (data->encap ? ENCAPSULATED : 0) |
           (data->esn ? ESN : 0) | (data->copy_df ? COPY_DF : 0) | (data->copy_ecn ? COPY_ECN : 0);
}

/* strongSwan 6.0.2 and later: the CPU whose packets the SA carries. */
static uint32_t resource_of(kernel_ipsec_add_sa_t *data) {
#ifdef CPU_ID_MAX
    return data->cpu == CPU_ID_MAX ? CONVOY_NO_RESOURCE : data->cpu;
#else
    return CONVOY_NO_RESOURCE;
#endif
}

static uint8_t dscp_of(dscp_copy_t copy) {
    switch (copy) {
        case DSCP_COPY_OUT_ONLY:
            return 0;
        case DSCP_COPY_IN_ONLY:
            return 1;
        case DSCP_COPY_YES:
            return 2;
        default:
            return 3;
    }
}

static void put_lifetimes(convoy_message_t *message, lifetime_cfg_t *lifetime) {
    convoy_put_u64(message, lifetime->time.rekey);
    convoy_put_u64(message, lifetime->time.life);
    convoy_put_u64(message, lifetime->bytes.rekey);
    convoy_put_u64(message, lifetime->bytes.life);
    convoy_put_u64(message, lifetime->packets.rekey);
    convoy_put_u64(message, lifetime->packets.life);
}

#ifdef CONVOY_IPTFS
static uint32_t iptfs_number(char *key, uint32_t otherwise) {
    return lib->settings->get_int(lib->settings, "%s.iptfs.%s", otherwise, lib->ns, key);
}

/* charon's own settings. Its code and its documentation name the last one differently. */
static void put_iptfs(convoy_message_t *message, kernel_ipsec_add_sa_t *data) {
    bool dont_frag = data->iptfs_dont_frag;

    dont_frag |= lib->settings->get_bool(lib->settings, "%s.iptfs.dont_fragment", FALSE, lib->ns);
    dont_frag |= lib->settings->get_bool(lib->settings, "%s.iptfs.dont_frag", FALSE, lib->ns);
    convoy_put_u32(message, iptfs_number("drop_time", 1000000));
    convoy_put_u32(message, iptfs_number("reorder_window", 3));
    convoy_put_u32(message, iptfs_number("init_delay", 0));
    convoy_put_u32(message, iptfs_number("max_queue_size", 1024 * 1024));
    convoy_put_u32(message, iptfs_number("packet_size", 0));
    convoy_put_u8(message, dont_frag ? 1 : 0);
    convoy_put_zeros(message, 3);
}
#endif

METHOD(kernel_ipsec_t, add_sa, status_t, convoy_kernel_t *this, kernel_ipsec_sa_id_t *id,
       kernel_ipsec_add_sa_t *data) {
    convoy_message_t message, reply;
    status_t status;

    if (!is_doable(id, data)) {
        return NOT_SUPPORTED;
    }
    convoy_begin(&message, CONVOY_ADD_SA);
    put_sa(&message, id);
    convoy_put_u32(&message, data->reqid);
    convoy_put_u8(&message, data->mode);
    convoy_put_u8(&message, flags_of(data));
    convoy_put_u8(&message, dscp_of(data->copy_dscp));
    convoy_put_u8(&message, 0);
    convoy_put_u32(&message, data->replay_window);
    convoy_put_u32(&message, data->tfc);
    convoy_put_u16(&message, data->ipcomp);
    convoy_put_u16(&message, data->cpi);
    convoy_put_u32(&message, resource_of(data));
    put_lifetimes(&message, data->lifetime);
    convoy_put_u16(&message, data->enc_alg);
    convoy_put_u16(&message, data->int_alg);
    convoy_put_u16(&message, data->enc_key.len);
    convoy_put_u16(&message, data->int_key.len);
    convoy_put_bytes(&message, data->enc_key.ptr, data->enc_key.len);
    convoy_put_bytes(&message, data->int_key.ptr, data->int_key.len);
#ifdef CONVOY_IPTFS
    if (data->mode == MODE_IPTFS) {
        put_iptfs(&message, data);
    }
#endif
    status = convoy_link_ask(this->link, &message, &reply);
    memwipe(&message, sizeof(message));
    return status;
}

METHOD(kernel_ipsec_t, update_sa, status_t, convoy_kernel_t *this, kernel_ipsec_sa_id_t *id,
       kernel_ipsec_update_sa_t *data) {
    convoy_message_t message;

    if (!is_plain(id) || data->cpi) {
        return NOT_SUPPORTED;
    }
    convoy_begin(&message, CONVOY_UPDATE_SA);
    put_sa(&message, id);
    convoy_put_host(&message, data->new_src);
    convoy_put_host(&message, data->new_dst);
    convoy_put_u8(&message, data->new_encap ? 1 : 0);
    convoy_put_zeros(&message, 3);
    convoy_put_u32(&message, data->new_reqid);
    return convoy_link_ask(this->link, &message, &message);
}

METHOD(kernel_ipsec_t, query_sa, status_t, convoy_kernel_t *this, kernel_ipsec_sa_id_t *id,
       kernel_ipsec_query_sa_t *data, uint64_t *bytes, uint64_t *packets, time_t *time) {
    convoy_message_t message;
    uint64_t byte_count, packet_count;
    uint32_t idle;
    status_t status;

    convoy_begin(&message, CONVOY_QUERY_SA);
    put_sa(&message, id);
    status = convoy_link_ask(this->link, &message, &message);
    if (status != SUCCESS) {
        return status;
    }
    byte_count = convoy_get_u64(&message);
    packet_count = convoy_get_u64(&message);
    idle = convoy_get_u32(&message);
    if (!convoy_is_whole(&message)) {
        return FAILED;
    }
    if (bytes) {
        *bytes = byte_count;
    }
    if (packets) {
        *packets = packet_count;
    }
    if (time) {
        *time = convoy_used_at(idle);
    }
    return SUCCESS;
}

METHOD(kernel_ipsec_t, del_sa, status_t, convoy_kernel_t *this, kernel_ipsec_sa_id_t *id,
       kernel_ipsec_del_sa_t *data) {
    convoy_message_t message;

    convoy_begin(&message, CONVOY_DEL_SA);
    put_sa(&message, id);
    return convoy_link_delete(this->link, &message);
}

METHOD(kernel_ipsec_t, flush_sas, status_t, convoy_kernel_t *this) {
    convoy_message_t message;

    convoy_begin(&message, CONVOY_FLUSH_SAS);
    return convoy_link_ask(this->link, &message, &message);
}

METHOD(kernel_ipsec_t, add_policy, status_t, convoy_kernel_t *this, kernel_ipsec_policy_id_t *id,
       kernel_ipsec_manage_policy_t *data) {
    return convoy_policies_add(this->policies, id, data);
}

METHOD(kernel_ipsec_t, query_policy, status_t, convoy_kernel_t *this, kernel_ipsec_policy_id_t *id,
       kernel_ipsec_query_policy_t *data, time_t *use_time) {
    return convoy_policies_query(this->policies, id, use_time);
}

METHOD(kernel_ipsec_t, del_policy, status_t, convoy_kernel_t *this, kernel_ipsec_policy_id_t *id,
       kernel_ipsec_manage_policy_t *data) {
    return convoy_policies_delete(this->policies, id, data);
}

METHOD(kernel_ipsec_t, flush_policies, status_t, convoy_kernel_t *this) {
    return convoy_policies_flush(this->policies);
}

/* The gateway's own sockets are neither charon's nor the kernel's affair. */
METHOD(kernel_ipsec_t, bypass_socket, bool, convoy_kernel_t *this, int fd, int family) {
    return TRUE;
}

METHOD(kernel_ipsec_t, enable_udp_decap, bool, convoy_kernel_t *this, int fd, int family, uint16_t port) {
    return TRUE;
}

METHOD(kernel_ipsec_t, destroy, void, convoy_kernel_t *this) {
    convoy_plugin_release_link();
    convoy_events_destroy(this->events);
    convoy_addresses_destroy(this->addresses);
    convoy_reports_destroy(this->reports);
    convoy_policies_destroy(this->policies);
    free(this);
}

static bool connected(void *context, bool is_new) {
    convoy_kernel_t *this = context;

    if (!convoy_policies_tell(this->policies, is_new)) {
        return FALSE;
    }
    convoy_events_recover(this->events, is_new);
    convoy_addresses_recover(this->addresses);
    return TRUE;
}

static void heard(void *context, convoy_message_t *message) {
    convoy_events_hear(message);
}

kernel_ipsec_t *convoy_kernel_create(void) {
    convoy_kernel_t *this;
    convoy_link_t *link = convoy_plugin_hold_link();

    INIT(this,
         .public =
             {
                 .get_features = _get_features,
                 .get_spi = _get_spi,
                 .get_cpi = _get_cpi,
                 .add_sa = _add_sa,
                 .update_sa = _update_sa,
                 .query_sa = _query_sa,
                 .del_sa = _del_sa,
                 .flush_sas = _flush_sas,
                 .add_policy = _add_policy,
                 .query_policy = _query_policy,
                 .del_policy = _del_policy,
                 .flush_policies = _flush_policies,
                 .bypass_socket = _bypass_socket,
                 .enable_udp_decap = _enable_udp_decap,
                 .destroy = _destroy,
             },
         .link = link, .policies = convoy_policies_create(link), .events = convoy_events_create(link),
         .reports = convoy_reports_create(link), .addresses = convoy_addresses_create(link));
    convoy_link_start(link, (convoy_listener_t){.context = this, .connected = connected, .event = heard});
    return &this->public;
}
