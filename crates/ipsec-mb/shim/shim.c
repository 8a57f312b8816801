/* A flat interface over ipsec-mb, so that the layout of its structures comes from its own header.
 *
 * One call does a burst of packets, each under its own key: AES-GCM and AES-GMAC by the direct functions, which on
 * one core are faster than jobs, and ChaCha20-Poly1305 by jobs, where it is the other way round; ciphers with a hash by jobs, which fill the lanes of the multi-buffer code, whatever
 * their keys: lanes are flushed once, at the end. The
 * library's burst interface takes 5 % less at 64 bytes and no less from 512 on, but refuses all for one bad job and
 * wants a session per job since 1.4. */

#include <intel-ipsec-mb.h>
#include <stdlib.h>
#include <string.h>

enum cipher { C_NULL, C_GCM, C_GMAC, C_CHACHA, C_CBC, C_CTR, C_3DES, C_DES };
enum hash { H_NONE, H_MD5, H_SHA1, H_SHA256, H_SHA384, H_SHA512 };

/* Mirrors Descriptor in lib.rs. */
struct convoy_mb_job {
        uint8_t *packet;
        const struct convoy_mb_key *key;
        const uint8_t *nonce; /* 16 bytes can be read */
        const uint8_t *aad;   /* 12 bytes can be read */
        uint8_t *tag;         /* AEADs: the packet's own, written or compared; else where the tag goes */
        uint32_t cipher_start, cipher_len;
        uint32_t auth_start, auth_len;
        uint8_t nonce_len, aad_len, state, seal;
        uint8_t cipher, key_len, tag_len, unused; /* as in `key`, whose own line then is not read */
};

enum state { S_REFUSED, S_DONE, S_MISMATCH };

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

struct convoy_mb {
        IMB_MGR *best;  /* as the library chose for this processor */
        IMB_MGR *chacha; /* as `best`; nothing but ChaCha20-Poly1305 is in it, so that a job is done when it is submitted */
        IMB_MGR *sha;   /* hashes by the processor's SHA instructions where `best` does not; else NULL */
};

/* Hashes by SHA instructions do a packet at a time, which few packets finish sooner than lanes that are mostly empty. The
 * AVX-512 code hashes in lanes alone, and so does the AVX2 code where it needs more than SHA instructions to use them
 * (GFNI, in AMD's Zen 3 absent). Elsewhere, and where there are no SHA instructions, `best` does all. */
static int wants_sha_manager(const IMB_MGR *best)
{
        if (!(best->features & IMB_FEATURE_SHANI))
                return 0;
        if (best->used_arch == IMB_ARCH_AVX512)
                return 1;
        if (best->used_arch != IMB_ARCH_AVX2)
                return 0;
#ifdef IMB_CPUFLAGS_AVX2_T2
        return (best->features & IMB_CPUFLAGS_AVX2_T2) != IMB_CPUFLAGS_AVX2_T2;
#else
        return 1;
#endif
}

static int is_ready(IMB_MGR *mgr, const char **why)
{
        if (imb_get_errno(mgr) != 0)
                *why = imb_get_strerror(imb_get_errno(mgr));
        else if (!(mgr->features & IMB_FEATURE_SELF_TEST_PASS))
                *why = "its self-test failed";
        else
                return 1;
        return 0;
}

void convoy_mb_free(struct convoy_mb *mb)
{
        if (mb->best != NULL)
                free_mb_mgr(mb->best);
        if (mb->chacha != NULL)
                free_mb_mgr(mb->chacha);
        if (mb->sha != NULL)
                free_mb_mgr(mb->sha);
        free(mb);
}

/* NULL where the library does not work here; `why` then says why. */
struct convoy_mb *convoy_mb_new(const char **why)
{
        struct convoy_mb *mb = calloc(1, sizeof *mb);
        *why = "no memory";
        if (mb == NULL)
                return NULL;
        mb->best = alloc_mb_mgr(0);
        if (mb->best == NULL)
                goto failed;
        init_mb_mgr_auto(mb->best, NULL);
        if (!is_ready(mb->best, why))
                goto failed;
        mb->chacha = alloc_mb_mgr(0);
        if (mb->chacha == NULL)
                goto failed;
        init_mb_mgr_auto(mb->chacha, NULL);
        if (!is_ready(mb->chacha, why))
                goto failed;
        if (wants_sha_manager(mb->best)) {
                mb->sha = alloc_mb_mgr(0);
                if (mb->sha == NULL)
                        goto failed;
                init_mb_mgr_sse(mb->sha);
                if (!is_ready(mb->sha, why))
                        goto failed;
        }
        return mb;
failed:
        convoy_mb_free(mb);
        return NULL;
}

const char *convoy_mb_built_version(void) { return IMB_VERSION_STR; }

const char *convoy_mb_version(void) { return imb_get_version_str(); }

