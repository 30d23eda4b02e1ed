// Takes the output connections of agents, authenticates them, and feeds what they send into the sinks of their jobs, in
// order and exactly once per agent.
//
// Runs its own thread; when a sink blocks (a console that nobody reads), only that thread waits and agents are held
// back by TCP. A connection counts after a TLS handshake with the key of proto::output_identity(job, n), and a Hello of
// agent n, which is expected. Others are closed without an answer; they never delay anyone (handshake 10 s, at most
// `max_pending` of them). A newer connection of an agent replaces its older one. Owner: the job layer. A job's sink
// must outlive the hub or remove_job(). Methods may be called from any thread but the hub's; callbacks come from the
// hub's thread (post, do not work there) and never after stop() or their job's remove_job() returned.
//
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
  std::size_t max_pending = 256;  // connections that have not said Hello; the oldest gives way
  base::Duration hello_timeout = std::chrono::seconds(10);
  // A connection that is not authenticated came up (ok) or ended, or the listening socket failed; for logs.
  std::function<void(base::Status)> on_stranger;
};

// Of one job.
struct OutputHubEvents {
  // All output of the rank is in the sink and flushed.
  std::function<void(int rank, std::uint64_t stdout_bytes, std::uint64_t stderr_bytes)> on_rank_ended;
  // The same for every rank of the agent, or the agent said that it is finished. Once per expect_agent().
  std::function<void(int agent)> on_agent_complete;
  // After agent_ended(): what it has sent is in the sink and flushed, and it is not all.
  std::function<void(int agent)> on_agent_cut;
  // A sink's destination failed (see OutputSink).
  std::function<void(base::Status)> on_error;
  // A connection came up (ok) or ended; for logs.
  std::function<void(int agent, base::Status)> on_connection;
};

struct ExpectedAgent {
  int agent = 0;                  // its index in the job
  std::string secret;             // of proto::output_identity(job, agent)
  std::vector<int> ranks;         // only these are accepted from it
  std::string host = {};          // where it runs, for people
  std::uint64_t last_taken = 0;   // of a job that another launcher had begun: the last frame that is in the sink
  std::uint64_t taken_bytes = 0;  // and what the sink knows of: bytes that it has, and bytes that it says are missing
  // Each grows by the bytes of the agent's ranks that come in.
  std::vector<std::shared_ptr<std::atomic<std::uint64_t>>> counters{};
};

class OutputHub {
 public:
  // `listening` may be invalid: then only add_connection() brings agents.
  static base::Result<std::unique_ptr<OutputHub>> start(OutputHubConfig config, base::UniqueFd listening);
  ~OutputHub();  // stop()
  OutputHub(const OutputHub&) = delete;
  OutputHub& operator=(const OutputHub&) = delete;

  void add_job(const std::string& job, OutputSink* sink, OutputHubEvents events);
  // Its agents are forgotten. Blocks for as long as a call of its sink or events is under way.
  void remove_job(const std::string& job);

  // Before the agent may connect. Again for the same agent: new ranks, another number to begin after.
  // INVALID_ARGUMENT: a secret of a length that is not allowed.
  base::Status expect_agent(const std::string& job, ExpectedAgent expected);
  // More ranks of an agent that is expected, before they write; nothing for one whose output is complete.
  void expect_ranks(const std::string& job, int agent, std::vector<int> ranks);
  // Its connection is closed and it is not let in again; what it sent so far is kept.
  void forget_agent(const std::string& job, int agent);

  // Its process is gone. When its connection has been read to the end, on_agent_cut or on_agent_complete follows;
  // neither while its host keeps the connection open.
  void agent_ended(const std::string& job, int agent);

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

}  // namespace muster::launcherd::output
