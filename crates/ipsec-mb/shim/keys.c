/* Key expansion, done once for each SA. */

#include "shim.h"

#include <stdlib.h>
#include <string.h>

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

/* RFC 2104: the states of the inner and outer hash after their first block. No key here is longer than a block. */
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

/* Expanded AEAD keys only fit the `best` manager; key schedules and hash states fit all. */
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
