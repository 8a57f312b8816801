/* SPDX-License-Identifier: GPL-2.0-or-later
 * Virtual IPs of this host's own, which the gateway sets: charon need not be allowed to. */
#ifndef CONVOY_ADDRESSES_H_
#define CONVOY_ADDRESSES_H_

#include "convoy_link.h"

typedef struct convoy_addresses_t convoy_addresses_t;

convoy_addresses_t *convoy_addresses_create(convoy_link_t *link);
/* Tells the gateway again of all addresses: it has gone and is back. */
void convoy_addresses_recover(convoy_addresses_t *this);
void convoy_addresses_destroy(convoy_addresses_t *this);

#endif
