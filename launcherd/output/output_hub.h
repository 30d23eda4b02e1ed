// Takes the output connections of agents, authenticates them, and feeds what they send into a sink, in order and
// exactly once per agent.
//
// Runs its own thread; when the sink blocks (a console that nobody reads), only that thread waits and agents are held
// back by TCP. A connection counts after a TLS handshake with the key of proto::output_identity(job, n), and a Hello of
// agent n, which is expected. Others are closed without an answer; they never delay anyone (handshake 10 s, at most
// `max_pending` of them). A newer connection of an agent replaces its older one. Owner: the job layer. The sink must
// outlive the hub. Methods may be called from any thread; callbacks come from the hub's thread (post, do not work
// there) and never after stop() returned.
//
//   auto hub = OutputHub::start({.job = id, .tls = server_context}, std::move(listening_fd), &sink, events);
//   hub->expect_agent(0, {0, 1, 2, 3});
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/tls.h"
#include "base/unique_fd.h"
#include "launcherd/output/output_sink.h"

namespace muster::launcherd {

struct OutputHubConfig {
  std::string job;
  base::TlsContext tls;           // server side, with the keys of all agents
  std::size_t max_pending = 256;  // connections that have not said Hello; the oldest gives way
  base::Duration hello_timeout = std::chrono::seconds(10);
};

struct OutputHubEvents {
  // All output of the rank is in the sink and flushed.
  std::function<void(int rank, std::uint64_t stdout_bytes, std::uint64_t stderr_bytes)> on_rank_ended;
  // The same for every rank of the agent, or the agent said that it is finished. Once per expect_agent().
  std::function<void(int agent)> on_agent_complete;
  // A sink's destination failed (see OutputSink), or the listening socket did.
  std::function<void(base::Status)> on_error;
  // A connection came up (ok) or ended; for logs. agent -1: not authenticated.
  std::function<void(int agent, base::Status)> on_connection;
};

class OutputHub {
 public:
  // `listening` may be invalid: then only add_connection() brings agents.
  static base::Result<std::unique_ptr<OutputHub>> start(OutputHubConfig config, base::UniqueFd listening,
                                                        OutputSink* sink, OutputHubEvents events);
  ~OutputHub();  // stop()
  OutputHub(const OutputHub&) = delete;
  OutputHub& operator=(const OutputHub&) = delete;

  // Before the agent may connect. Only `ranks` are accepted from it. Again for the same agent: new ranks,
  // sequence numbers start anew.
  void expect_agent(int agent, std::vector<int> ranks);
  // Its connection is closed and it is not let in again; what it sent so far is kept.
  void forget_agent(int agent);

  // A connected stream socket, for instance the mux's local end; treated like an accepted one.
  void add_connection(base::UniqueFd fd);

  // Flushes nothing more, closes all, joins the thread. A console that blocks must be cancelled first
  // (Terminals::cancel).
  void stop();

 private:
  class Worker;
  explicit OutputHub(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace muster::launcherd
