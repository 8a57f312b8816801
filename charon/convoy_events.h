/* SPDX-License-Identifier: GPL-2.0-or-later
 * What the gateway tells charon, and what charon tells of its CHILD_SAs beside their keys. */
#ifndef CONVOY_EVENTS_H_
#define CONVOY_EVENTS_H_

#include "convoy_link.h"

typedef struct convoy_events_t convoy_events_t;

/* Begins to tell the gateway the names of CHILD_SAs. */
convoy_events_t *convoy_events_create(convoy_link_t *link);
void convoy_events_destroy(convoy_events_t *this);
/* Hands an expire, acquire or mapping to charon. */
void convoy_events_hear(convoy_message_t *message);
/* Tells the names of traps again; for a new gateway, which has forgotten their keys, charon makes all CHILD_SAs again. */
void convoy_events_recover(convoy_events_t *this, bool is_new);

#endif
