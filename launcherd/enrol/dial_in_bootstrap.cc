#include <algorithm>
#include <atomic>

#include "launcherd/bootstrap/failure.h"
#include "launcherd/bootstrap/worker_pool.h"
#include "launcherd/enrol/dial_in.h"
#include "launcherd/enrol/enrolled_stream.h"

namespace muster::launcherd::inline enrol {
namespace {

using base::Code;

class DialInBootstrap final : public Bootstrap {
 public:
  explicit DialInBootstrap(const BootstrapOptions& options)
      : options_(options), workers_(std::max(2, options.max_parallel)) {}
  ~DialInBootstrap() override { cancel(); }

  void start(const BootstrapTarget& target, JoinSource join,
             std::function<void(base::Result<StartedAgent>)> done) override {
    const auto deadline = std::chrono::steady_clock::now() + options_.start_timeout;
    const base::Status posted = workers_.post([this, target, join = std::move(join), done, deadline] {
      auto started = start_there(target, join, {cancel_.fd(), deadline});
      if (!started.ok() && options_.on_failure) {
        options_.on_failure(
            target, started.status().code() == Code::kCancelled ? FailureKind::kCancelled : FailureKind::kAgentFailed);
      }
      done(started.ok() ? std::move(started)
                        : base::Result<StartedAgent>(started.status().with_context("host " + target.name)));
    });
    if (!posted.ok()) done(posted);
  }

  void run(const BootstrapTarget& target, std::vector<std::string>,
           std::function<void(base::Result<CommandResult>)> done) override {
    done(base::unimplemented(
        "host {}: launcherd cannot start programs on a host whose agent dialled in; run muster cleanup on that host",
        target.name));
  }

  void cancel() override {
    cancel_.cancel();
    is_cancelled_ = true;
    options_.dial_in->agents().wake();
  }

 private:
  base::Result<StartedAgent> start_there(const BootstrapTarget& target, const JoinSource& join,
                                         const Waiter& waiter) const {
    MUSTER_ASSIGN_OR_RETURN(auto arrived,
                            options_.dial_in->agents().await_stream(target.name, waiter.deadline, is_cancelled_));
    MUSTER_RETURN_IF_ERROR(await_marker_line(arrived.stream.get(), options_.agent_id, target.name, waiter));
    const base::Result<std::string>& text = join.get();
    if (!text.ok()) return text.status();
    MUSTER_RETURN_IF_ERROR(send_all(arrived.stream.get(), *text, waiter));
    StartedAgent agent;
    agent.stream = std::move(arrived.stream);
    agent.host_address = arrived.ends.host;
    if (arrived.ends.launcher) agent.launcher_addresses.push_back(*arrived.ends.launcher);
    agent.backend = "itself";
    return agent;
  }

  const BootstrapOptions options_;
  CancelSource cancel_;
  std::atomic<bool> is_cancelled_ = false;
  WorkerPool workers_;  // last, because its threads use all members above
};

}  // namespace

std::unique_ptr<Bootstrap> make_dial_in_bootstrap(const BootstrapOptions& options) {
  return std::make_unique<DialInBootstrap>(options);
}

}  // namespace muster::launcherd::enrol
