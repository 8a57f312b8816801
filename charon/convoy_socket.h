/* SPDX-License-Identifier: GPL-2.0-or-later
 * charon's socket_t: the gateway owns the UDP ports and passes IKE's datagrams on. */
#ifndef CONVOY_SOCKET_H_
#define CONVOY_SOCKET_H_

#include <network/socket.h>

socket_t *convoy_socket_create(void);

#endif
