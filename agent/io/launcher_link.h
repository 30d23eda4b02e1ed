// An authenticated output connection to the launcher, and the thread that makes one.
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
  std::uint64_t last_taken = 0;  // the launcher has everything up to this frame
  std::string partial;           // the beginning of an answer whose rest is still to come
};

// Connects, shakes hands, checks that the peer is the launcher, says Hello and reads Resume: only then is it known that
// the launcher accepts us.
base::Result<LauncherLink> open_launcher_link_blocking(const OutputSenderConfig& config, int cancel_fd);

// One attempt at a time on a thread of its own. Owned by the sender, which outlives it; `on_result` comes from that
// thread, or from inside attempt() when there is no thread to be had.
class Connector {
 public:
  Connector(const OutputSenderConfig* config, std::function<void(base::Result<LauncherLink>)> on_result);
  ~Connector();                                      // cancels the attempt and waits for its thread
  bool valid() const { return cancel_fd_.valid(); }  // false: no descriptor was to be had; do not use it
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  void attempt();  // the one before has given its result
  void cancel();   // from any thread; no attempt succeeds from now on

 private:
  const OutputSenderConfig* config_;
  std::function<void(base::Result<LauncherLink>)> on_result_;
  base::UniqueFd cancel_fd_;
  std::thread thread_;
};

}  // namespace muster::agent::io
