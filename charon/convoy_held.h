/* SPDX-License-Identifier: GPL-2.0-or-later
 * IKE messages of charon's that wait for a gateway that is away. If they were lost, an exchange
 * that charon began meanwhile (DPD, or MOBIKE when the gateway's interface went) would hold up all
 * else of its IKE_SA until charon sends it again, after 4 s, 7 s, 13 s and so on. */
#ifndef CONVOY_HELD_H_
#define CONVOY_HELD_H_

#include <library.h>
#include <collections/linked_list.h>

typedef struct convoy_held_t convoy_held_t;

convoy_held_t *convoy_held_create(void);
/* Keeps a copy. One with the same bytes goes: charon sends a request again as it was. */
void convoy_held_keep(convoy_held_t *this, chunk_t message);
/* All but those that charon has given up, as chunk_t*, oldest first. None stay here. */
linked_list_t *convoy_held_take(convoy_held_t *this);
void convoy_held_destroy(convoy_held_t *this);

#endif
