// Finds the requests in the byte stream of one torch client, whatever its generation (tcp_store_protocol.h).
//
// C greets with VALIDATE. A and B send the same codes up to 6. The codes from 7 on distinguish A and B:
//   7      After other requests on the connection it is B's DELETE_KEY, because A sends WATCH_KEY only on a
//          connection without other requests. If it is the first request, the hint decides.
//   8      If bytes follow the key, it is B's APPEND, because A's client waits for the reply to DELETE_KEY. It is also
//          B's if no silent connection from the same address exists, because every client of A holds one.
//          Otherwise the hint decides.
//   9..11  They are B's.
// If a client's generation is certain, it becomes the hint for later clients, because all ranks of a job use one torch.
//
// Thread: one; no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "rendezvous/tcp_store_protocol.h"

namespace muster::rendezvous {

// State that the connections of one store share to detect generations. It must outlive their streams.
class TorchPeers {
 public:
  explicit TorchPeers(TorchGeneration hint) : hint_(hint) {}

  TorchGeneration hint() const { return hint_; }
  void learn(TorchGeneration generation) { hint_ = generation; }

  void opened(const std::string& peer) { ++silent_[peer]; }
  void no_longer_silent(const std::string& peer);
  bool has_silent(const std::string& peer) const { return silent_.contains(peer); }

 private:
  TorchGeneration hint_;
  std::unordered_map<std::string, int> silent_;  // by address, the number of connections that have not sent a byte
};

// Usage:
//   stream.feed(bytes);
//   while (true) {
//     MUSTER_ASSIGN_OR_RETURN(const bool is_whole, stream.next());
//     if (!is_whole) break;
//     use(stream.op(), stream.text(0));
//   }
//   stream.keep();
class TorchRequestStream {
 public:
  // `address` is the peer's, the same for all its connections.
  TorchRequestStream(TorchPeers* peers, std::string address, const TorchRequestLimits& limits);
  ~TorchRequestStream();
  TorchRequestStream(const TorchRequestStream&) = delete;
  TorchRequestStream& operator=(const TorchRequestStream&) = delete;

  // Passes the next bytes of the stream, which must stay where they are until keep().
  void feed(std::string_view bytes);
  // False if no whole request is left. INVALID_ARGUMENT if the bytes are no request of torch's; the stream is unusable
  // then.
  base::Result<bool> next();
  // Copies the bytes that next() has not returned, for the next feed().
  void keep();

  bool has_kept() const { return !input_.empty(); }
  std::size_t held_bytes() const { return input_.capacity(); }

  // The following functions describe the request that next() found. Texts are valid until the following next() or
  // keep().
  TorchOp op() const { return parser_.op(); }
  std::size_t text_count() const { return parser_.text_count(); }
  std::string_view text(std::size_t index) const { return parser_.text(rest_, index); }
  std::int64_t number() const { return parser_.number(); }
  // For a missing key, the servers of A and B drop the client that asks for it, and C's server answers with no bytes.
  bool is_generation_c() const { return dialect_ == Dialect::kC; }

 private:
  enum class Dialect { kUnknown, kOld, kA, kB, kC };  // kOld is A or B

  base::Result<bool> begin();
  std::optional<TorchOp> op_of(std::uint8_t code);
  bool is_append() const;
  void settle(TorchGeneration generation);

  TorchPeers* const peers_;
  const std::string address_;
  Dialect dialect_ = Dialect::kUnknown;
  bool is_silent_ = true;
  bool has_sent_requests_ = false;
  bool is_in_request_ = false;
  bool is_found_ = false;  // rest_ begins with the request that next() returned
  TorchRequestParser parser_;
  std::string input_;      // kept bytes; begins with a request
  std::string_view rest_;  // the part of input_ or of the fed bytes that was not returned yet
};

}  // namespace muster::rendezvous
