#include "base/tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace muster::base {
namespace {

constexpr long kBackdateSeconds = 2L * 24 * 3600;
constexpr long kValiditySeconds = 30L * 24 * 3600;
constexpr std::size_t kReadBuffer = 64 * 1024;
// A new key well before AES-GCM's limit of 2^24.5 records.
constexpr std::uint64_t kBytesPerKey = std::uint64_t{1} << 36;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using X509Ptr = std::unique_ptr<X509, Deleter<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Deleter<GENERAL_NAMES_free>>;

// A host's openssl.cnf and OPENSSL_CONF must not reach into our connections.
void initialise() {
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

// The newest reason in OpenSSL's queue, which is emptied.
std::string take_reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("error {:#x}", code);
}

Status openssl_error(std::string_view what) {
  return error(Code::kInternal, "{}: {}", what, take_reason());
}

Result<std::string> bio_text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  if (size <= 0) return openssl_error("write PEM");
  return std::string(data, static_cast<std::size_t>(size));
}

Result<std::string> certificate_pem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1) return openssl_error("write certificate");
  return bio_text(bio.get());
}

Result<std::string> key_pem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_secmem()));  // wiped when freed
  if (!bio || PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_error("write private key");
  }
  return bio_text(bio.get());
}

X509Ptr parse_certificate(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return X509Ptr(bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr) : nullptr);
}

KeyPtr parse_key(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return KeyPtr(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr) : nullptr);
}

Status add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return openssl_error(fmt::format("certificate extension {}", value));
  }
  return ok_status();
}

// Serial, validity, subject and key: what authority and leaves have in common. Ends with issuer unset and unsigned.
Result<X509Ptr> new_certificate(const std::string& common_name, EVP_PKEY* key) {
  X509Ptr certificate(X509_new());
  std::uint64_t serial = 0;
  if (getentropy(&serial, sizeof serial) != 0) return errno_error(errno, "random serial number");
  const std::time_t now = std::time(nullptr);
  const bool done = certificate && X509_set_version(certificate.get(), 2) == 1 &&
                    ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1) == 1 &&
                    ASN1_TIME_set(X509_getm_notBefore(certificate.get()), now - kBackdateSeconds) != nullptr &&
                    ASN1_TIME_set(X509_getm_notAfter(certificate.get()), now + kValiditySeconds) != nullptr &&
                    X509_set_pubkey(certificate.get(), key) == 1 &&
                    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                               reinterpret_cast<const unsigned char*>(common_name.data()),
                                               static_cast<int>(common_name.size()), -1, 0) == 1;
  if (!done) return openssl_error(fmt::format("make certificate for '{}'", common_name));
  return certificate;
}

// One "KIND:value" as a GENERAL_NAME appended to `names`. Not by a configuration string, so that no value can add
// names.
Status append_name(GENERAL_NAMES* names, std::string_view entry) {
  const std::size_t colon = entry.find(':');
  const std::string_view kind = entry.substr(0, colon);
  const std::string value(colon == std::string_view::npos ? "" : entry.substr(colon + 1));
  const bool is_clean = std::none_of(value.begin(), value.end(), [](unsigned char c) { return c < 0x21 || c > 0x7e; });
  std::unique_ptr<GENERAL_NAME, Deleter<GENERAL_NAME_free>> name(GENERAL_NAME_new());
  if (kind == "IP") {
    ASN1_OCTET_STRING* address = a2i_IPADDRESS(value.c_str());
    if (address == nullptr) return error(Code::kInvalidArgument, "certificate name '{}' is not an address", entry);
    GENERAL_NAME_set0_value(name.get(), GEN_IPADD, address);
  } else if ((kind == "URI" || kind == "DNS") && is_clean && !value.empty()) {
    ASN1_IA5STRING* text = ASN1_IA5STRING_new();
    ASN1_STRING_set(text, value.data(), static_cast<int>(value.size()));
    GENERAL_NAME_set0_value(name.get(), kind == "URI" ? GEN_URI : GEN_DNS, text);
  } else {
    return error(Code::kInvalidArgument, "certificate name '{}' is not URI:…, DNS:… or IP:…", entry);
  }
  if (sk_GENERAL_NAME_push(names, name.get()) <= 0) return openssl_error("certificate names");
  (void)name.release();  // owned by `names` now
  return ok_status();
}

