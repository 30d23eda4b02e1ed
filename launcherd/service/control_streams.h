// ControlStreams serves the bytes of agents' control channels on a thread of its own: it accepts connections, directly
// or through relays, proves who connects (TLS 1.3 with pre-shared keys), and turns bytes into messages and back.
// ControlServer gives the messages their meaning.
//
// Owner: ControlServer.
// Thread: created, used and destroyed on the loop thread. Callbacks run on the loop. One call of
// on_arrivals delivers all that has arrived since the last, in the order of each stream.
// Limits: at most `most_unproven` connections that have not proved who they are, plus the number of keys; a newer one
// closes the oldest. Each has kProveTime. Of a stream, at most kMostUnhandled bytes of messages wait for the loop; then
// nothing more is read from it, and TCP holds the agent back. If no descriptor is free, accepting pauses for 100 ms,
// and connections that have not proved who they are for a second give way.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "base/tls_keys.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline service {

// An event of a stream.
struct ControlArrival {
  enum class Kind {
    kProven,  // a new stream: the agent has proved that it has the key of `identity`
    kMessage,
    kUnreadable,  // the agent could not read one of our messages, or we could not read one of its messages
    kEnd,         // the stream is over; nothing of it follows
  };
  std::uint64_t stream = 0;
  Kind kind = Kind::kMessage;
  std::string identity{};      // kProven
  v1::AgentMessage message{};  // kMessage
  std::size_t bytes = 0;       // kMessage: call handled() with it
};

struct ControlStreamsOptions {
  std::shared_ptr<const base::TlsKeyRing> keys;
  base::UniqueFd listening;                  // bound and listening
  std::optional<std::size_t> most_unproven;  // nullopt: a share of the descriptors that are allowed at the time
  std::function<void(std::vector<ControlArrival>)> on_arrivals;  // on the loop
  // Receives a line for the launcher's log, at most once a minute, if descriptors run out. On the loop. May be empty.
  std::function<void(const std::string& line)> on_line;
};

class ControlStreams {
 public:
  static constexpr std::chrono::seconds kProveTime{12};
  static constexpr std::size_t kMostUnhandled = std::size_t{8} << 20;

  static base::Result<std::unique_ptr<ControlStreams>> start(base::Loop& loop, ControlStreamsOptions options);
  ~ControlStreams();
  ControlStreams(const ControlStreams&) = delete;
  ControlStreams& operator=(const ControlStreams&) = delete;

  // Adds a connected socket, as if it had been accepted.
  void add_connection(base::UniqueFd fd);
  // Sends frames (proto/control_frame.h). Dropped if the stream is over.
  void send(std::uint64_t stream, std::shared_ptr<const std::string> frames);
  // Ends the stream after what was sent, with an End of this sentence. kEnd follows.
  void end(std::uint64_t stream, const std::string& reason);
  // Reports that the loop has handled messages of so many bytes.
  void handled(std::uint64_t stream, std::size_t bytes);
  // Allows this many unproven connections in addition to most_unproven.
  void set_expected(std::size_t agents);

 private:
  class Worker;
  explicit ControlStreams(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace muster::launcherd::service
