// TLS: contexts with pre-shared keys, and streams.
// Read use_session(), find_session() and configure() first, then TlsStream.
#include "base/tls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

namespace muster::base {
namespace {

constexpr std::size_t kLargeReadBuffer = 64 * 1024;
// Change the key well before AES-GCM's limit of 2^24.5 records.
constexpr std::uint64_t kBytesPerKey = std::uint64_t{1} << 36;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

// A host's openssl.cnf and OPENSSL_CONF must not affect our connections.
void initialise() {
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

// Returns the newest reason in OpenSSL's error queue and clears the queue.
std::string take_reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("error {:#x}", code);
}

Status openssl_error(std::string_view what) {
  return base::internal_error("{}: {}", what, take_reason());
}

// The keys of a context, for OpenSSL's callbacks.
using Keys = std::shared_ptr<const TlsKeyRing>;

// Returns the pre-shared key as an OpenSSL session. The session's cipher suite fixes the hash of the key schedule.
SSL_SESSION* make_session(SSL* ssl, const std::string& secret) {
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  std::unique_ptr<SSL_SESSION, Deleter<SSL_SESSION_free>> session(SSL_SESSION_new());
  const bool done = session &&
                    SSL_SESSION_set1_master_key(session.get(), reinterpret_cast<const unsigned char*>(secret.data()),
                                                secret.size()) == 1 &&
                    SSL_SESSION_set_cipher(session.get(), SSL_CIPHER_find(ssl, kAes128GcmSha256)) == 1 &&
                    SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  return done ? session.release() : nullptr;
}

// Returns the index at which an SSL_CTX stores its keys (OpenSSL's ex_data). The keys live as long as the SSL_CTX, to
// which every stream holds a reference.
int keys_index() {
  static const int kIndex = SSL_CTX_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* keys, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<Keys*>(keys); });
  return kIndex;
}

const TlsKeyRing& keys_of(SSL* ssl) {
  return **static_cast<const Keys*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), keys_index()));
}

// Returns the index at which an SSL stores the identity whose key the handshake uses. The SSL has its own copy, because
// TlsKeyRing::remove() may remove the key at any time.
int identity_index() {
  static const int kIndex = SSL_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* identity, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<std::string*>(identity); });
  return kIndex;
}

const std::string* identity_of(const SSL* ssl) {
  return static_cast<const std::string*>(SSL_get_ex_data(ssl, identity_index()));
}

bool remember_identity(SSL* ssl, std::string_view name) {
  delete static_cast<std::string*>(SSL_get_ex_data(ssl, identity_index()));
  auto identity = std::make_unique<std::string>(name);
  const bool done = SSL_set_ex_data(ssl, identity_index(), identity.get()) == 1;
  if (done) (void)identity.release();  // freed with the SSL
  return done;
}

int use_session(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, std::size_t* size,
                SSL_SESSION** session) {
  *session = nullptr;
  if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256)
    return 1;  // the server wants another hash, for which there is no key
  auto key = keys_of(ssl).first();
  if (!key || !remember_identity(ssl, key->identity)) return 0;
  *session = make_session(ssl, key->secret);
  OPENSSL_cleanse(key->secret.data(), key->secret.size());
  const std::string& name = *identity_of(ssl);  // OpenSSL reads the name after this call
  *identity = reinterpret_cast<const unsigned char*>(name.data());
  *size = name.size();
  return *session != nullptr ? 1 : 0;
}

int find_session(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  *session = nullptr;
  const std::string_view name(reinterpret_cast<const char*>(identity), size);
  auto secret = keys_of(ssl).secret_of(name);
  if (!secret) return 1;  // without a key the handshake fails, because there is no certificate
  *session = remember_identity(ssl, name) ? make_session(ssl, *secret) : nullptr;
  OPENSSL_cleanse(secret->data(), secret->size());
  return *session != nullptr ? 1 : 0;
}

// OpenSSL's way to read and write a ByteChannel.
int channel_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const long moved = static_cast<ByteChannel*>(BIO_get_data(bio))->read(data, static_cast<std::size_t>(size));
  if (moved == ByteChannel::kLater) BIO_set_retry_read(bio);
  return moved < 0 ? -1 : static_cast<int>(moved);
}

