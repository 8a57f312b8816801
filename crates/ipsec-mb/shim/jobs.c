/* Packets: AEADs one at a time, ciphers with a hash as bursts of the library's jobs. */

#include "aead.h"
#include "shim.h"

static IMB_CIPHER_MODE cipher_mode(uint32_t cipher)
{
        switch (cipher) {
        case C_CBC: return IMB_CIPHER_CBC;
        case C_CTR: return IMB_CIPHER_CNTR;
        case C_3DES: return IMB_CIPHER_DES3;
        case C_DES: return IMB_CIPHER_DES;
        default: return IMB_CIPHER_NULL;
        }
}

static IMB_HASH_ALG hash_alg(uint32_t hash)
{
        switch (hash) {
        case H_MD5: return IMB_AUTH_MD5;
        case H_SHA1: return IMB_AUTH_HMAC_SHA_1;
        case H_SHA256: return IMB_AUTH_HMAC_SHA_256;
        case H_SHA384: return IMB_AUTH_HMAC_SHA_384;
        case H_SHA512: return IMB_AUTH_HMAC_SHA_512;
        default: return IMB_AUTH_NULL;
        }
}

static void finish(const IMB_JOB *done)
{
        if (done != NULL)
                ((struct convoy_mb_job *)done->user_data)->state =
                        done->status == IMB_STATUS_COMPLETED ? S_DONE : S_REFUSED;
}

static void fill(IMB_JOB *to, struct convoy_mb_job *job)
{
        const struct convoy_mb_key *key = job->key;
        int seal = job->seal;
        /* The library refuses ciphers of 0 bytes. */
        to->cipher_mode = job->cipher_len > 0 ? cipher_mode(key->cipher) : IMB_CIPHER_NULL;
        to->cipher_direction = seal ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
        to->chain_order = seal ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
        to->hash_alg = hash_alg(key->hash);
        to->key_len_in_bytes = key->key_len;
        if (key->cipher == C_3DES) {
                to->enc_keys = to->dec_keys = key->des_pointers;
        } else if (key->cipher == C_DES) {
                to->enc_keys = to->dec_keys = key->des[0];
        } else {
                to->enc_keys = key->enc;
                to->dec_keys = key->dec;
        }
        to->src = job->packet;
        to->dst = job->packet + job->cipher_start;
        to->cipher_start_src_offset_in_bytes = job->cipher_start;
        to->msg_len_to_cipher_in_bytes = job->cipher_len;
        to->hash_start_src_offset_in_bytes = job->auth_start;
        to->msg_len_to_hash_in_bytes = job->auth_len;
        to->iv = job->nonce;
        to->iv_len_in_bytes = job->nonce_len;
        to->auth_tag_output = job->tag;
        to->auth_tag_output_len_in_bytes = key->tag_len;
        to->u.HMAC._hashed_auth_key_xor_ipad = key->ipad;
        to->u.HMAC._hashed_auth_key_xor_opad = key->opad;
        to->user_data = job;
}

/* Whether a job meets all the library's requirements, so that it can be submitted without checks. The lengths of keys and the
 * pointers are right in any case. The library has 16-bit lengths, and reserves the highest value. */
static int is_plain_cbc(const struct convoy_mb_job *job)
{
        const uint32_t most = UINT16_MAX - 1;
        return job->key->cipher == C_CBC && job->key->hash != H_NONE && job->nonce_len == 16 && job->cipher_len > 0 &&
               job->cipher_len % 16 == 0 && job->cipher_len <= most && job->auth_len > 0 && job->auth_len <= most;
}

static void chained_one(IMB_MGR *mgr, struct convoy_mb_job *job)
{
        IMB_JOB *done;
        fill(IMB_GET_NEXT_JOB(mgr), job);
        finish(is_plain_cbc(job) ? IMB_SUBMIT_JOB_NOCHECK(mgr) : IMB_SUBMIT_JOB(mgr));
        while ((done = IMB_GET_COMPLETED_JOB(mgr)) != NULL)
                finish(done);
}

static void flush(IMB_MGR *mgr)
{
        IMB_JOB *done;
        while ((done = IMB_FLUSH_JOB(mgr)) != NULL)
                finish(done);
}

/* Burst sizes from which multi-buffer lanes are faster than SHA instructions. AVX2 computes eight SHA-1 in the time of one;
 * for SHA-256 it is always slower. AVX-512 has sixteen lanes; on a Xeon of family 6, model 167, both take the same time at
 * 4 to 6 packets with SHA-1 and at 8 to 11 with SHA-256. */
enum { AVX2_SHA1_LANES = 8, AVX512_SHA1_LANES = 5, AVX512_SHA256_LANES = 10 };

