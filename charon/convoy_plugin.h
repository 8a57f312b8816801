/* SPDX-License-Identifier: GPL-2.0-or-later
 * The plugin: what charon loads. */
#ifndef CONVOY_PLUGIN_H_
#define CONVOY_PLUGIN_H_

#include <plugins/plugin.h>

#include "convoy_link.h"

/* charon calls this. NULL if the running strongSwan is not the one that the plugin was built for. */
__attribute__((visibility("default"))) plugin_t *convoy_plugin_create(void);

/* strongSwan's version that the plugin was built for. Since 6.1 charon loads it for no other. */
__attribute__((visibility("default"))) extern const char *convoy_plugin_version;

/* The connections that kernel side and socket share. They end with the last that releases them. */
convoy_link_t *convoy_plugin_hold_link(void);
void convoy_plugin_release_link(void);

#endif
