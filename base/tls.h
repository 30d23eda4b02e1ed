// TLS between our own processes: TLS 1.3 with pre-shared keys (RFC 8446 §2.2, with Diffie-Hellman for forward secrecy),
// with a stream that one poll/epoll thread can drive.
//
// A pre-shared key authenticates both ends: a peer that does not know the key fails the handshake. No certificate
// is read or checked on that path (docs/adr/0008). Keys are in memory only; nothing here writes a file. Threads: a
// TlsContext is read-only after creation and may be shared; a TlsStream belongs to one thread at a time, which must
// have SIGPIPE blocked or ignored. After an error a stream is dead: destroy it.
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

#include "base/byte_channel.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/tls_keys.h"
#include "base/unique_fd.h"

struct ssl_st;
struct ssl_ctx_st;

namespace muster::base {

// A certificate and its key, for the gRPC API.
struct TlsIdentity {
  std::string cert_pem;
  std::string key_pem;
};

// How much a stream reads from its socket at once. The buffer exists only while it holds bytes. kMuch (64 KiB) needs
// fewer system calls for a flow of data, kRecord (16 KiB) costs less for single messages: the C library returns freed
// memory to the kernel after each larger piece.
enum class TlsReads { kMuch, kRecord };

// A cheap handle; copies share one SSL_CTX.
class TlsContext {
 public:
  static Result<TlsContext> server(std::vector<TlsKey> peers);  // accepts peers that prove one of these keys
  static Result<TlsContext> server(std::shared_ptr<const TlsKeyRing> peers,  // as they are at the time of the handshake
                                   TlsReads reads = TlsReads::kMuch);
  static Result<TlsContext> client(TlsKey own);

  bool is_server() const { return is_server_; }

 private:
  friend class TlsStream;
  TlsContext(std::shared_ptr<ssl_ctx_st> context, bool is_server);
  static Result<TlsContext> make(std::shared_ptr<const TlsKeyRing> keys, bool is_server, TlsReads reads);

  std::shared_ptr<ssl_ctx_st> context_;
  bool is_server_ = false;
};

// The result of a non-blocking step. kWantRead and kWantWrite: no byte moved; call again when the fd is readable or
// writable.
enum class TlsProgress { kDone, kWantRead, kWantWrite, kEof };

struct TlsTransfer {
  TlsProgress progress = TlsProgress::kDone;
  std::size_t bytes = 0;  // > 0 exactly when progress is kDone
};

// Sets TCP_NODELAY, and keep-alive that detects within 15 s that the peer of an idle connection is gone. Has no effect
// on other sockets than TCP.
void tune_output_socket(int fd);

class TlsStream {
 public:
  // Takes a connected stream socket (TCP or socketpair) and makes it non-blocking.
  TlsStream(const TlsContext& context, UniqueFd fd);
  // Uses a channel in place of a socket. fd() is -1, and the calls that block must not be used.
  TlsStream(const TlsContext& context, std::unique_ptr<ByteChannel> channel);
  ~TlsStream();
  TlsStream(TlsStream&&) noexcept;
  TlsStream& operator=(TlsStream&&) noexcept;

  // kDone means that the peer has proved that it knows the key.
  Result<TlsProgress> handshake_step();

  // Repeats the step until it is done. DEADLINE_EXCEEDED after `deadline`. CANCELLED if `cancel_fd` (-1 if none)
  // becomes readable.
  Status handshake_blocking(MonotonicTime deadline, int cancel_fd);

  // read: kEof is the peer's close_notify. UNAVAILABLE if the connection ends without one. Bytes may be buffered inside
  // although the fd is not readable, so always read until kWantRead.
  // write: sends at most one record. After kWantWrite, repeat it with the same first bytes; the buffer may have moved
  // or grown. The peer can read only bytes that write() has reported as sent.
  Result<TlsTransfer> read(void* data, std::size_t size);
  Result<TlsTransfer> write(const void* data, std::size_t size);

  // These call read() or write() in a loop with poll(2), for the few small messages around a handshake. They transfer
  // all bytes or return an error.
  Status write_all_blocking(const void* data, std::size_t size, MonotonicTime deadline, int cancel_fd);
  Status read_exactly_blocking(void* data, std::size_t size, MonotonicTime deadline, int cancel_fd);

  // Sends close_notify if the socket accepts it now; never blocks.
  void close_notify();

  // On the server, returns the identity whose key the peer has proved. Empty before the handshake is done.
  std::string peer_identity() const;

  int fd() const { return fd_.get(); }
  // The errno that ended the connection; 0 if there was none.
  int system_error() const { return system_error_; }

 private:
  void set_state();
  Result<TlsTransfer> outcome(int result, const char* what);
  Status wait(TlsProgress progress, MonotonicTime deadline, int cancel_fd, const char* what);

  UniqueFd fd_;
  std::unique_ptr<ByteChannel> channel_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool is_server_ = false;
  bool is_established_ = false;
  bool is_dead_ = false;
  int system_error_ = 0;
  std::uint64_t written_ = 0;  // since the last key update
  std::size_t unfinished_ =
      0;  // bytes of a record that the socket has accepted only in part; write() has not reported them yet
};

}  // namespace muster::base