Status add_names(X509* certificate, const std::vector<std::string>& entries) {
  if (entries.empty()) return ok_status();
  const NamesPtr names(sk_GENERAL_NAME_new_null());
  for (const std::string& entry : entries) MUSTER_RETURN_IF_ERROR(append_name(names.get(), entry));
  if (X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) != 1) {
    return openssl_error("certificate names");
  }
  return ok_status();
}

Status configure(SSL_CTX* context, const std::string& ca_pem, const TlsIdentity& identity) {
  const X509Ptr authority = parse_certificate(ca_pem);
  const X509Ptr certificate = parse_certificate(identity.cert_pem);
  const KeyPtr key = parse_key(identity.key_pem);
  if (!authority || !certificate || !key) return openssl_error("read certificate or key for TLS");
  const bool done = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(
                        context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
                    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1 &&
                    SSL_CTX_use_certificate(context, certificate.get()) == 1 &&
                    SSL_CTX_use_PrivateKey(context, key.get()) == 1 && SSL_CTX_check_private_key(context) == 1 &&
                    SSL_CTX_set_num_tickets(context, 0) == 1;
  if (!done) return openssl_error("set up TLS");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadBuffer);
  return ok_status();
}

}  // namespace

CertificateAuthority::CertificateAuthority(std::shared_ptr<X509> certificate, std::shared_ptr<EVP_PKEY> key,
                                           std::string pem)
    : certificate_(std::move(certificate)), key_(std::move(key)), pem_(std::move(pem)) {}

Result<CertificateAuthority> CertificateAuthority::create() {
  initialise();
  KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("make the authority's key");
  MUSTER_ASSIGN_OR_RETURN(X509Ptr certificate, new_certificate("muster job authority", key.get()));
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  X509* const self = certificate.get();
  MUSTER_RETURN_IF_ERROR(add_extension(self, self, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  MUSTER_RETURN_IF_ERROR(add_extension(self, self, NID_key_usage, "critical,keyCertSign,cRLSign"));
  MUSTER_RETURN_IF_ERROR(add_extension(self, self, NID_subject_key_identifier, "hash"));
  if (X509_sign(self, key.get(), EVP_sha256()) <= 0) return openssl_error("sign the authority's certificate");
  MUSTER_ASSIGN_OR_RETURN(std::string pem, certificate_pem(self));
  return CertificateAuthority(std::move(certificate), std::move(key), std::move(pem));
}

Result<TlsIdentity> CertificateAuthority::issue(const std::string& common_name,
                                                const std::vector<std::string>& alternative_names) const {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error(fmt::format("make a key for '{}'", common_name));
  MUSTER_ASSIGN_OR_RETURN(const X509Ptr certificate, new_certificate(common_name, key.get()));
  X509* const leaf = certificate.get();
  X509_set_issuer_name(leaf, X509_get_subject_name(certificate_.get()));
  MUSTER_RETURN_IF_ERROR(add_extension(leaf, certificate_.get(), NID_basic_constraints, "critical,CA:FALSE"));
  MUSTER_RETURN_IF_ERROR(add_extension(leaf, certificate_.get(), NID_key_usage, "critical,digitalSignature"));
  MUSTER_RETURN_IF_ERROR(add_extension(leaf, certificate_.get(), NID_ext_key_usage, "serverAuth,clientAuth"));
  MUSTER_RETURN_IF_ERROR(add_extension(leaf, certificate_.get(), NID_authority_key_identifier, "keyid:always"));
  MUSTER_RETURN_IF_ERROR(add_names(leaf, alternative_names));
  if (X509_sign(leaf, key_.get(), EVP_sha256()) <= 0) {
    return openssl_error(fmt::format("sign the certificate of '{}'", common_name));
  }
  TlsIdentity identity;
  MUSTER_ASSIGN_OR_RETURN(identity.cert_pem, certificate_pem(leaf));
  MUSTER_ASSIGN_OR_RETURN(identity.key_pem, key_pem(key.get()));
  return identity;
}

TlsContext::TlsContext(std::shared_ptr<SSL_CTX> context, bool is_server)
    : context_(std::move(context)), is_server_(is_server) {}

Result<TlsContext> TlsContext::make(const std::string& ca_pem, const TlsIdentity& identity, bool is_server) {
  initialise();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()), SSL_CTX_free);
  if (!context) return openssl_error("set up TLS");
  MUSTER_RETURN_IF_ERROR(configure(context.get(), ca_pem, identity));
  return TlsContext(std::move(context), is_server);
}

