/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_held.h"

#include <collections/hashtable.h>

/* Enough for a message of each of ten thousand IKE_SAs. */
#define MOST_BYTES (16 << 20)
/* charon waits 76 s after the last of its retransmissions; the other pauses are shorter. What it
 * has given up is not to leave: for each old IKE_SA_INIT the peer would begin an IKE_SA. */
#define MOST_SECONDS 60

struct convoy_held_t {
    /* Of held_t by their bytes, those sent first in front. */
    hashtable_t *table;
    size_t bytes;
};

typedef struct {
    chunk_t message;
    time_t sent_at;
} held_t;

static u_int hash(const void *key) {
    return chunk_hash(*(const chunk_t *)key);
}

static bool equals(const void *key, const void *other) {
    return chunk_equals(*(const chunk_t *)key, *(const chunk_t *)other);
}

static void drop(convoy_held_t *this, held_t *held) {
    this->table->remove(this->table, &held->message);
    this->bytes -= held->message.len;
    chunk_free(&held->message);
    free(held);
}

static held_t *oldest(convoy_held_t *this) {
    enumerator_t *enumerator = this->table->create_enumerator(this->table);
    const void *key;
    held_t *held;

    if (!enumerator->enumerate(enumerator, &key, &held)) {
        held = NULL;
    }
    enumerator->destroy(enumerator);
    return held;
}

void convoy_held_keep(convoy_held_t *this, chunk_t message) {
    held_t *held = this->table->get(this->table, &message);

    if (held) {
        drop(this, held);
    }
    while (this->bytes + message.len > MOST_BYTES && (held = oldest(this))) {
        drop(this, held);
    }
    INIT(held, .message = chunk_clone(message), .sent_at = time_monotonic(NULL));
    this->table->put(this->table, &held->message, held);
    this->bytes += message.len;
}

linked_list_t *convoy_held_take(convoy_held_t *this) {
    enumerator_t *enumerator = this->table->create_enumerator(this->table);
    linked_list_t *taken = linked_list_create();
    time_t now = time_monotonic(NULL);
    const void *key;
    chunk_t *message;
    held_t *held;

    while (enumerator->enumerate(enumerator, &key, &held)) {
        this->table->remove_at(this->table, enumerator);
        if (now - held->sent_at <= MOST_SECONDS) {
            INIT(message);
            *message = chunk_clone(held->message);
            taken->insert_last(taken, message);
        }
        chunk_free(&held->message);
        free(held);
    }
    enumerator->destroy(enumerator);
    this->bytes = 0;
    return taken;
}

convoy_held_t *convoy_held_create(void) {
    convoy_held_t *this;

    INIT(this, .table = hashtable_create(hash, equals, 32));
    return this;
}

void convoy_held_destroy(convoy_held_t *this) {
    held_t *held;

    while ((held = oldest(this))) {
        drop(this, held);
    }
    this->table->destroy(this->table);
    free(this);
}
