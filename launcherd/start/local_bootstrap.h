// LocalBootstrap starts an agent on this host. It runs the agent program directly, without ssh. Thread, owner: see
// bootstrap.h.
#pragma once

#include <string>
#include <vector>

#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/bootstrap/failure.h"
#include "launcherd/bootstrap/pump.h"
#include "launcherd/bootstrap/waiter.h"
#include "launcherd/bootstrap/worker_pool.h"

namespace muster::launcherd::inline start {

class LocalBootstrap final : public Bootstrap {
 public:
  explicit LocalBootstrap(BootstrapOptions options) : options_(std::move(options)), workers_(kMaxThreads) {}
  ~LocalBootstrap() override { cancel(); }

  void start(const BootstrapTarget& target, JoinSource join,
             std::function<void(base::Result<StartedAgent>)> done) override;
  void run(const BootstrapTarget& target, std::vector<std::string> args,
           std::function<void(base::Result<CommandResult>)> done) override;
  void cancel() override { cancel_.cancel(); }

 private:
  static constexpr int kMaxThreads = 4;

  base::Result<StartedAgent> start_here(const BootstrapTarget& target, const JoinSource& join);
  base::Result<CommandResult> run_here(const BootstrapTarget& target, const std::vector<std::string>& args);
  base::Status failed(const BootstrapTarget& target, Failure failure) const;

  const BootstrapOptions options_;
  CancelSource cancel_;
  Pump pump_;
  WorkerPool workers_;  // last, because its threads use all members above
};

}  // namespace muster::launcherd::start
