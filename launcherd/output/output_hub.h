// OutputHub accepts the output connections of agents and authenticates them. It passes their output to the sinks of
// their jobs, in order and exactly once per agent.
//
// Thread: the hub has its own thread. If a sink blocks (a console that nobody reads), only this thread waits, and TCP
// holds the agents back. Any thread but the hub's may call methods. Callbacks run on the hub's thread, so only post in
// them. No callback runs after stop() or the job's remove_job() has returned.
// Owner: the job layer. A job's sink must live until the hub is gone or remove_job() has returned.
// Security: an agent needs two steps. The first is a TLS handshake with the key of proto::output_identity(job, n). The
// second is a Hello of the expected agent n. The hub closes all other connections without a reply. Such connections
// never delay other agents, because a handshake may take at most 10 s and at most `max_pending` connections may wait. A
// newer connection of an agent replaces its older one.
//
// Example:
//   auto hub = OutputHub::start({}, std::move(listening_fd));
//   hub->add_job("abcdefgh", &sink, events);
//   hub->expect_agent("abcdefgh", {.agent = 0, .secret = token, .ranks = {0, 1, 2, 3}});
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/output/output_sink.h"

namespace muster::launcherd::inline output {

struct OutputHubConfig {
  std::size_t max_pending = 256;  // connections without a Hello; above this number the hub closes the oldest
  base::Duration hello_timeout = std::chrono::seconds(10);
  // For logs: an unauthenticated connection came up (ok) or ended, or the listening socket failed.
  std::function<void(base::Status)> on_stranger = {};
};

// The events of one job.
struct OutputHubEvents {
  // All output of the rank is in the sink and flushed.
  std::function<void(int rank, std::uint64_t stdout_bytes, std::uint64_t stderr_bytes)> on_rank_ended;
  // All ranks of the agent have ended, or the agent has reported its own end. Called once per expect_agent().
  std::function<void(int agent)> on_agent_complete;
  // Called after agent_ended(): the sink has everything that the agent sent, but some output is missing.
  std::function<void(int agent)> on_agent_cut;
  // A sink's destination failed (see OutputSink).
  std::function<void(base::Status)> on_error;
  // For logs: a connection came up (ok) or ended.
  std::function<void(int agent, base::Status)> on_connection;
};

struct ExpectedAgent {
  int agent = 0;           // index of the agent in the job
  std::string secret;      // the key of proto::output_identity(job, agent)
  std::vector<int> ranks;  // ranks of the agent; output of other ranks is refused
  std::string host = {};   // the agent's host, for messages
  // Only for jobs that an earlier launcher began: the sequence of the last frame in the sink.
  std::uint64_t last_delivered = 0;
  // Only for jobs that an earlier launcher began: bytes in the sink, plus bytes that the sink records as missing.
  std::uint64_t delivered_bytes = 0;
  // Each counter grows by the bytes that arrive from the agent's ranks.
  std::vector<std::shared_ptr<std::atomic<std::uint64_t>>> counters{};
};

class OutputHub {
 public:
  // If `listening` is invalid, connections come only from add_connection().
  static base::Result<std::unique_ptr<OutputHub>> start(OutputHubConfig config, base::UniqueFd listening);
  ~OutputHub();  // calls stop()
  OutputHub(const OutputHub&) = delete;
  OutputHub& operator=(const OutputHub&) = delete;

  void add_job(const std::string& job, OutputSink* sink, OutputHubEvents events);
  // Forgets the job's agents. Blocks while a call of its sink or events is in progress.
  void remove_job(const std::string& job);

  // Call it before the agent connects. A second call for the same agent sets new ranks and a new last_delivered.
  // INVALID_ARGUMENT if the secret has a forbidden length.
  base::Status expect_agent(const std::string& job, ExpectedAgent expected);
  // Adds ranks of an expected agent before they write. Does nothing if the agent's output is complete.
  void expect_ranks(const std::string& job, int agent, std::vector<int> ranks);
  // Closes the agent's connection and refuses later ones. Keeps the output that the agent has sent so far.
  void forget_agent(const std::string& job, int agent);

  // Reports that the agent's process is gone. on_agent_cut or on_agent_complete follows once its connection is read to
  // the end. Neither follows while the agent's host keeps the connection open.
  void agent_ended(const std::string& job, int agent);

  // Adds a connected stream socket. The hub treats it like an accepted one.
  void add_connection(base::UniqueFd fd);

  // Closes everything without a further flush, and joins the thread. If a console may block, cancel it first
  // (Terminals::cancel).
  void stop();

 private:
  class Worker;
  explicit OutputHub(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace muster::launcherd::output
