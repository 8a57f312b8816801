/* A flat interface over ipsec-mb, so that the layout of its structures comes from its own header.
 *
 * One call does a burst of packets of one key, from the first to the last: AEADs by the direct functions, which on
 * one core are faster than jobs; ciphers with a hash by jobs, which fill the lanes of the multi-buffer code. */

#include <intel-ipsec-mb.h>
#include <stdlib.h>
#include <string.h>

enum cipher { C_NULL, C_GCM, C_GMAC, C_CHACHA, C_CBC, C_CTR, C_3DES, C_DES };
enum hash { H_NONE, H_MD5, H_SHA1, H_SHA256, H_SHA384, H_SHA512 };

/* Mirrors RawJob in lib.rs. */
struct convoy_mb_job {
        uint8_t *packet;
        uint32_t cipher_start, cipher_len;
        uint32_t auth_start, auth_len;
        uint8_t nonce[16];
        uint8_t aad[12];
        uint8_t nonce_len, aad_len, is_done, reserved;
        uint8_t tag[64];
};

struct convoy_mb_key {
        struct gcm_key_data gcm;
        DECLARE_ALIGNED(uint8_t enc[16 * 15], 16);
        DECLARE_ALIGNED(uint8_t dec[16 * 15], 16);
        DECLARE_ALIGNED(uint64_t des[3][IMB_DES_KEY_SCHED_SIZE / 8], 16);
        DECLARE_ALIGNED(uint8_t ipad[64], 16);
        DECLARE_ALIGNED(uint8_t opad[64], 16);
        uint8_t raw[32];
        const void *des_pointers[3];
        uint32_t cipher, hash, key_len, tag_len;
};

IMB_MGR *convoy_mb_new(void)
{
        IMB_MGR *mgr = alloc_mb_mgr(0);
        if (mgr == NULL)
                return NULL;
        IMB_ARCH arch;
        init_mb_mgr_auto(mgr, &arch);
        if (imb_get_errno(mgr) != 0 || !(mgr->features & IMB_FEATURE_SELF_TEST_PASS)) {
                free_mb_mgr(mgr);
                return NULL;
        }
        return mgr;
}

void convoy_mb_free(IMB_MGR *mgr) { free_mb_mgr(mgr); }

const char *convoy_mb_built_version(void) { return IMB_VERSION_STR; }

const char *convoy_mb_version(void) { return imb_get_version_str(); }

uint32_t convoy_mb_arch(const IMB_MGR *mgr) { return mgr->used_arch; }

static void one_block(IMB_MGR *mgr, uint32_t hash, const uint8_t *block, uint8_t *digest)
{
        switch (hash) {
        case H_MD5: IMB_MD5_ONE_BLOCK(mgr, block, digest); break;
        case H_SHA1: IMB_SHA1_ONE_BLOCK(mgr, block, digest); break;
        case H_SHA256: IMB_SHA256_ONE_BLOCK(mgr, block, digest); break;
        case H_SHA384: IMB_SHA384_ONE_BLOCK(mgr, block, digest); break;
        default: IMB_SHA512_ONE_BLOCK(mgr, block, digest); break;
        }
}

/* RFC 2104: the states after the first block of either hash. No key here is longer than a block. */
static void hmac_states(IMB_MGR *mgr, struct convoy_mb_key *key, const uint8_t *auth, uint32_t len)
{
        uint8_t block[128];
        uint8_t pads[2] = { 0x36, 0x5c };
        uint8_t *states[2] = { key->ipad, key->opad };
        size_t size = key->hash >= H_SHA384 ? 128 : 64;
        for (int which = 0; which < 2; which++) {
                memset(block, pads[which], size);
                for (uint32_t i = 0; i < len; i++)
                        block[i] ^= auth[i];
                one_block(mgr, key->hash, block, states[which]);
        }
        imb_clear_mem(block, sizeof block);
}

static void expand_cipher(IMB_MGR *mgr, struct convoy_mb_key *key, const uint8_t *bytes)
{
        switch (key->cipher) {
        case C_GCM:
        case C_GMAC:
                if (key->key_len == 16)
                        IMB_AES128_GCM_PRE(mgr, bytes, &key->gcm);
                else if (key->key_len == 24)
                        IMB_AES192_GCM_PRE(mgr, bytes, &key->gcm);
                else
                        IMB_AES256_GCM_PRE(mgr, bytes, &key->gcm);
                break;
        case C_CBC:
        case C_CTR:
                if (key->key_len == 16)
                        IMB_AES_KEYEXP_128(mgr, bytes, key->enc, key->dec);
                else if (key->key_len == 24)
                        IMB_AES_KEYEXP_192(mgr, bytes, key->enc, key->dec);
                else
                        IMB_AES_KEYEXP_256(mgr, bytes, key->enc, key->dec);
                break;
        case C_3DES:
        case C_DES:
                for (uint32_t i = 0; i < key->key_len / 8; i++) {
                        IMB_DES_KEYSCHED(mgr, key->des[i], bytes + 8 * i);
                        key->des_pointers[i] = key->des[i];
                }
                break;
        default:
                memcpy(key->raw, bytes, key->key_len);
        }
}

