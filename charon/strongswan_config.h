/* SPDX-License-Identifier: GPL-2.0-or-later
 * What Debian's and Ubuntu's strongSwan was configured with, as far as its headers ask. ME changes the layout of daemon_t. */
#ifndef CONVOY_STRONGSWAN_CONFIG_H_
#define CONVOY_STRONGSWAN_CONFIG_H_

#define CONFIG_H_INCLUDED
#define ME
#define USE_IKEV1
#define USE_IKEV2
#define HAVE_ALLOCA_H
#define HAVE_CLOCK_GETTIME
#define HAVE_CLOSEFROM
#define HAVE_CONDATTR_CLOCK_MONOTONIC
#define HAVE_EXPLICIT_BZERO
#define HAVE_FMEMOPEN
#define HAVE_GCC_ATOMIC_OPERATIONS
#define HAVE_INT128
#define HAVE_MEMRCHR
#define HAVE_PRINTF_SPECIFIER
#define HAVE_SIGWAITINFO
#define HAVE_STDBOOL_H
#define HAVE_SYS_PARAM_H

#endif
