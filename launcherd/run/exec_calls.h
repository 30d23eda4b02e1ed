// The commands that run beside a job's ranks (Exec of launcher.proto): passes requests on to the agents, and what the
// agents report back to the callers.
//
// Memory is bounded: a caller's input by proto::kInputWindow, a command's output by proto::kExecWindow. An agent gets
// room for more output only when the caller has taken what came before.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
// Errors: a caller whose command cannot continue gets ExecEnd with a message, or a status if no agent can be asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/run/exec_request.h"
#include "proto/muster/v1/agent.pb.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline run {

class ExecCalls {
 public:
  // The longest wait for an agent's first answer. Agents of older builds never answer.
  static constexpr std::chrono::seconds kPatience{20};
  static constexpr std::size_t kMost = 256;  // commands of one job at the same time

  using Send = std::function<void(int agent, v1::LauncherMessage message)>;

  // The rank beside which the command runs.
  struct Target {
    int agent = 0;
    std::string host;
    int number = 0;  // by which agents know the rank
    int rank = 0;    // by which users know it
  };

  ExecCalls(base::Loop& loop, Send send) : loop_(loop), send_(std::move(send)) {}
  ExecCalls(const ExecCalls&) = delete;
  ExecCalls& operator=(const ExecCalls&) = delete;

  // `first` has passed check_first_request(). RESOURCE_EXHAUSTED: the job has kMost commands already.
  base::Result<ExecControls> begin(const Target& target, const v1::ExecRequest& first, ExecCaller caller);

  void started(int agent, const v1::ExecStarted& message);
  void output(int agent, const v1::ExecOutput& message);
  void input_taken(int agent, const v1::ExecInputTaken& message);
  void ended(int agent, const v1::ExecEnded& message);

  // The rank has ended. `how` is text such as "exit code 0". Its agent ends the commands and reports them.
  void rank_over(int number, const std::string& how);
  // The agent can no longer answer.
  void lost(int agent);
  // The job is over, or another generation follows: all callers get the end of their commands.
  void close();

 private:
  struct Call {
    Target target;
    ExecCaller caller;
    std::string why{};             // why the command must end soon; empty if nothing is known
    std::size_t input_ahead = 0;   // bytes of input that the agent has not reported as taken
    std::size_t output_ahead = 0;  // bytes of output that the agent has sent and that were not confirmed
    bool awaits_writing = false;   // when_written() will confirm them
    bool is_input_closed = false;  // the command reads no more input
    base::Timer patience{};        // until the first answer
  };

  Call* find(std::uint64_t id, int agent);
  void more(std::uint64_t id, const v1::ExecRequest& request);
  void pass_on(std::uint64_t id, Call& call, const v1::ExecRequest& request);
  void leave(std::uint64_t id);
  void order_end(std::uint64_t id, int agent);
  static void report_taken(const Call& call, std::size_t bytes);
  void confirm_output(std::uint64_t id);
  void end(std::uint64_t id, v1::ExecEnd end);
  void end_with(std::uint64_t id, const std::string& message);
  void fail(std::uint64_t id, const base::Status& status);

  base::Loop& loop_;
  const Send send_;
  std::map<std::uint64_t, Call> calls_;
  std::uint64_t next_id_ = 1;
  base::Gate gate_;
};

}  // namespace muster::launcherd::run