int channel_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const long moved = static_cast<ByteChannel*>(BIO_get_data(bio))->write(data, static_cast<std::size_t>(size));
  if (moved == ByteChannel::kLater) BIO_set_retry_write(bio);
  return moved < 0 ? -1 : static_cast<int>(moved);
}

long channel_control(BIO* /*bio*/, int command, long /*number*/, void* /*data*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int channel_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

BIO* channel_bio(ByteChannel* channel) {
  static const std::unique_ptr<BIO_METHOD, Deleter<BIO_meth_free>> kMethod = [] {
    std::unique_ptr<BIO_METHOD, Deleter<BIO_meth_free>> method(
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "channel"));
    const bool done = method && BIO_meth_set_read(method.get(), channel_read) == 1 &&
                      BIO_meth_set_write(method.get(), channel_write) == 1 &&
                      BIO_meth_set_ctrl(method.get(), channel_control) == 1 &&
                      BIO_meth_set_create(method.get(), channel_create) == 1;
    if (!done) method.reset();
    return method;
  }();
  BIO* const bio = kMethod ? BIO_new(kMethod.get()) : nullptr;
  if (bio != nullptr) BIO_set_data(bio, channel);
  return bio;
}

Status configure(SSL_CTX* context, bool is_server, TlsReads reads) {
  const bool done = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                    SSL_CTX_set_num_tickets(context, 0) == 1;
  if (!done) return openssl_error("set up TLS");
  if (is_server) {  // the server has no certificate, so a client without a key cannot finish the handshake
    SSL_CTX_set_psk_find_session_callback(context, find_session);
  } else {  // the client trusts no authority, so it refuses a server that shows a certificate
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_psk_use_session_callback(context, use_session);
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  if (reads == TlsReads::kMuch) SSL_CTX_set_default_read_buffer_len(context, kLargeReadBuffer);
  return ok_status();
}

}  // namespace

TlsContext::TlsContext(std::shared_ptr<SSL_CTX> context, bool is_server)
    : context_(std::move(context)), is_server_(is_server) {}

Result<TlsContext> TlsContext::make(std::shared_ptr<const TlsKeyRing> keys, bool is_server, TlsReads reads) {
  initialise();
  auto known = std::make_unique<Keys>(std::move(keys));
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()), SSL_CTX_free);
  if (!context || SSL_CTX_set_ex_data(context.get(), keys_index(), known.get()) != 1) {
    return openssl_error("set up TLS");
  }
  (void)known.release();  // freed with the SSL_CTX
  MUSTER_RETURN_IF_ERROR(configure(context.get(), is_server, reads));
  return TlsContext(std::move(context), is_server);
}

Result<TlsContext> TlsContext::server(std::shared_ptr<const TlsKeyRing> peers, TlsReads reads) {
  return make(std::move(peers), true, reads);
}

Result<TlsContext> TlsContext::server(std::vector<TlsKey> peers) {
  auto ring = std::make_shared<TlsKeyRing>();
  for (TlsKey& key : peers) MUSTER_RETURN_IF_ERROR(ring->add(std::move(key)));
  return make(std::move(ring), true, TlsReads::kMuch);
}

Result<TlsContext> TlsContext::client(TlsKey own) {
  auto ring = std::make_shared<TlsKeyRing>();
  MUSTER_RETURN_IF_ERROR(ring->add(std::move(own)));
  return make(std::move(ring), false, TlsReads::kMuch);
}

// Do not set TCP_USER_TIMEOUT: it also ends connections whose peer is alive but does not read, as when a console is
// blocked.
void tune_output_socket(int fd) {
  const auto set = [fd](int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value,
                     sizeof value);  // a socketpair refuses these options and does not need them
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
}

TlsStream::TlsStream(const TlsContext& context, UniqueFd fd)
    : fd_(std::move(fd)), ssl_(SSL_new(context.context_.get()), SSL_free), is_server_(context.is_server()) {
  if (ssl_ == nullptr) {
    is_dead_ = true;  // memory ran out; the next handshake step reports that
    return;
  }
  // A descriptor that cannot be made non-blocking is no socket. The next handshake step reports that.
  is_dead_ = !set_nonblocking(fd_.get(), true).ok() || SSL_set_fd(ssl_.get(), fd_.get()) != 1;
  set_state();
}

TlsStream::TlsStream(const TlsContext& context, std::unique_ptr<ByteChannel> channel)
    : channel_(std::move(channel)), ssl_(SSL_new(context.context_.get()), SSL_free), is_server_(context.is_server()) {
  BIO* const bio = ssl_ == nullptr ? nullptr : channel_bio(channel_.get());
  if (bio == nullptr) {
    is_dead_ = true;
    ssl_.reset();
    return;
  }
  SSL_set_bio(ssl_.get(), bio, bio);  // owns it
  set_state();
}

void TlsStream::set_state() {
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
    channel_ = std::move(other.channel_);
    fd_ = std::move(other.fd_);
    is_server_ = other.is_server_;
    is_established_ = other.is_established_;
    is_dead_ = other.is_dead_;
    system_error_ = other.system_error_;
    written_ = other.written_;
    unfinished_ = other.unfinished_;
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
      system_error_ = saved_errno;
      ERR_clear_error();
      if (saved_errno != 0) return errno_error(saved_errno, what).with_context("TLS");
      return base::unavailable("TLS {}: the connection was cut", what);
    default:
      break;
  }
  is_dead_ = true;
  const unsigned long code = ERR_peek_last_error();
  const bool was_cut = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  const std::string reason = take_reason();
  if (was_cut) return base::unavailable("TLS {}: the connection was cut", what);
  return base::unauthenticated("TLS {}: {}", what, reason);
}

Result<TlsProgress> TlsStream::handshake_step() {
  if (ssl_ == nullptr) return base::resource_exhausted("TLS handshake: out of memory");
  if (is_dead_) return base::internal_error("TLS handshake: the connection failed earlier");
  if (is_established_) return TlsProgress::kDone;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    if (SSL_session_reused(ssl_.get()) != 1) {  // "reused" is OpenSSL's word for a handshake with the key
      is_dead_ = true;
      return base::unauthenticated("TLS handshake: the peer did not use the key");
    }
    is_established_ = true;
    return TlsProgress::kDone;
  }
  MUSTER_ASSIGN_OR_RETURN(const TlsTransfer transfer, outcome(result, "handshake"));
  if (transfer.progress == TlsProgress::kEof) {
    return base::unavailable("TLS handshake: the peer closed the connection");
  }
  return transfer.progress;
}

Status TlsStream::wait(TlsProgress progress, MonotonicTime deadline, int cancel_fd, const char* what) {
  const short events = progress == TlsProgress::kWantWrite ? POLLOUT : POLLIN;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return base::deadline_exceeded("TLS {}: no answer in time", what);
    pollfd fds[2] = {{fd_.get(), events, 0}, {cancel_fd, POLLIN, 0}};
    const int ready = poll(fds, 2, static_cast<int>(std::min<long>(left.count(), 1 << 30)));
    if (ready < 0 && errno != EINTR) return errno_error(errno, "poll");
    if (ready <= 0) continue;
    if (fds[1].revents != 0) return base::cancelled("TLS {}: cancelled", what);
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
  if (is_dead_) return base::internal_error("TLS read: the connection failed earlier");
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int result = SSL_read_ex(ssl_.get(), data, size, &bytes);
  if (result == 1) return TlsTransfer{TlsProgress::kDone, bytes};
  return outcome(result, "read");
}

Result<TlsTransfer> TlsStream::write(const void* data, std::size_t size) {
  if (is_dead_) return base::internal_error("TLS write: the connection failed earlier");
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  // Pass only the unfinished record. With more bytes, OpenSSL begins the next record in the same call. If the socket
  // does not accept the next record, OpenSSL reports neither as written. The peer could then answer a record that this
  // side does not know it has sent.
  const std::size_t record = unfinished_ > 0 ? unfinished_ : std::min<std::size_t>(size, SSL3_RT_MAX_PLAIN_LENGTH);
  const int result = SSL_write_ex(ssl_.get(), data, record, &bytes);
  if (result != 1) {
    MUSTER_ASSIGN_OR_RETURN(const TlsTransfer transfer, outcome(result, "write"));
    if (transfer.progress == TlsProgress::kWantWrite) unfinished_ = record;
    return transfer;
  }
  unfinished_ = 0;
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
    if (moved.progress == TlsProgress::kEof) return base::unavailable("TLS read: the peer closed");
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

std::string TlsStream::peer_identity() const {
  const std::string* identity = is_established_ && is_server_ ? identity_of(ssl_.get()) : nullptr;
  return identity != nullptr ? *identity : std::string();
}

}  // namespace muster::base