struct convoy_mb_key *convoy_mb_key_new(IMB_MGR *mgr, uint32_t cipher, uint32_t hash, uint32_t tag_len,
                                        const uint8_t *bytes, uint32_t len, const uint8_t *auth, uint32_t auth_len)
{
        struct convoy_mb_key *key;
        if (len > sizeof key->raw || auth_len > 64 || tag_len > 64)
                return NULL;
        if (posix_memalign((void **)&key, 64, sizeof *key) != 0)
                return NULL;
        memset(key, 0, sizeof *key);
        key->cipher = cipher;
        key->hash = hash;
        key->key_len = len;
        key->tag_len = tag_len;
        expand_cipher(mgr, key, bytes);
        if (hash != H_NONE)
                hmac_states(mgr, key, auth, auth_len);
        return key;
}

void convoy_mb_key_free(struct convoy_mb_key *key)
{
        imb_clear_mem(key, sizeof *key);
        free(key);
}

static void gcm(IMB_MGR *mgr, struct convoy_mb_key *key, int seal, struct convoy_mb_job *job)
{
        struct gcm_context_data context;
        uint8_t *body = job->packet + job->cipher_start;
#define CALL(op) op(mgr, &key->gcm, &context, body, body, job->cipher_len, job->nonce, job->aad, job->aad_len, \
                    job->tag, key->tag_len)
        if (key->key_len == 16)
                seal ? CALL(IMB_AES128_GCM_ENC) : CALL(IMB_AES128_GCM_DEC);
        else if (key->key_len == 24)
                seal ? CALL(IMB_AES192_GCM_ENC) : CALL(IMB_AES192_GCM_DEC);
        else
                seal ? CALL(IMB_AES256_GCM_ENC) : CALL(IMB_AES256_GCM_DEC);
#undef CALL
        imb_clear_mem(&context, sizeof context);
}

static void gmac(IMB_MGR *mgr, struct convoy_mb_key *key, struct convoy_mb_job *job)
{
        struct gcm_context_data context;
        const uint8_t *data = job->packet + job->auth_start;
#define RUN(bits)                                                                                   \
        do {                                                                                        \
                IMB_AES##bits##_GMAC_INIT(mgr, &key->gcm, &context, job->nonce, job->nonce_len);    \
                IMB_AES##bits##_GMAC_UPDATE(mgr, &key->gcm, &context, job->aad, job->aad_len);      \
                IMB_AES##bits##_GMAC_UPDATE(mgr, &key->gcm, &context, data, job->auth_len);         \
                IMB_AES##bits##_GMAC_FINALIZE(mgr, &key->gcm, &context, job->tag, key->tag_len);    \
        } while (0)
        if (key->key_len == 16)
                RUN(128);
        else if (key->key_len == 24)
                RUN(192);
        else
                RUN(256);
#undef RUN
        imb_clear_mem(&context, sizeof context);
}

static void chacha(IMB_MGR *mgr, struct convoy_mb_key *key, int seal, struct convoy_mb_job *job)
{
        struct chacha20_poly1305_context_data context;
        uint8_t *body = job->packet + job->cipher_start;
        IMB_CHACHA20_POLY1305_INIT(mgr, key->raw, &context, job->nonce, job->aad, job->aad_len);
        if (seal) {
                IMB_CHACHA20_POLY1305_ENC_UPDATE(mgr, key->raw, &context, body, body, job->cipher_len);
                IMB_CHACHA20_POLY1305_ENC_FINALIZE(mgr, &context, job->tag, key->tag_len);
        } else {
                IMB_CHACHA20_POLY1305_DEC_UPDATE(mgr, key->raw, &context, body, body, job->cipher_len);
                IMB_CHACHA20_POLY1305_DEC_FINALIZE(mgr, &context, job->tag, key->tag_len);
        }
        imb_clear_mem(&context, sizeof context);
}

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
                ((struct convoy_mb_job *)done->user_data)->is_done = done->status == IMB_STATUS_COMPLETED;
}

static void fill(IMB_JOB *to, struct convoy_mb_key *key, int seal, struct convoy_mb_job *job)
{
        to->cipher_mode = cipher_mode(key->cipher);
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

static void chained(IMB_MGR *mgr, struct convoy_mb_key *key, int seal, struct convoy_mb_job *jobs, size_t count)
{
        IMB_JOB *done;
        for (size_t i = 0; i < count; i++) {
                fill(IMB_GET_NEXT_JOB(mgr), key, seal, &jobs[i]);
                finish(IMB_SUBMIT_JOB(mgr));
                while ((done = IMB_GET_COMPLETED_JOB(mgr)) != NULL)
                        finish(done);
        }
        while ((done = IMB_FLUSH_JOB(mgr)) != NULL)
                finish(done);
}

void convoy_mb_process(IMB_MGR *mgr, struct convoy_mb_key *key, int seal, struct convoy_mb_job *jobs, size_t count)
{
        if (key->cipher != C_GCM && key->cipher != C_GMAC && key->cipher != C_CHACHA) {
                chained(mgr, key, seal, jobs, count);
                return;
        }
        for (size_t i = 0; i < count; i++) {
                if (key->cipher == C_GCM)
                        gcm(mgr, key, seal, &jobs[i]);
                else if (key->cipher == C_GMAC)
                        gmac(mgr, key, &jobs[i]);
                else
                        chacha(mgr, key, seal, &jobs[i]);
                jobs[i].is_done = 1;
        }
}
