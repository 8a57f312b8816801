/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_socket.h"

#include <daemon.h>

#include "convoy_link.h"
#include "convoy_plugin.h"

/* The longest message: its header and a UDP datagram, in bytes. */
#define LONGEST (CONVOY_DATAGRAM_HEADER + 65535)

typedef struct {
    socket_t public;
    convoy_link_t *link;
} convoy_socket_t;

/* The datagram in a message, or NULL. */
static packet_t *read_datagram(const uint8_t *bytes, size_t len) {
    convoy_message_t head = {.len = min(len, CONVOY_DATAGRAM_HEADER)};
    host_t *source, *destination;
    packet_t *packet = NULL;
    uint32_t id;

    memcpy(head.bytes, bytes, head.len);
    if (convoy_open(&head, &id) != CONVOY_DATAGRAM) {
        return NULL;
    }
    source = convoy_get_host(&head);
    destination = convoy_get_host(&head);
    if (!source || !destination || head.bad || id) {
        DESTROY_IF(source);
        DESTROY_IF(destination);
        return NULL;
    }
    packet = packet_create_from_data(
        source, destination, chunk_clone(chunk_create((u_char *)bytes + head.len, len - head.len)));
    return packet;
}

METHOD(socket_t, receive_, status_t, convoy_socket_t *this, packet_t **packet) {
    uint8_t buffer[LONGEST];
    ssize_t len = convoy_link_receive(this->link, buffer, sizeof(buffer));

    if (len < 0) {
        return FAILED;
    }
    *packet = read_datagram(buffer, len);
    return *packet ? SUCCESS : FAILED;
}

METHOD(socket_t, send_, status_t, convoy_socket_t *this, packet_t *packet) {
    convoy_message_t head;

    convoy_begin(&head, CONVOY_DATAGRAM);
    convoy_put_host(&head, packet->get_source(packet));
    convoy_put_host(&head, packet->get_destination(packet));
    return convoy_link_send(this->link, &head, packet->get_data(packet));
}

METHOD(socket_t, get_port, uint16_t, convoy_socket_t *this, bool nat_t) {
    return convoy_link_port(this->link, nat_t);
}

METHOD(socket_t, supported_families, socket_family_t, convoy_socket_t *this) {
    return SOCKET_FAMILY_BOTH;
}

METHOD(socket_t, destroy, void, convoy_socket_t *this) {
    convoy_plugin_release_link();
    free(this);
}

socket_t *convoy_socket_create(void) {
    convoy_socket_t *this;

    INIT(this,
         .public =
             {
                 .receive = _receive_,
                 .send = _send_,
                 .get_port = _get_port,
                 .supported_families = _supported_families,
                 .destroy = _destroy,
             },
         .link = convoy_plugin_hold_link());
    return &this->public;
}
