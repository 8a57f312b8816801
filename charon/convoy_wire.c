/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_wire.h"

#include <endian.h>

#define FAMILY_V4 4
#define FAMILY_V6 6

void convoy_begin(convoy_message_t *message, convoy_kind_t kind) {
    message->len = message->at = 0;
    message->bad = FALSE;
    convoy_put_u16(message, kind);
    convoy_put_zeros(message, 6);
}

void convoy_set_id(convoy_message_t *message, uint32_t id) {
    id = htole32(id);
    memcpy(message->bytes + 4, &id, sizeof(id));
}

void convoy_put_bytes(convoy_message_t *message, const void *bytes, size_t len) {
    if (len > sizeof(message->bytes) - message->len) {
        message->bad = TRUE;
    } else if (len) {
        memcpy(message->bytes + message->len, bytes, len);
        message->len += len;
    }
}

void convoy_put_zeros(convoy_message_t *message, size_t len) {
    static const uint8_t zeros[16];
    convoy_put_bytes(message, zeros, min(len, sizeof(zeros)));
}

void convoy_put_u8(convoy_message_t *message, uint8_t value) {
    convoy_put_bytes(message, &value, sizeof(value));
}

void convoy_put_u16(convoy_message_t *message, uint16_t value) {
    value = htole16(value);
    convoy_put_bytes(message, &value, sizeof(value));
}

void convoy_put_u32(convoy_message_t *message, uint32_t value) {
    value = htole32(value);
    convoy_put_bytes(message, &value, sizeof(value));
}

void convoy_put_u64(convoy_message_t *message, uint64_t value) {
    value = htole64(value);
    convoy_put_bytes(message, &value, sizeof(value));
}

static void put_address(convoy_message_t *message, chunk_t address) {
    if (address.len > 16) {
        message->bad = TRUE;
        return;
    }
    convoy_put_bytes(message, address.ptr, address.len);
    convoy_put_zeros(message, 16 - address.len);
}

void convoy_put_host(convoy_message_t *message, host_t *host) {
    convoy_put_u8(message, host->get_family(host) == AF_INET6 ? FAMILY_V6 : FAMILY_V4);
    convoy_put_u8(message, 0);
    convoy_put_u16(message, host->get_port(host));
    put_address(message, host->get_address(host));
}

void convoy_put_selector(convoy_message_t *message, traffic_selector_t *selector) {
    convoy_put_u8(message, selector->get_type(selector) == TS_IPV6_ADDR_RANGE ? FAMILY_V6 : FAMILY_V4);
    convoy_put_u8(message, selector->get_protocol(selector));
    convoy_put_u16(message, selector->get_from_port(selector));
    convoy_put_u16(message, selector->get_to_port(selector));
    convoy_put_u16(message, 0);
    put_address(message, selector->get_from_address(selector));
    put_address(message, selector->get_to_address(selector));
}

void convoy_put_name(convoy_message_t *message, const char *name) {
    size_t len = strnlen(name, CONVOY_NAME + 1);

    if (len > CONVOY_NAME) {
        len = CONVOY_NAME;
        while (len && (name[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    convoy_put_u16(message, len);
    convoy_put_bytes(message, name, len);
}

char *convoy_print(const char *format, void *what) {
    char *text, *at;

    if (asprintf(&text, format, what) < 0) {
        return NULL;
    }
    for (at = text; *at; at++) {
        if (*at < ' ' || *at > '~') {
            *at = '?';
        }
    }
    return text;
}

static const uint8_t *take(convoy_message_t *message, size_t len) {
    static const uint8_t zeros[16];
    const uint8_t *field = message->bytes + message->at;

    if (message->bad || len > message->len - message->at) {
        message->bad = TRUE;
        return zeros;
    }
    message->at += len;
    return field;
}

/* An address of `family`, filled up with zeros. */
static const uint8_t *take_address(convoy_message_t *message, uint8_t family) {
    static const uint8_t zeros[12];
    const uint8_t *address = take(message, 16);

    if (family == FAMILY_V4 ? memcmp(address + 4, zeros, sizeof(zeros)) != 0 : family != FAMILY_V6) {
        message->bad = TRUE;
    }
    return address;
}

convoy_kind_t convoy_open(convoy_message_t *message, uint32_t *id) {
    convoy_kind_t kind;

    message->at = 0;
    message->bad = FALSE;
    kind = convoy_get_u16(message);
    convoy_get_zeros(message, 2);
    *id = convoy_get_u32(message);
    return kind;
}

uint8_t convoy_get_u8(convoy_message_t *message) {
    return *take(message, 1);
}

uint16_t convoy_get_u16(convoy_message_t *message) {
    uint16_t value;
    memcpy(&value, take(message, sizeof(value)), sizeof(value));
    return le16toh(value);
}

uint32_t convoy_get_u32(convoy_message_t *message) {
    uint32_t value;
    memcpy(&value, take(message, sizeof(value)), sizeof(value));
    return le32toh(value);
}

uint64_t convoy_get_u64(convoy_message_t *message) {
    uint64_t value;
    memcpy(&value, take(message, sizeof(value)), sizeof(value));
    return le64toh(value);
}

void convoy_get_zeros(convoy_message_t *message, size_t len) {
    while (len--) {
        if (convoy_get_u8(message)) {
            message->bad = TRUE;
        }
    }
}

bool convoy_get_flag(convoy_message_t *message) {
    uint8_t value = convoy_get_u8(message);

    if (value > 1) {
        message->bad = TRUE;
    }
    return value;
}

host_t *convoy_get_host(convoy_message_t *message) {
    uint8_t family = convoy_get_u8(message);
    uint16_t port;
    const uint8_t *address;

    convoy_get_zeros(message, 1);
    port = convoy_get_u16(message);
    address = take_address(message, family);
    if (message->bad) {
        return NULL;
    }
    if (family == FAMILY_V6) {
        return host_create_from_chunk(AF_INET6, chunk_create((u_char *)address, 16), port);
    }
    return host_create_from_chunk(AF_INET, chunk_create((u_char *)address, 4), port);
}

/* strongSwan reads an ICMP port below 256 as a type, where it is code n of type 0. */
static bool is_misread(uint8_t protocol, uint16_t port) {
    return (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6) && port > 0 && port < 256;
}

traffic_selector_t *convoy_get_selector(convoy_message_t *message) {
    uint8_t family = convoy_get_u8(message);
    uint8_t protocol = convoy_get_u8(message);
    uint16_t first_port = convoy_get_u16(message), last_port = convoy_get_u16(message);
    const uint8_t *first, *last;
    bool is_v6 = family == FAMILY_V6;
    size_t len = is_v6 ? 16 : 4;

    convoy_get_zeros(message, 2);
    first = take_address(message, family);
    last = take_address(message, family);
    if (message->bad || is_misread(protocol, first_port) || is_misread(protocol, last_port)) {
        return NULL;
    }
    return traffic_selector_create_from_bytes(protocol, is_v6 ? TS_IPV6_ADDR_RANGE : TS_IPV4_ADDR_RANGE,
                                              chunk_create((u_char *)first, len), first_port,
                                              chunk_create((u_char *)last, len), last_port);
}

void convoy_get_text(convoy_message_t *message, char *buffer, size_t size) {
    size_t len = convoy_get_u16(message);
    const uint8_t *text = take(message, len);

    len = message->bad ? 0 : min(len, size - 1);
    memcpy(buffer, text, len);
    buffer[len] = '\0';
}

bool convoy_is_whole(convoy_message_t *message) {
    return !message->bad && message->at == message->len;
}
