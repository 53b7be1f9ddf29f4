/* SPDX-License-Identifier: MIT
 *
 * TLS with OpenSSL. The peer is verified, by name, unless the URL says insecure=1. The library's own
 * socket BIO would raise SIGPIPE, so ours goes over conn.c.
 */
#include "engine/redis/tls.h"

#include "base/error.h"

#ifdef EMQ_HAVE_TLS

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <string.h>

enum { RECORD_MAX = 16384 };

struct rd_tls {
    SSL_CTX *ctx;
    BIO_METHOD *method;
};

struct rd_tls_end {
    SSL *ssl;
    int fd;
    int native;             /* errno of the socket's last failure */
    char stage[RECORD_MAX]; /* the pieces of one record */
};

/* ---- the socket as a BIO --------------------------------------------------------------------- */

static int moved(BIO *bio, struct rd_tls_end *t, ssize_t n, int retry)
{
    BIO_clear_retry_flags(bio);
    if (n >= 0)
        return (int)n;
    if (errno == EAGAIN || errno == EINTR)
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    else
        t->native = errno;
    return -1;
}

static int bio_write(BIO *bio, const char *buf, int n)
{
    struct rd_tls_end *t = BIO_get_data(bio);

    return moved(bio, t, rd_socket_send(t->fd, buf, (size_t)n), BIO_FLAGS_WRITE);
}

static int bio_read(BIO *bio, char *buf, int n)
{
    struct rd_tls_end *t = BIO_get_data(bio);

    return moved(bio, t, rd_socket_recv(t->fd, buf, (size_t)n), BIO_FLAGS_READ);
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    (void)bio, (void)num, (void)ptr;
    return cmd == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *new_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "echomq");

    if (m) {
        BIO_meth_set_write(m, bio_write);
        BIO_meth_set_read(m, bio_read);
        BIO_meth_set_ctrl(m, bio_ctrl);
    }
    return m;
}

/* ---- settings -------------------------------------------------------------------------------- */

static const char *reason(char *out, size_t cap)
{
    unsigned long code = ERR_peek_last_error();

    ERR_error_string_n(code, out, cap);
    const char *text = ERR_reason_error_string(code);
    if (text)
        (void)snprintf(out, cap, "%s", text);
    ERR_clear_error();
    return out;
}

static emq_status bad_file(const char *param, emq_str file, emq_error *err)
{
    char why[160];

    return emq__fail(err, EMQ_E_INVALID, 0, "open", "?%s=%.*s can't be used: %s", param,
                     EMQ_STR_ARG(file), reason(why, sizeof why));
}

static emq_status configure(SSL_CTX *ctx, const struct rd_tls_config *cfg, emq_error *err)
{
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(ctx, cfg->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    /* The strings of a URL have a NUL behind them. */
    if (cfg->ca.len > 0 ? SSL_CTX_load_verify_file(ctx, cfg->ca.ptr) != 1
                        : SSL_CTX_set_default_verify_paths(ctx) != 1)
        return bad_file("ca", cfg->ca, err);
    if (cfg->cert.len > 0 && SSL_CTX_use_certificate_chain_file(ctx, cfg->cert.ptr) != 1)
        return bad_file("cert", cfg->cert, err);
    if (cfg->key.len > 0 &&
        (SSL_CTX_use_PrivateKey_file(ctx, cfg->key.ptr, SSL_FILETYPE_PEM) != 1 ||
         SSL_CTX_check_private_key(ctx) != 1))
        return bad_file("key", cfg->key, err);
    return EMQ_OK;
}

emq_status rd_tls_new(struct rd_tls **out, const struct rd_tls_config *cfg, emq_error *err)
{
    struct rd_tls *tls = calloc(1, sizeof *tls);
    emq_status s;

    if (tls) {
        tls->ctx = SSL_CTX_new(TLS_client_method());
        tls->method = new_method();
    }
    if (!tls || !tls->ctx || !tls->method)
        s = emq__fail(err, EMQ_E_NOMEM, 0, "open", "no memory for TLS");
    else
        s = configure(tls->ctx, cfg, err);
    if (s == EMQ_OK)
        *out = tls;
    else
        rd_tls_free(tls);
    return s;
}

void rd_tls_free(struct rd_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->method);
    free(tls);
}

/* ---- one connection -------------------------------------------------------------------------- */

/* A certificate names hosts or addresses, and only names are told to the server. */
static bool expect(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    union { /* OpenSSL copies it */
        const char *in;
        char *out;
    } name = {.in = host};

    if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1)
        return true;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, name.out) == 1;
}

struct rd_tls_end *rd_tls_end_new(struct rd_tls *tls, int fd, const char *host)
{
    struct rd_tls_end *t = calloc(1, sizeof *t);
    BIO *bio = t ? BIO_new(tls->method) : NULL;

