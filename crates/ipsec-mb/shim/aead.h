/* AEADs, one packet at a time. Included by jobs.c only, so that the compiler can inline everything. */

#ifndef CONVOY_MB_AEAD_H
#define CONVOY_MB_AEAD_H

#include "shim.h"

#include <string.h>

static void gcm(IMB_MGR *mgr, const struct convoy_mb_key *key, int seal, struct gcm_context_data *context,
                const struct convoy_mb_job *job, uint8_t *tag)
{
        uint8_t *body = job->packet + job->cipher_start;
#define CALL(op) op(mgr, &key->gcm, context, body, body, job->cipher_len, job->nonce, job->aad, job->aad_len, tag, \
                    job->tag_len)
        if (job->key_len == 16)
                seal ? CALL(IMB_AES128_GCM_ENC) : CALL(IMB_AES128_GCM_DEC);
        else if (job->key_len == 24)
                seal ? CALL(IMB_AES192_GCM_ENC) : CALL(IMB_AES192_GCM_DEC);
        else
                seal ? CALL(IMB_AES256_GCM_ENC) : CALL(IMB_AES256_GCM_DEC);
#undef CALL
}

static void gmac(IMB_MGR *mgr, const struct convoy_mb_key *key, struct gcm_context_data *context,
                 const struct convoy_mb_job *job, uint8_t *tag)
{
        const uint8_t *data = job->packet + job->auth_start;
#define RUN(bits)                                                                                  \
        do {                                                                                       \
                IMB_AES##bits##_GMAC_INIT(mgr, &key->gcm, context, job->nonce, job->nonce_len);    \
                IMB_AES##bits##_GMAC_UPDATE(mgr, &key->gcm, context, job->aad, job->aad_len);      \
                IMB_AES##bits##_GMAC_UPDATE(mgr, &key->gcm, context, data, job->auth_len);         \
                IMB_AES##bits##_GMAC_FINALIZE(mgr, &key->gcm, context, tag, job->tag_len);         \
        } while (0)
        if (job->key_len == 16)
                RUN(128);
        else if (job->key_len == 24)
                RUN(192);
        else
                RUN(256);
#undef RUN
}

static void chacha(IMB_MGR *mgr, const struct convoy_mb_key *key, int seal,
                   struct chacha20_poly1305_context_data *context, const struct convoy_mb_job *job, uint8_t *tag)
{
        uint8_t *body = job->packet + job->cipher_start;
        IMB_CHACHA20_POLY1305_INIT(mgr, key->raw, context, job->nonce, job->aad, job->aad_len);
        if (seal) {
                IMB_CHACHA20_POLY1305_ENC_UPDATE(mgr, key->raw, context, body, body, job->cipher_len);
                IMB_CHACHA20_POLY1305_ENC_FINALIZE(mgr, context, tag, job->tag_len);
        } else {
                IMB_CHACHA20_POLY1305_DEC_UPDATE(mgr, key->raw, context, body, body, job->cipher_len);
                IMB_CHACHA20_POLY1305_DEC_FINALIZE(mgr, context, tag, job->tag_len);
        }
}

/* Uses a job, which takes 300 cycles less than the direct functions. Returns 0 if the library refuses it. */
static int chacha_job(IMB_MGR *mgr, const struct convoy_mb_job *job, uint8_t *tag)
{
        IMB_JOB *to = IMB_GET_NEXT_JOB(mgr);
        to->cipher_mode = IMB_CIPHER_CHACHA20_POLY1305;
        to->hash_alg = IMB_AUTH_CHACHA20_POLY1305;
        to->cipher_direction = job->seal ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
        to->chain_order = job->seal ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
        to->enc_keys = to->dec_keys = job->key->raw;
        to->key_len_in_bytes = job->key_len;
        to->src = job->packet;
        to->dst = job->packet + job->cipher_start;
        to->cipher_start_src_offset_in_bytes = to->hash_start_src_offset_in_bytes = job->cipher_start;
        to->msg_len_to_cipher_in_bytes = to->msg_len_to_hash_in_bytes = job->cipher_len;
        to->iv = job->nonce;
        to->iv_len_in_bytes = job->nonce_len;
        to->u.CHACHA20_POLY1305.aad = job->aad;
        to->u.CHACHA20_POLY1305.aad_len_in_bytes = job->aad_len;
        to->auth_tag_output = tag;
        to->auth_tag_output_len_in_bytes = job->tag_len;
        to = IMB_SUBMIT_JOB(mgr);
        return to != NULL && to->status == IMB_STATUS_COMPLETED;
}

static void aead(struct convoy_mb *mb, union context *context, const struct convoy_mb_job *job, uint8_t *tag)
{
        if (job->cipher == C_GCM)
                gcm(mb->best, job->key, job->seal, &context->gcm, job, tag);
        else if (job->cipher == C_GMAC)
                gmac(mb->best, job->key, &context->gcm, job, tag);
        else if (!chacha_job(mb->chacha, job, tag))
                chacha(mb->best, job->key, job->seal, &context->chacha, job, tag);
}

/* Compares in constant time. Tags have 8, 12 or 16 bytes: whole words. */
static int is_equal(const uint8_t *one, const uint8_t *other, size_t len)
{
        uint32_t difference = 0, a, b;
        for (size_t at = 0; at < len; at += 4) {
                memcpy(&a, one + at, 4);
                memcpy(&b, other + at, 4);
                difference |= a ^ b;
        }
        return difference == 0;
}

/* Writes the tag to the packet, or compares it with the packet's tag. */
static void aead_one(struct convoy_mb *mb, struct convoy_mb_job *job)
{
        uint8_t tag[16];
        if (job->seal) {
                aead(mb, &mb->context, job, job->tag);
                job->state = S_DONE;
        } else {
                aead(mb, &mb->context, job, tag);
                job->state = is_equal(tag, job->tag, job->tag_len) ? S_DONE : S_MISMATCH;
        }
}

#endif
