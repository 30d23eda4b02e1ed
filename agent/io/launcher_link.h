// An authenticated output connection to the launcher, and a class that makes one on a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "agent/io/output_sender.h"
#include "base/status.h"
#include "base/tls.h"
#include "base/unique_fd.h"

namespace muster::agent::inline io {

struct LauncherLink {
  base::TlsStream stream;
  std::uint64_t last_delivered = 0;  // the launcher has received all frames up to this one
  std::string partial;               // the beginning of an answer whose rest has not arrived
};

// Connects, shakes hands, checks that the peer is the launcher, sends Hello and reads Resume. Only the Resume shows
// that the launcher accepts this agent.
base::Result<LauncherLink> open_launcher_link_blocking(const OutputSenderConfig& config, int cancel_fd);

// Makes one attempt at a time, on a thread of its own.
// Owner: the sender, which outlives it.
// Thread: `on_result` is called on that thread, or inside attempt() if no thread can be started.
class Connector {
 public:
  Connector(const OutputSenderConfig* config, std::function<void(base::Result<LauncherLink>)> on_result);
  ~Connector();                                      // cancels the attempt and waits for its thread
  bool valid() const { return cancel_fd_.valid(); }  // false if no descriptor was free; then do not use it
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  void attempt();  // call it only after the last attempt has given its result
  void cancel();   // from any thread; no attempt succeeds afterwards

 private:
  const OutputSenderConfig* config_;
  std::function<void(base::Result<LauncherLink>)> on_result_;
  base::UniqueFd cancel_fd_;
  std::thread thread_;
};

}  // namespace muster::agent::io
