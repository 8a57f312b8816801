/* SPDX-License-Identifier: GPL-2.0-or-later
 * charon's kernel_ipsec_t, done by the gateway. */
#ifndef CONVOY_KERNEL_H_
#define CONVOY_KERNEL_H_

#include "convoy_link.h"

#include <kernel/kernel_ipsec.h>

/* Takes the plugin's link, and starts it. */
kernel_ipsec_t *convoy_kernel_create(void);

#endif
