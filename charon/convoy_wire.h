/* SPDX-License-Identifier: GPL-2.0-or-later
 * Messages between charon and the gateway; PROTOCOL.md has their layout. */
#ifndef CONVOY_WIRE_H_
#define CONVOY_WIRE_H_

#include <library.h>
#include <networking/host.h>
#include <selectors/traffic_selector.h>

#define CONVOY_VERSION 4
#define CONVOY_MAGIC 0x59564e43
/* The longest message on control and events, in bytes. */
#define CONVOY_MESSAGE 1024
/* Bytes of an IKE datagram's message before its payload. */
#define CONVOY_DATAGRAM_HEADER 48
#define CONVOY_KEY 128
#define CONVOY_NAME 128
#define CONVOY_REPLY 0x80
/* An idle time of what was never used. */
#define CONVOY_NEVER 0xffffffff
#define CONVOY_NO_RESOURCE 0xffffffff

typedef enum {
    CONVOY_HELLO = 1,
    CONVOY_WELCOME = 2,
    CONVOY_GET_SPI = 16,
    CONVOY_ADD_SA = 17,
    CONVOY_UPDATE_SA = 18,
    CONVOY_QUERY_SA = 19,
    CONVOY_DEL_SA = 20,
    CONVOY_FLUSH_SAS = 21,
    CONVOY_ADD_POLICY = 22,
    CONVOY_QUERY_POLICY = 23,
    CONVOY_DEL_POLICY = 24,
    CONVOY_FLUSH_POLICIES = 25,
    CONVOY_NAME_REQID = 26,
    CONVOY_IKE_REPORT = 27,
    CONVOY_PEER = 28,
    CONVOY_VIRTUAL_IP = 29,
    CONVOY_EXPIRE = 64,
    CONVOY_ACQUIRE = 65,
    CONVOY_MAPPING = 66,
    CONVOY_DATAGRAM = 96,
} convoy_kind_t;

/* What a report of IKE says. */
typedef enum {
    /* What was sent again has an answer. */
    CONVOY_ANSWERED = 0,
    CONVOY_NOTIFY_RECEIVED = 1,
    CONVOY_NOTIFY_SENT = 2,
    /* A message was sent again. */
    CONVOY_NO_ANSWER = 3,
    /* The last time was in vain. */
    CONVOY_GAVE_UP = 4,
    /* The peer's name does not resolve. */
    CONVOY_NO_ADDRESS = 5,
    CONVOY_CERTIFICATE_EXPIRED = 6,
    CONVOY_CERTIFICATE_REVOKED = 7,
    CONVOY_CERTIFICATE_UNTRUSTED = 8,
} convoy_report_t;

/* A message, as it is written or read. Once a field did not fit, `bad` stays set. */
typedef struct {
    uint8_t bytes[CONVOY_MESSAGE];
    size_t len;
    size_t at;
    bool bad;
} convoy_message_t;

/* Writing. */
void convoy_begin(convoy_message_t *message, convoy_kind_t kind);
void convoy_set_id(convoy_message_t *message, uint32_t id);
void convoy_put_u8(convoy_message_t *message, uint8_t value);
void convoy_put_u16(convoy_message_t *message, uint16_t value);
void convoy_put_u32(convoy_message_t *message, uint32_t value);
void convoy_put_u64(convoy_message_t *message, uint64_t value);
void convoy_put_bytes(convoy_message_t *message, const void *bytes, size_t len);
void convoy_put_zeros(convoy_message_t *message, size_t len);
void convoy_put_host(convoy_message_t *message, host_t *host);
void convoy_put_selector(convoy_message_t *message, traffic_selector_t *selector);
/* Cut to CONVOY_NAME bytes, whole characters. */
void convoy_put_name(convoy_message_t *message, const char *name);

/* What a printf of strongSwan's prints, in ASCII: peers choose identities, and the gateway takes UTF-8 alone. NULL if there
 * is no memory. */
char *convoy_print(const char *format, void *what);

/* Reading. A field that is not there reads as zero and sets `bad`. */
convoy_kind_t convoy_open(convoy_message_t *message, uint32_t *id);
uint8_t convoy_get_u8(convoy_message_t *message);
uint16_t convoy_get_u16(convoy_message_t *message);
uint32_t convoy_get_u32(convoy_message_t *message);
uint64_t convoy_get_u64(convoy_message_t *message);
/* What is reserved: anything but zeros is bad. */
void convoy_get_zeros(convoy_message_t *message, size_t len);
/* 0 or 1. */
bool convoy_get_flag(convoy_message_t *message);
/* NULL if it is none. */
host_t *convoy_get_host(convoy_message_t *message);
traffic_selector_t *convoy_get_selector(convoy_message_t *message);
/* Text for the log, ended by a zero. */
void convoy_get_text(convoy_message_t *message, char *buffer, size_t size);
/* Whether all was read, and all was good. */
bool convoy_is_whole(convoy_message_t *message);

#endif
