// TLS between our own processes: a certificate authority in memory, for gRPC's mutual TLS; and TLS 1.3 with pre-shared
// keys (RFC 8446 §2.2, with Diffie-Hellman for forward secrecy), with a stream that one poll/epoll thread can drive.
//
// A pre-shared key authenticates both ends: a peer that does not know the key fails the handshake. No certificate
// is read or checked on that path (docs/adr/0008). Certificates run from now - 2 days (clock skew) to now + 30 days.
// Keys are in memory only; nothing here writes a file. Threads: CertificateAuthority and TlsContext are read-only after
// creation and may be shared; a TlsStream belongs to one thread at a time, which must have SIGPIPE blocked or ignored.
// After an error a stream is dead: destroy it.
//
//   MUSTER_ASSIGN_OR_RETURN(auto context, TlsContext::client({"muster://abcdefgh/agent/0", key}));
//   TlsStream stream(context, std::move(connected_fd));
//   MUSTER_RETURN_IF_ERROR(stream.handshake_blocking(deadline, cancel_fd));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/tls_keys.h"
#include "base/unique_fd.h"

struct ssl_st;
struct ssl_ctx_st;
struct x509_st;
struct evp_pkey_st;

namespace muster::base {

struct TlsIdentity {
  std::string cert_pem;
  std::string key_pem;
};

class CertificateAuthority {
 public:
  static Result<CertificateAuthority> create();  // ECDSA P-256, self-signed
  // What ca_pem() and key_pem() of another gave. INVALID_ARGUMENT: not that.
  static Result<CertificateAuthority> load(const std::string& ca_pem, const std::string& key_pem);

  // A leaf for client and server use. `alternative_names`: "URI:muster://…", "DNS:launcherd", "IP:10.0.0.1"; others are
  // INVALID_ARGUMENT.
  Result<TlsIdentity> issue(const std::string& common_name, const std::vector<std::string>& alternative_names) const;

  const std::string& ca_pem() const { return pem_; }
  WallTime expires() const;
  Result<std::string> key_pem() const;  // secret

 private:
  CertificateAuthority(std::shared_ptr<x509_st> certificate, std::shared_ptr<evp_pkey_st> key, std::string pem);

  std::shared_ptr<x509_st> certificate_;
  std::shared_ptr<evp_pkey_st> key_;
  std::string pem_;
};

// A cheap handle; copies share one SSL_CTX.
class TlsContext {
 public:
  static Result<TlsContext> server(std::vector<TlsKey> peers);                // accepts who proves one of these
  static Result<TlsContext> server(std::shared_ptr<const TlsKeyRing> peers);  // … at the time of the handshake
  static Result<TlsContext> client(TlsKey own);

  bool is_server() const { return is_server_; }

 private:
  friend class TlsStream;
  TlsContext(std::shared_ptr<ssl_ctx_st> context, bool is_server);
  static Result<TlsContext> make(std::shared_ptr<const TlsKeyRing> keys, bool is_server);

  std::shared_ptr<ssl_ctx_st> context_;
  bool is_server_ = false;
};

// What a non-blocking step came to. kWantRead/kWantWrite: nothing was moved; call again when the fd is so.
enum class TlsProgress { kDone, kWantRead, kWantWrite, kEof };

struct TlsTransfer {
  TlsProgress progress = TlsProgress::kDone;
  std::size_t bytes = 0;  // > 0 exactly when progress is kDone
};

// TCP_NODELAY, and keep-alive that notices within 15 s that the peer of an idle connection is gone. Does nothing to
// what is not TCP.
void tune_output_socket(int fd);

class TlsStream {
 public:
  // Takes a connected stream socket (TCP or socketpair) and makes it non-blocking.
  TlsStream(const TlsContext& context, UniqueFd fd);
  ~TlsStream();
  TlsStream(TlsStream&&) noexcept;
  TlsStream& operator=(TlsStream&&) noexcept;

  // kDone: the peer has proved that it knows the key.
  Result<TlsProgress> handshake_step();

  // Steps until done, `deadline` (DEADLINE_EXCEEDED), or until `cancel_fd` (-1: none) is readable (CANCELLED).
  Status handshake_blocking(MonotonicTime deadline, int cancel_fd);

  // read: kEof is the peer's close_notify; a connection cut without one is UNAVAILABLE. Bytes may be buffered inside
  // after the fd went quiet: always read until kWantRead. write: one record at most; after kWantWrite repeat with the
  // same first bytes (the buffer may have moved or grown). What the peer has read has been reported here before.
  Result<TlsTransfer> read(void* data, std::size_t size);
  Result<TlsTransfer> write(const void* data, std::size_t size);

  // read()/write() in a loop with poll(2), for the few small messages around a handshake. Returns whole or not at all.
  Status write_all_blocking(const void* data, std::size_t size, MonotonicTime deadline, int cancel_fd);
  Status read_exactly_blocking(void* data, std::size_t size, MonotonicTime deadline, int cancel_fd);

  // Sends close_notify if the socket takes it now; never blocks.
  void close_notify();

  // On the server: whose key the peer proved; empty before the handshake is done.
  std::string peer_identity() const;

  int fd() const { return fd_.get(); }

 private:
  Result<TlsTransfer> outcome(int result, const char* what);
  Status wait(TlsProgress progress, MonotonicTime deadline, int cancel_fd, const char* what);

  UniqueFd fd_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool is_server_ = false;
  bool is_established_ = false;
  bool is_dead_ = false;
  std::uint64_t written_ = 0;   // since the last key update
  std::size_t unfinished_ = 0;  // bytes of a record that the socket has not taken whole; they are not reported yet
};

}  // namespace muster::base