Result<TlsContext> TlsContext::server(const std::string& ca_pem, const TlsIdentity& identity) {
  return make(ca_pem, identity, true);
}

Result<TlsContext> TlsContext::client(const std::string& ca_pem, const TlsIdentity& identity) {
  return make(ca_pem, identity, false);
}

// No TCP_USER_TIMEOUT: it also ends connections whose peer is alive but does not read, as when a console is blocked.
void tune_output_socket(int fd) {
  const auto set = [fd](int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value, sizeof value);  // a socketpair refuses, and needs none of it
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
}

TlsStream::TlsStream(const TlsContext& context, UniqueFd fd)
    : fd_(std::move(fd)), ssl_(SSL_new(context.context_.get()), SSL_free), is_server_(context.is_server()) {
  MUSTER_CHECK(ssl_ != nullptr);
  // A descriptor that cannot be made non-blocking is no socket: the handshake reports it.
  is_dead_ = !set_nonblocking(fd_.get(), true).ok() || SSL_set_fd(ssl_.get(), fd_.get()) != 1;
  if (is_server_) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
  }
}

TlsStream::~TlsStream() = default;
TlsStream::TlsStream(TlsStream&&) noexcept = default;
TlsStream& TlsStream::operator=(TlsStream&& other) noexcept {
  if (this != &other) {
    ssl_ = std::move(other.ssl_);  // before the fd that it uses
    fd_ = std::move(other.fd_);
    is_server_ = other.is_server_;
    is_established_ = other.is_established_;
    is_dead_ = other.is_dead_;
    written_ = other.written_;
  }
  return *this;
}

Result<TlsTransfer> TlsStream::outcome(int result, const char* what) {
  const int saved_errno = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return TlsTransfer{TlsProgress::kWantRead, 0};
    case SSL_ERROR_WANT_WRITE:
      return TlsTransfer{TlsProgress::kWantWrite, 0};
    case SSL_ERROR_ZERO_RETURN:
      return TlsTransfer{TlsProgress::kEof, 0};
    case SSL_ERROR_SYSCALL:
      is_dead_ = true;
      ERR_clear_error();
      if (saved_errno != 0) return errno_error(saved_errno, what).with_context("TLS");
      return error(Code::kUnavailable, "TLS {}: the connection was cut", what);
    default:
      break;
  }
  is_dead_ = true;
  const unsigned long code = ERR_peek_last_error();
  const bool was_cut = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  const std::string reason = take_reason();
  if (was_cut) return error(Code::kUnavailable, "TLS {}: the connection was cut", what);
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK) {
    return error(Code::kUnauthenticated, "TLS {}: the peer's certificate is refused: {}", what,
                 X509_verify_cert_error_string(verified));
  }
  return error(Code::kUnauthenticated, "TLS {}: {}", what, reason);
}

Result<TlsProgress> TlsStream::handshake_step() {
  if (is_dead_) return error(Code::kInternal, "TLS handshake: the connection has failed before");
  if (is_established_) return TlsProgress::kDone;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    is_established_ = true;
    return TlsProgress::kDone;
  }
  MUSTER_ASSIGN_OR_RETURN(const TlsTransfer transfer, outcome(result, "handshake"));
  if (transfer.progress == TlsProgress::kEof) {
    return error(Code::kUnavailable, "TLS handshake: the peer closed the connection");
  }
  return transfer.progress;
}

