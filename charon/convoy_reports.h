/* SPDX-License-Identifier: GPL-2.0-or-later
 * Why IKE fails, for the gateway: errors of the peer and to the peer, no answer, certificates. */
#ifndef CONVOY_REPORTS_H_
#define CONVOY_REPORTS_H_

#include "convoy_link.h"

typedef struct convoy_reports_t convoy_reports_t;

convoy_reports_t *convoy_reports_create(convoy_link_t *link);
void convoy_reports_destroy(convoy_reports_t *this);

#endif
