/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_policies.h"

#include <daemon.h>
#include <collections/hashtable.h>
#include <threading/mutex.h>

struct convoy_policies_t {
    convoy_link_t *link;
    /* Held while the gateway is sent a change, so that both lists change in one order. */
    mutex_t *mutex;
    /* Of policy_t, by what the gateway gets of them. */
    hashtable_t *table;
};

/* A policy as the gateway gets it. */
typedef struct {
    chunk_t fields;
    /* How often it was added, and how often the gateway knows that. */
    u_int count;
    u_int reported;
} policy_t;

static u_int hash(const void *key) {
    return chunk_hash(*(const chunk_t *)key);
}

static bool equals(const void *key, const void *other) {
    return chunk_equals(*(const chunk_t *)key, *(const chunk_t *)other);
}

static void destroy_policy(policy_t *policy) {
    chunk_free(&policy->fields);
    free(policy);
}

static void put_id(convoy_message_t *message, kernel_ipsec_policy_id_t *id) {
    convoy_put_u8(message, id->dir);
    convoy_put_zeros(message, 3);
    convoy_put_u32(message, id->if_id);
    convoy_put_selector(message, id->src_ts);
    convoy_put_selector(message, id->dst_ts);
}

static bool is_per_resource(kernel_ipsec_manage_policy_t *data) {
#ifdef CPU_ID_MAX
    return data->pcpu_acquires;
#else
    return FALSE;
#endif
}

static void put_policy(convoy_message_t *message, kernel_ipsec_policy_id_t *id, kernel_ipsec_manage_policy_t *data) {
    bool has_sa = data->type == POLICY_IPSEC && data->sa;

    put_id(message, id);
    convoy_put_u8(message, data->type);
    convoy_put_u8(message, data->prio);
    convoy_put_u8(message, has_sa ? data->sa->mode : MODE_TUNNEL);
    convoy_put_u8(message, is_per_resource(data) ? 1 : 0);
    convoy_put_u32(message, has_sa ? data->sa->reqid : 0);
    convoy_put_u32(message, data->manual_prio);
}

/* What follows a message's header. */
static chunk_t fields_of(convoy_message_t *message) {
    return chunk_skip(chunk_create(message->bytes, message->len), 8);
}

static bool is_plain(kernel_ipsec_policy_id_t *id) {
    if (id->mark.value || id->interface || id->label) {
        DBG1(DBG_KNL, "convoy: the gateway's policies have no marks, names of interfaces or security labels");
        return FALSE;
    }
    return TRUE;
}

status_t convoy_policies_add(convoy_policies_t *this, kernel_ipsec_policy_id_t *id,
                             kernel_ipsec_manage_policy_t *data) {
    convoy_message_t message, reply;
    chunk_t fields;
    policy_t *policy;
    status_t status;

    if (!is_plain(id)) {
        return NOT_SUPPORTED;
    }
    convoy_begin(&message, CONVOY_ADD_POLICY);
    put_policy(&message, id, data);
    fields = fields_of(&message);
    this->mutex->lock(this->mutex);
    status = convoy_link_ask(this->link, &message, &reply);
    if (status == SUCCESS || (status == INVALID_STATE && !message.bad)) {
        policy = this->table->get(this->table, &fields);
        if (!policy) {
            INIT(policy, .fields = chunk_clone(fields));
            this->table->put(this->table, &policy->fields, policy);
        }
        policy->count++;
        policy->reported += status == SUCCESS;
        status = SUCCESS;
    }
    this->mutex->unlock(this->mutex);
    return status;
}

status_t convoy_policies_delete(convoy_policies_t *this, kernel_ipsec_policy_id_t *id,
                                kernel_ipsec_manage_policy_t *data) {
    convoy_message_t message;
    chunk_t fields;
    policy_t *policy;
    status_t status = NOT_FOUND;

    convoy_begin(&message, CONVOY_DEL_POLICY);
    put_policy(&message, id, data);
    fields = fields_of(&message);
    this->mutex->lock(this->mutex);
    policy = this->table->get(this->table, &fields);
    if (policy) {
        status = SUCCESS;
        if (policy->reported == policy->count) {
            policy->reported--;
            status = convoy_link_delete(this->link, &message);
        }
        if (!--policy->count) {
            this->table->remove(this->table, &fields);
            destroy_policy(policy);
        }
    }
    this->mutex->unlock(this->mutex);
    return status;
}

