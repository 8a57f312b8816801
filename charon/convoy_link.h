/* SPDX-License-Identifier: GPL-2.0-or-later
 * The connections to the gateway: made and made again by a thread of their own. Nothing here waits longer than two seconds. */
#ifndef CONVOY_LINK_H_
#define CONVOY_LINK_H_

#include "convoy_wire.h"

typedef struct convoy_link_t convoy_link_t;

/* Who is notified of what happens. Both are called by the link's thread. */
typedef struct {
    void *context;
    /* A gateway is there; if it is new, it knows nothing. Whether all could be sent; else this is called again. */
    bool (*connected)(void *context, bool is_new);
    void (*event)(void *context, convoy_message_t *message);
} convoy_listener_t;

/* Makes the link; it does nothing yet. */
convoy_link_t *convoy_link_create(void);
/* Connects, and waits for how the first try ends. Never fails: it goes on trying. */
void convoy_link_start(convoy_link_t *this, convoy_listener_t listener);
void convoy_link_destroy(convoy_link_t *this);

/* Sends a request and reads the reply's body into `reply`, which may be the request itself. INVALID_STATE while the gateway
 * is away, which then has not heard of it. */
status_t convoy_link_ask(convoy_link_t *this, convoy_message_t *request, convoy_message_t *reply);
/* As convoy_link_ask, for a deletion: what cannot be sent now is sent as soon as the same gateway is back. */
status_t convoy_link_delete(convoy_link_t *this, convoy_message_t *request);

/* Whether the gateway is there, as far as is known. */
bool convoy_link_is_up(convoy_link_t *this);

/* Waits up to a second for an IKE datagram's message, without its header; its length, or -1. */
ssize_t convoy_link_receive(convoy_link_t *this, uint8_t *buffer, size_t size);
/* Sends an IKE datagram: the message's beginning, and the payload. While the gateway is away, it
 * waits for it. */
status_t convoy_link_send(convoy_link_t *this, convoy_message_t *head, chunk_t payload);
/* The gateway's port for IKE, or for IKE behind a NAT. */
uint16_t convoy_link_port(convoy_link_t *this, bool nat);

#endif
