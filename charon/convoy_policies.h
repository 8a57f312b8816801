/* SPDX-License-Identifier: GPL-2.0-or-later
 * charon's policies, kept so that a gateway which was started again can be sent them again. */
#ifndef CONVOY_POLICIES_H_
#define CONVOY_POLICIES_H_

#include "convoy_link.h"

#include <kernel/kernel_ipsec.h>

typedef struct convoy_policies_t convoy_policies_t;

convoy_policies_t *convoy_policies_create(convoy_link_t *link);
void convoy_policies_destroy(convoy_policies_t *this);
/* While the gateway is away, a policy waits for it: charon does not try again. */
status_t convoy_policies_add(convoy_policies_t *this, kernel_ipsec_policy_id_t *id, kernel_ipsec_manage_policy_t *data);
status_t convoy_policies_delete(convoy_policies_t *this, kernel_ipsec_policy_id_t *id,
                                kernel_ipsec_manage_policy_t *data);
status_t convoy_policies_query(convoy_policies_t *this, kernel_ipsec_policy_id_t *id, time_t *use_time);
status_t convoy_policies_flush(convoy_policies_t *this);
/* Tells the gateway those that it has not heard of, or all if it is new. FALSE if it went away meanwhile. */
bool convoy_policies_tell(convoy_policies_t *this, bool is_new);
/* The monotonic time of something that has been idle for so many seconds; 0 if it was never used. */
time_t convoy_used_at(uint32_t idle_s);

#endif