static IMB_MGR *manager_for(const struct convoy_mb *mb, const struct convoy_mb_key *key, size_t count)
{
        int is_sha1 = key->hash == H_SHA1;
        if (mb->sha == NULL || !(is_sha1 || key->hash == H_SHA256))
                return mb->best;
        if (mb->best->used_arch == IMB_ARCH_AVX512)
                return count < (is_sha1 ? AVX512_SHA1_LANES : AVX512_SHA256_LANES) ? mb->sha : mb->best;
        return is_sha1 && count >= AVX2_SHA1_LANES ? mb->best : mb->sha;
}

void convoy_mb_process(struct convoy_mb *mb, struct convoy_mb_job *jobs, size_t count)
{
        for (size_t i = 0; i < count; i++)
                chained_one(manager_for(mb, jobs[i].key, count), &jobs[i]);
        flush(mb->best);
        if (mb->sha != NULL)
                flush(mb->sha);
}

_Static_assert(offsetof(struct convoy_mb_key, gcm) == 0, "bound/aead.rs gives a key to the library's functions");
_Static_assert(offsetof(struct convoy_mb_key, raw) == 1040 - sizeof(((struct convoy_mb_key *)0)->raw),
               "bound/prefetch.rs reads a key up to here");

union context *convoy_mb_context(struct convoy_mb *mb) { return &mb->context; }

/* The library's imb_clear_mem takes some 30 cycles more. */
void convoy_mb_wipe(struct convoy_mb *mb) { explicit_bzero(&mb->context, sizeof mb->context); }

aes_gcm_enc_dec_t convoy_mb_gcm(const struct convoy_mb *mb, uint32_t key_len, uint32_t seal)
{
        const IMB_MGR *mgr = mb->best;
        switch (key_len) {
        case 16: return seal ? mgr->gcm128_enc : mgr->gcm128_dec;
        case 24: return seal ? mgr->gcm192_enc : mgr->gcm192_dec;
        default: return seal ? mgr->gcm256_enc : mgr->gcm256_dec;
        }
}

void convoy_mb_aead(struct convoy_mb *mb, struct convoy_mb_job *job) { aead_one(mb, job); }

/* The library's own speed, as a reference for benches: seals `count` packets as a plain C program would. Packets are `stride`
 * bytes apart, each with `len` bytes of payload behind `head` bytes, and the tag behind them. For AEADs, and AES with or
 * without a hash. */
void convoy_mb_floor(struct convoy_mb *mb, const struct convoy_mb_key *key, uint8_t *memory, size_t stride, size_t count,
                     uint32_t head, uint32_t len)
{
        static const uint8_t nonce[16];
        if (key->cipher == C_GCM && key->key_len == 16) {
                struct gcm_context_data context;
                for (size_t i = 0; i < count; i++) {
                        uint8_t *body = memory + i * stride + head;
                        IMB_AES128_GCM_ENC(mb->best, &key->gcm, &context, body, body, len, nonce, nonce, 8, body + len,
                                           16);
                }
                return;
        }
        if (is_aead(key->cipher)) {
                union context context;
                struct convoy_mb_job job = {
                        .key = key, .nonce = nonce, .aad = nonce, .cipher_start = head, .nonce_len = 12, .aad_len = 8,
                        .seal = 1, .cipher = key->cipher, .key_len = key->key_len, .tag_len = key->tag_len,
                };
                if (key->cipher == C_GMAC)
                        job.auth_len = head + len;
                else
                        job.cipher_len = len;
                for (size_t i = 0; i < count; i++) {
                        job.packet = memory + i * stride;
                        aead(mb, &context, &job, job.packet + head + len);
                }
                return;
        }
        IMB_MGR *mgr = manager_for(mb, key, count);
        for (size_t i = 0; i < count; i++) {
                uint8_t *packet = memory + i * stride;
                IMB_JOB *job = IMB_GET_NEXT_JOB(mgr);
                job->cipher_mode = cipher_mode(key->cipher);
                job->cipher_direction = IMB_DIR_ENCRYPT;
                job->chain_order = IMB_ORDER_CIPHER_HASH;
                job->hash_alg = hash_alg(key->hash);
                job->enc_keys = key->enc;
                job->dec_keys = key->dec;
                job->key_len_in_bytes = key->key_len;
                job->src = packet;
                job->dst = packet + head;
                job->cipher_start_src_offset_in_bytes = head;
                job->msg_len_to_cipher_in_bytes = len;
                job->hash_start_src_offset_in_bytes = 0;
                job->msg_len_to_hash_in_bytes = head + len;
                job->iv = nonce;
                job->iv_len_in_bytes = 16;
                job->auth_tag_output = packet + head + len;
                job->auth_tag_output_len_in_bytes = key->tag_len;
                job->u.HMAC._hashed_auth_key_xor_ipad = key->ipad;
                job->u.HMAC._hashed_auth_key_xor_opad = key->opad;
                IMB_SUBMIT_JOB(mgr);
                while (IMB_GET_COMPLETED_JOB(mgr) != NULL)
                        ;
        }
        while (IMB_FLUSH_JOB(mgr) != NULL)
                ;
}