/* Names, as the numbers differ from version to version. */
const char *convoy_mb_arch(const struct convoy_mb *mb)
{
        switch (mb->best->used_arch) {
        case IMB_ARCH_SSE: return "SSE";
        case IMB_ARCH_AVX2: return mb->sha != NULL ? "AVX2, SHA by SHA-NI" : "AVX2";
        case IMB_ARCH_AVX512: return mb->sha != NULL ? "AVX-512, few by SHA-NI" : "AVX-512";
        default: return "of another kind";
        }
}

/* Ciphers of DES have vector code for AVX-512 alone; elsewhere a block at a time goes through C, which on
 * an AMD EPYC takes 20 times as long as RustCrypto. */
int convoy_mb_has_vector_des(const struct convoy_mb *mb) { return mb->best->used_arch == IMB_ARCH_AVX512; }

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

/* What AEADs expand is for `best` alone; key schedules and hash states are the same everywhere. */
struct convoy_mb_key *convoy_mb_key_new(struct convoy_mb *mb, uint32_t cipher, uint32_t hash, uint32_t tag_len,
                                        const uint8_t *bytes, uint32_t len, const uint8_t *auth, uint32_t auth_len)
{
        struct convoy_mb_key *key;
        if (posix_memalign((void **)&key, 64, sizeof *key) != 0)
                return NULL;
        memset(key, 0, sizeof *key);
        key->cipher = cipher;
        key->hash = hash;
        key->key_len = len;
        key->tag_len = tag_len;
        expand_cipher(mb->best, key, bytes);
        if (hash != H_NONE)
                hmac_states(mb->best, key, auth, auth_len);
        return key;
}

void convoy_mb_key_free(struct convoy_mb_key *key)
{
        imb_clear_mem(key, sizeof *key);
        free(key);
}

union context {
        struct gcm_context_data gcm;
        struct chacha20_poly1305_context_data chacha;
};

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

/* By one job, which takes 300 cycles less than the direct functions; 0 where the library refuses it. */
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

/* In constant time. Tags are of 8, 12 or 16 bytes: whole words. */
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

/* `tag` is room for one. */
static void aead_one(struct convoy_mb *mb, union context *context, struct convoy_mb_job *job, uint8_t *tag)
{
        if (job->seal) {
                aead(mb, context, job, job->tag);
                job->state = S_DONE;
        } else {
                aead(mb, context, job, tag);
                job->state = is_equal(tag, job->tag, job->tag_len) ? S_DONE : S_MISMATCH;
        }
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
                ((struct convoy_mb_job *)done->user_data)->state =
                        done->status == IMB_STATUS_COMPLETED ? S_DONE : S_REFUSED;
}

static void fill(IMB_JOB *to, struct convoy_mb_job *job)
{
        const struct convoy_mb_key *key = job->key;
        int seal = job->seal;
        /* The library refuses to cipher nothing. */
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

static void chained_one(IMB_MGR *mgr, struct convoy_mb_job *job)
{
        IMB_JOB *done;
        fill(IMB_GET_NEXT_JOB(mgr), job);
        finish(IMB_SUBMIT_JOB(mgr));
        while ((done = IMB_GET_COMPLETED_JOB(mgr)) != NULL)
                finish(done);
}

static void flush(IMB_MGR *mgr)
{
        IMB_JOB *done;
        while ((done = IMB_FLUSH_JOB(mgr)) != NULL)
                finish(done);
}

static int is_aead(uint32_t cipher)
{
        return cipher == C_GCM || cipher == C_GMAC || cipher == C_CHACHA;
}

/* Packets from which lanes are the faster. AVX2 hashes eight by SHA-1 in the time of one, and by SHA-256 it never gets
 * there; AVX-512 hashes sixteen, and on a Xeon of family 6, model 167, is level at 4 to 6 by SHA-1 and at 8 to 11 by SHA-256. */
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

/* With many SAs keys come from far: what a short packet by AES-GCM reads first is fetched some packets ahead. */
enum { AHEAD = 3, KEY_LINES = 4 };

static void prefetch_key(const struct convoy_mb_key *key)
{
        for (int line = 0; line < KEY_LINES; line++)
                __builtin_prefetch((const uint8_t *)key + 64 * line);
}

void convoy_mb_process(struct convoy_mb *mb, struct convoy_mb_job *jobs, size_t count)
{
        union context context;
        uint8_t tag[16];
        size_t aeads = 0;
        for (size_t i = 0; i < count; i++) {
                if (is_aead(jobs[i].cipher)) {
                        if (i + AHEAD < count)
                                prefetch_key(jobs[i + AHEAD].key);
                        aead_one(mb, &context, &jobs[i], tag);
                        aeads++;
                } else {
                        chained_one(manager_for(mb, jobs[i].key, count), &jobs[i]);
                }
        }
        /* The context holds keystream, so it is wiped, once a burst. */
        if (aeads > 0)
                imb_clear_mem(&context, sizeof context);
        if (aeads < count) {
                flush(mb->best);
                if (mb->sha != NULL)
                        flush(mb->sha);
        }
}

/* The library alone, for benches to hold us against: seals `count` packets, `stride` bytes apart, of `len` bytes behind
 * `head`, the tag behind them, as a C program would that has nothing else to do. AEADs and AES with or without a hash. */
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