status_t convoy_policies_query(convoy_policies_t *this, kernel_ipsec_policy_id_t *id, time_t *use_time) {
    convoy_message_t message;
    status_t status;

    *use_time = 0;
    convoy_begin(&message, CONVOY_QUERY_POLICY);
    put_id(&message, id);
    status = convoy_link_ask(this->link, &message, &message);
    if (status == SUCCESS) {
        *use_time = convoy_used_at(convoy_get_u32(&message));
        status = convoy_is_whole(&message) ? SUCCESS : FAILED;
    }
    return status;
}

static void forget_all(convoy_policies_t *this) {
    enumerator_t *enumerator = this->table->create_enumerator(this->table);
    const void *key;
    policy_t *policy;

    while (enumerator->enumerate(enumerator, &key, &policy)) {
        this->table->remove_at(this->table, enumerator);
        destroy_policy(policy);
    }
    enumerator->destroy(enumerator);
}

status_t convoy_policies_flush(convoy_policies_t *this) {
    convoy_message_t message;
    status_t status;

    convoy_begin(&message, CONVOY_FLUSH_POLICIES);
    this->mutex->lock(this->mutex);
    forget_all(this);
    status = convoy_link_delete(this->link, &message);
    this->mutex->unlock(this->mutex);
    return status;
}

/* What the gateway refuses of it, it would refuse again. */
static void tell(convoy_policies_t *this, policy_t *policy) {
    convoy_message_t message, reply;

    while (policy->reported < policy->count) {
        convoy_begin(&message, CONVOY_ADD_POLICY);
        convoy_put_bytes(&message, policy->fields.ptr, policy->fields.len);
        if (convoy_link_ask(this->link, &message, &reply) != SUCCESS) {
            return;
        }
        policy->reported++;
    }
}

bool convoy_policies_tell(convoy_policies_t *this, bool is_new) {
    convoy_message_t message, reply;
    enumerator_t *enumerator;
    const void *key;
    policy_t *policy;
    u_int count = 0, reported = 0;

    this->mutex->lock(this->mutex);
    if (is_new) {
        /* One that was added since the gateway came back is in the list as well. */
        convoy_begin(&message, CONVOY_FLUSH_POLICIES);
        convoy_link_ask(this->link, &message, &reply);
    }
    enumerator = this->table->create_enumerator(this->table);
    while (convoy_link_is_up(this->link) && enumerator->enumerate(enumerator, &key, &policy)) {
        policy->reported = is_new ? 0 : policy->reported;
        count += policy->reported < policy->count;
        reported += policy->reported < policy->count;
        tell(this, policy);
        reported -= policy->reported < policy->count;
    }
    enumerator->destroy(enumerator);
    this->mutex->unlock(this->mutex);
    if (is_new || count) {
        DBG1(DBG_KNL, "convoy: sent %u of %u policies to the gateway%s", reported, count, is_new ? ", which was started again" : "");
    }
    return convoy_link_is_up(this->link);
}

time_t convoy_used_at(uint32_t idle_s) {
    time_t now = time_monotonic(NULL);

    return idle_s == CONVOY_NEVER || idle_s > now ? 0 : now - idle_s;
}

convoy_policies_t *convoy_policies_create(convoy_link_t *link) {
    convoy_policies_t *this;

    INIT(this, .link = link, .mutex = mutex_create(MUTEX_TYPE_DEFAULT), .table = hashtable_create(hash, equals, 32));
    return this;
}

void convoy_policies_destroy(convoy_policies_t *this) {
    forget_all(this);
    this->table->destroy(this->table);
    this->mutex->destroy(this->mutex);
    free(this);
}