Status TlsStream::wait(TlsProgress progress, MonotonicTime deadline, int cancel_fd, const char* what) {
  const short events = progress == TlsProgress::kWantWrite ? POLLOUT : POLLIN;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return error(Code::kDeadlineExceeded, "TLS {}: no answer in time", what);
    pollfd fds[2] = {{fd_.get(), events, 0}, {cancel_fd, POLLIN, 0}};
    const int ready = poll(fds, 2, static_cast<int>(std::min<long>(left.count(), 1 << 30)));
    if (ready < 0 && errno != EINTR) return errno_error(errno, "poll");
    if (ready <= 0) continue;
    if (fds[1].revents != 0) return error(Code::kCancelled, "TLS {}: cancelled", what);
    return ok_status();
  }
}

Status TlsStream::handshake_blocking(MonotonicTime deadline, int cancel_fd) {
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const TlsProgress progress, handshake_step());
    if (progress == TlsProgress::kDone) return ok_status();
    MUSTER_RETURN_IF_ERROR(wait(progress, deadline, cancel_fd, "handshake"));
  }
}

Result<TlsTransfer> TlsStream::read(void* data, std::size_t size) {
  if (is_dead_) return error(Code::kInternal, "TLS read: the connection has failed before");
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int result = SSL_read_ex(ssl_.get(), data, size, &bytes);
  if (result == 1) return TlsTransfer{TlsProgress::kDone, bytes};
  return outcome(result, "read");
}

Result<TlsTransfer> TlsStream::write(const void* data, std::size_t size) {
  if (is_dead_) return error(Code::kInternal, "TLS write: the connection has failed before");
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int result = SSL_write_ex(ssl_.get(), data, size, &bytes);
  if (result != 1) return outcome(result, "write");
  written_ += bytes;
  if (written_ >= kBytesPerKey) {
    written_ = 0;
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  }
  return TlsTransfer{TlsProgress::kDone, bytes};
}

Status TlsStream::write_all_blocking(const void* data, std::size_t size, MonotonicTime deadline, int cancel_fd) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    MUSTER_ASSIGN_OR_RETURN(const TlsTransfer moved, write(at, size));
    at += moved.bytes;
    size -= moved.bytes;
    if (moved.bytes == 0) MUSTER_RETURN_IF_ERROR(wait(moved.progress, deadline, cancel_fd, "write"));
  }
  return ok_status();
}

Status TlsStream::read_exactly_blocking(void* data, std::size_t size, MonotonicTime deadline, int cancel_fd) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    MUSTER_ASSIGN_OR_RETURN(const TlsTransfer moved, read(at, size));
    if (moved.progress == TlsProgress::kEof) return error(Code::kUnavailable, "TLS read: the peer closed");
    at += moved.bytes;
    size -= moved.bytes;
    if (moved.bytes == 0) MUSTER_RETURN_IF_ERROR(wait(moved.progress, deadline, cancel_fd, "read"));
  }
  return ok_status();
}

void TlsStream::close_notify() {
  if (is_dead_ || !is_established_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

std::vector<std::string> TlsStream::peer_names() const {
  std::vector<std::string> found;
  if (!is_established_ || SSL_get_verify_result(ssl_.get()) != X509_V_OK) return found;
  const X509Ptr certificate(SSL_get1_peer_certificate(ssl_.get()));
  if (!certificate) return found;
  const NamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  const int count = names ? sk_GENERAL_NAME_num(names.get()) : 0;
  for (int i = 0; i < count; ++i) {
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type);
    if (type != GEN_URI && type != GEN_DNS) continue;
    const auto* text = static_cast<const ASN1_IA5STRING*>(value);
    found.push_back((type == GEN_URI ? "URI:" : "DNS:") +
                    std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                                static_cast<std::size_t>(ASN1_STRING_length(text))));
  }
  return found;
}

std::string TlsStream::peer_uri() const {
  for (const std::string& name : peer_names()) {
    if (name.starts_with("URI:")) return name.substr(4);
  }
  return {};
}

}  // namespace muster::base
