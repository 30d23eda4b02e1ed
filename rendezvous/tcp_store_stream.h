// The requests in the byte stream of one torch client, whichever generation it is of (tcp_store_protocol.h).
//
// C greets with VALIDATE. A and B send the same until one of the codes that differ:
//   7      on a connection that has sent other requests it is B's DELETE_KEY: A sends WATCH_KEY on a connection that is
//          for nothing else; as the first request it is what the hint says
//   8      bytes after the key make it B's APPEND, for A's client waits for the reply to DELETE_KEY; so does the lack
//   of
//          a silent connection from the same address, for every client of A holds one; else it is what the hint says
//   9..11  B's
// What a client has shown for certain is the hint for those that come later: ranks of a job have one torch.
//
// One thread; no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "rendezvous/tcp_store_protocol.h"

namespace muster::rendezvous {

// What the connections of one store tell about each other. Outlives their streams.
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
  std::unordered_map<std::string, int> silent_;  // address -> connections that have not sent a byte
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
  // `address` of the peer, the same for all its connections.
  TorchRequestStream(TorchPeers* peers, std::string address, const TorchRequestLimits& limits);
  ~TorchRequestStream();
  TorchRequestStream(const TorchRequestStream&) = delete;
  TorchRequestStream& operator=(const TorchRequestStream&) = delete;

  // The next bytes of the stream, which stay where they are until keep().
  void feed(std::string_view bytes);
  // False: no whole request is left. INVALID_ARGUMENT: no request of torch; the stream is of no more use.
  base::Result<bool> next();
  // Copies what next() has not returned, for the next feed().
  void keep();

  bool has_kept() const { return !input_.empty(); }
  std::size_t held_bytes() const { return input_.capacity(); }

  // Of the request that next() found; texts until the following next() or keep().
  TorchOp op() const { return parser_.op(); }
  std::size_t text_count() const { return parser_.text_count(); }
  std::string_view text(std::size_t index) const { return parser_.text(rest_, index); }
  std::int64_t number() const { return parser_.number(); }
  // A missing key: A's and B's servers drop the client that asks for one, C's answers with no bytes.
  bool is_generation_c() const { return dialect_ == Dialect::kC; }

 private:
  enum class Dialect { kUnknown, kOld, kA, kB, kC };  // kOld: A or B

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
  std::string input_;      // what was kept; begins with a request
  std::string_view rest_;  // of input_ or of the bytes fed: not yet returned
};

}  // namespace muster::rendezvous
