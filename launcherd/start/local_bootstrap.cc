#include "launcherd/start/local_bootstrap.h"

#include "launcherd/bootstrap/child.h"
#include "launcherd/bootstrap/host_start.h"

namespace muster::launcherd::inline start {
namespace {

std::vector<std::string> command_line(const std::string& program, const std::vector<std::string>& args) {
  std::vector<std::string> line = {program};
  line.insert(line.end(), args.begin(), args.end());
  return line;
}

}  // namespace

base::Status LocalBootstrap::failed(const BootstrapTarget& target, Failure failure) const {
  // The launcher runs the user's own program file, so the file is neither missing nor sent.
  if (failure.kind == FailureKind::kAgentMissing || failure.kind == FailureKind::kNoisyShell) {
    failure.kind = FailureKind::kAgentFailed;
  }
  failure.host = target.name;
  failure.directory = options_.agent_path.substr(0, options_.agent_path.rfind('/'));
  if (options_.on_failure) options_.on_failure(target, failure.kind);
  return to_status(failure);
}

base::Result<StartedAgent> LocalBootstrap::start_here(const BootstrapTarget& target, const JoinSource& join) {
  const Waiter waiter{cancel_.fd(), std::chrono::steady_clock::now() + options_.start_timeout};
  if (Failure failure = wait_failure(waiter.check()); !failure.ok()) return failed(target, failure);
  auto child = spawn_child(options_.agent_path, command_line(options_.agent_path, {"--stdio"}), {});
  if (!child.ok()) return child.status().with_context("host " + target.name);
  HostTask task;
  task.agent_id = options_.agent_id;
  task.join = join;
  if (options_.on_note) {
    task.on_note = [this, name = target.name](const std::string& line) { options_.on_note(name, line); };
  }
  if (options_.on_stderr) {
    task.on_stderr = [this, name = target.name](const std::string& line) { options_.on_stderr(name, line); };
  }
  ChildProgram program(*std::move(child), pump_, nullptr);
  StartedAgent agent;
  agent.backend = "local";
  Failure failure = await_marker(program, task, waiter);
  if (failure.ok()) failure = hand_over(program, task, waiter, agent.stream);
  if (!failure.ok()) return failed(target, std::move(failure));
  return agent;
}

base::Result<CommandResult> LocalBootstrap::run_here(const BootstrapTarget& target,
                                                     const std::vector<std::string>& args) {
  const Waiter waiter{cancel_.fd(), std::chrono::steady_clock::now() + options_.start_timeout};
  if (Failure failure = wait_failure(waiter.check()); !failure.ok()) return failed(target, failure);
  auto child = spawn_child(options_.agent_path, command_line(options_.agent_path, args), {});
  if (!child.ok()) return child.status().with_context("host " + target.name);
  ChildProgram program(*std::move(child), pump_, nullptr);
  ProgramResult result;
  Failure failure = run_to_end(program, {}, kMaxCommandOutput, waiter, result);
  if (!failure.ok()) return failed(target, std::move(failure));
  return CommandResult{.exit_status = result.exit_status,
                       .output = output_after_marker(result.output),
                       .errors = std::move(result.errors)};
}

void LocalBootstrap::start(const BootstrapTarget& target, JoinSource join,
                           std::function<void(base::Result<StartedAgent>)> done) {
  const base::Status posted =
      workers_.post([this, target, join = std::move(join), done] { done(start_here(target, join)); });
  if (!posted.ok()) done(posted);
}

void LocalBootstrap::run(const BootstrapTarget& target, std::vector<std::string> args,
                         std::function<void(base::Result<CommandResult>)> done) {
  const base::Status posted =
      workers_.post([this, target, args = std::move(args), done] { done(run_here(target, args)); });
  if (!posted.ok()) done(posted);
}

}  // namespace muster::launcherd::start