    if (!bio) {
        free(t);
        return NULL;
    }
    t->fd = fd;
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    t->ssl = SSL_new(tls->ctx);
    if (!t->ssl) {
        BIO_free(bio);
        free(t);
        return NULL;
    }
    SSL_set_bio(t->ssl, bio, bio);
    SSL_set_connect_state(t->ssl);
    if (!expect(t->ssl, host)) {
        rd_tls_end_free(t);
        return NULL;
    }
    return t;
}

void rd_tls_end_free(struct rd_tls_end *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    free(t);
}

/* What a call that did not succeed means. */
static enum rd_io outcome(struct rd_tls_end *t, int rc, short *wants, struct rd_why *why)
{
    char text[160];

    switch (SSL_get_error(t->ssl, rc)) {
    case SSL_ERROR_WANT_READ: *wants = POLLIN; return RD_IO_AGAIN;
    case SSL_ERROR_WANT_WRITE: *wants = POLLOUT; return RD_IO_AGAIN;
    case SSL_ERROR_ZERO_RETURN: return RD_IO_END;
    }
    long verify = SSL_get_verify_result(t->ssl);
    if (t->native != 0)
        rd_why_set(why, t->native, "%s", strerrordesc_np(t->native));
    else if (verify != X509_V_OK && SSL_get_verify_mode(t->ssl) != SSL_VERIFY_NONE)
        rd_why_set(why, 0, "the server's certificate is not trusted: %s",
                   X509_verify_cert_error_string(verify));
    else if (ERR_peek_last_error() == 0 ||
             ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        ERR_clear_error();
        return RD_IO_END;
    } else
        rd_why_set(why, 0, "TLS: %s", reason(text, sizeof text));
    ERR_clear_error();
    return RD_IO_FAILED;
}

enum rd_io rd_tls_shake(struct rd_tls_end *t, short *wants, struct rd_why *why)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(t->ssl);

    return rc == 1 ? RD_IO_OK : outcome(t, rc, wants, why);
}

enum rd_io rd_tls_write(struct rd_tls_end *t, const struct iovec *iov, int n_iov, size_t *n,
                        short *wants, struct rd_why *why)
{
    const void *data = iov[0].iov_base;
    size_t len = 0;

    /* After AGAIN the same record must be offered again: it is, since the caller has not gone on. */
    if (n_iov == 1 || iov[0].iov_len >= RECORD_MAX) {
        len = iov[0].iov_len < RECORD_MAX ? iov[0].iov_len : RECORD_MAX;
    } else {
        for (int i = 0; i < n_iov && len < RECORD_MAX; i++) {
            size_t part = iov[i].iov_len < RECORD_MAX - len ? iov[i].iov_len : RECORD_MAX - len;
            memcpy(t->stage + len, iov[i].iov_base, part);
            len += part;
        }
        data = t->stage;
    }
    ERR_clear_error(); /* also of the program's own use of the library */
    int rc = SSL_write_ex(t->ssl, data, len, n);
    return rc == 1 ? RD_IO_OK : outcome(t, rc, wants, why);
}

enum rd_io rd_tls_read(struct rd_tls_end *t, void *buf, size_t cap, size_t *n, short *wants,
                       struct rd_why *why)
{
    ERR_clear_error();
    int rc = SSL_read_ex(t->ssl, buf, cap, n);

    return rc == 1 ? RD_IO_OK : outcome(t, rc, wants, why);
}

bool rd_tls_pending(const struct rd_tls_end *t)
{
    return SSL_pending(t->ssl) > 0;
}

#else /* built without TLS: rd_tls_new() is the only one that can be reached */

emq_status rd_tls_new(struct rd_tls **out, const struct rd_tls_config *cfg, emq_error *err)
{
    (void)out, (void)cfg;
    return emq__fail(err, EMQ_E_INVALID, 0, "open",
                     "this build has no TLS: use redis:, or build with -Dtls=enabled");
}

void rd_tls_free(struct rd_tls *tls)
{
    (void)tls;
}

struct rd_tls_end *rd_tls_end_new(struct rd_tls *tls, int fd, const char *host)
{
    (void)tls, (void)fd, (void)host;
    return NULL;
}

void rd_tls_end_free(struct rd_tls_end *t)
{
    (void)t;
}

enum rd_io rd_tls_shake(struct rd_tls_end *t, short *wants, struct rd_why *why)
{
    (void)t, (void)wants, (void)why;
    return RD_IO_FAILED;
}

enum rd_io rd_tls_write(struct rd_tls_end *t, const struct iovec *iov, int n_iov, size_t *n,
                        short *wants, struct rd_why *why)
{
    (void)t, (void)iov, (void)n_iov, (void)n, (void)wants, (void)why;
    return RD_IO_FAILED;
}

enum rd_io rd_tls_read(struct rd_tls_end *t, void *buf, size_t cap, size_t *n, short *wants,
                       struct rd_why *why)
{
    (void)t, (void)buf, (void)cap, (void)n, (void)wants, (void)why;
    return RD_IO_FAILED;
}

bool rd_tls_pending(const struct rd_tls_end *t)
{
    (void)t;
    return false;
}

#endif
