// The whole of Spawner. Its first half turns a failed step of the child into a sentence for the user.
// Read spawn() first, then run(), which fills the plan for child_exec(), then clone_child().

#include "agent/process/spawner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/launch/affinity.h"
#include "agent/launch/program.h"
#include "agent/launch/workdir.h"
#include "agent/proc/proc_table.h"
#include "agent/process/rank_stdio.h"
#include "model/exit_code.h"
#include "model/ulimit.h"

namespace muster::agent::inline process {
namespace {

RankStartFailed failure(int rank, std::string step, int errno_value, std::string message,
                        int exit_code = model::kMusterFailed) {
  return {rank, std::move(step), errno_value, std::move(message), exit_code};
}

// Null-terminated array of pointers into `words`, which must outlive it.
std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> array;
  array.reserve(words.size() + 1);
  for (const std::string& word : words) array.push_back(const_cast<char*>(word.c_str()));
  array.push_back(nullptr);
  return array;
}

// Returns the rank's environment with our marker. An audit or a sweep finds the rank by the marker.
std::vector<std::string> marked_environment(const std::vector<std::string>& env, const std::string& job_id) {
  std::vector<std::string> marked{"MUSTER_JOB_ID=" + job_id};
  for (const std::string& entry : env) {
    if (!entry.starts_with("MUSTER_JOB_ID=")) marked.push_back(entry);
  }
  return marked;
}

std::string absolute_program(const SpawnRequest& request, const std::string& path) {
  if (path.starts_with('/') || request.workdir.empty()) return path;
  return fmt::format("{}/{}", request.workdir, path.starts_with("./") ? path.substr(2) : path);
}

std::string explain_limit(const RlimitSetting& setting, int errno_value) {
  struct rlimit now {};
  ::getrlimit(static_cast<__rlimit_resource_t>(setting.resource), &now);
  const std::string hard = now.rlim_max == RLIM_INFINITY ? "unlimited" : fmt::format("{}", now.rlim_max);
  return fmt::format(
      "cannot set the limit {} to {}: {} (this host's hard limit is {})", model::ulimit_name(setting.resource),
      setting.soft == RLIM_INFINITY ? "unlimited" : fmt::format("{}", setting.soft), std::strerror(errno_value), hard);
}

RankStartFailed explain(const SpawnRequest& request, const std::vector<std::string>& candidates,
                        const ChildPlan& plan) {
  const int error = plan.failed_errno;
  const std::string step = child_step_name(plan.failed_step);
  switch (plan.failed_step) {
    case ChildStep::kExec: {
      const std::string path = plan.failed_index < candidates.size() ? candidates[plan.failed_index] : std::string();
      ExecFailure exec = explain_exec_failure(request, path, error);
      return failure(request.rank, step, error, std::move(exec.message), exec.exit_code);
    }
    case ChildStep::kWorkdir:
      return failure(request.rank, step, error, explain_workdir_failure(request.workdir, error));
    case ChildStep::kAffinity:
      return failure(request.rank, step, error, explain_affinity_failure(request.cpus, error));
    case ChildStep::kLimits:
      return failure(request.rank, step, error, explain_limit(request.limits[plan.failed_index], error));
    default:
      return failure(request.rank, step, error,
                     fmt::format("cannot start a process: step '{}': {}", step, std::strerror(error)));
  }
}

// True if any word contains a NUL. execve would cut such a word silently.
bool has_nul(const SpawnRequest& request) {
  const auto cut = [](const std::string& word) { return word.find('\0') != std::string::npos; };
  for (const std::string& word : request.argv) {
    if (cut(word)) return true;
  }
  for (const std::string& word : request.env) {
    if (cut(word)) return true;
  }
  return cut(request.workdir);
}

void reap_blocking(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

base::Result<Spawner> Spawner::create(std::string job_id, base::UniqueFd notes, pid_t tracer) {
  MUSTER_ASSIGN_OR_RETURN(ChildStack stack, ChildStack::create());
  return Spawner(std::move(job_id), std::move(notes), tracer, std::move(stack));
}

std::variant<Spawned, RankStartFailed> Spawner::spawn(const SpawnRequest& request, const Cgroup* cgroup) {
  if (request.argv.empty()) return failure(request.rank, "exec", EINVAL, "the command is empty");
  if (has_nul(request)) {
    return failure(request.rank, "exec", EINVAL, "an argument or environment value holds a NUL byte");
  }
  const std::vector<std::string> candidates = program_candidates(request.argv.front(), request.env);
  auto result = run(request, cgroup, candidates, request.argv);
  const auto* failed = std::get_if<RankStartFailed>(&result);
  if (failed == nullptr || failed->errno_value != ENOEXEC) return result;
  for (const std::string& candidate : candidates) {
    // execve gave ENOEXEC for the first candidate that exists and may be executed, so find that one.
    const std::string at = candidate.starts_with('/') || request.workdir.empty()
                               ? candidate
                               : fmt::format("{}/{}", request.workdir, candidate);
    if (::access(at.c_str(), X_OK) != 0) continue;
    if (!is_shell_text(request, candidate)) return result;
    std::vector<std::string> argv{"/bin/sh", candidate};
    argv.insert(argv.end(), request.argv.begin() + 1, request.argv.end());
    return run(request, cgroup, {"/bin/sh"}, argv);
  }
  return result;
}

std::variant<Spawned, RankStartFailed> Spawner::run(const SpawnRequest& request, const Cgroup* cgroup,
                                                    const std::vector<std::string>& candidates,
                                                    const std::vector<std::string>& argv) {
  const auto mask = cpu_mask(request.cpus);
  if (!mask.ok()) return failure(request.rank, "affinity", EINVAL, mask.status().message());
  auto stdio = RankStdio::create(request);
  if (!stdio.ok()) return failure(request.rank, "stdio", EMFILE, stdio.status().message());
  const std::vector<std::string> env = marked_environment(request.env, job_id_);
  const auto candidate_pointers = pointers(candidates);
  const auto argv_pointers = pointers(argv);
  const auto env_pointers = pointers(env);
  std::vector<ChildLimit> limits;
  for (const RlimitSetting& setting : request.limits) {
    limits.push_back({setting.resource, {setting.soft, setting.hard}});
  }
  ChildPlan plan;
  plan.candidates = candidate_pointers.data();
  plan.argv = argv_pointers.data();
  plan.envp = env_pointers.data();
  plan.workdir = request.workdir.empty() ? nullptr : request.workdir.c_str();
  plan.cpu_mask = mask->data();
  plan.cpu_mask_bytes = mask->size() * sizeof(unsigned long);
  plan.limits = limits.data();
  plan.limit_count = limits.size();
  plan.umask = request.umask;
  plan.stdin_fd = stdio->child_stdin.get();
  plan.stdout_fd = stdio->child_stdout.get();
  plan.stderr_fd = stdio->child_stderr.get();
  plan.pmi_fd = stdio->child_pmi.get();
  plan.pmi_target = kPmiDescriptor;
  plan.is_terminal = request.stdin_of == StdinOf::kTerminal;
  const std::string note_tail = fmt::format(" {}\n", ticks_since_boot());
  plan.note_fd = notes_.get();
  plan.note_tail = note_tail.c_str();
  auto child = clone_child(plan, cgroup);
  const base::MonotonicTime now = std::chrono::steady_clock::now();
  if (!child.ok()) return failure(request.rank, "process", errno, child.status().message());
  if (plan.failed_step != ChildStep::kNone) {
    reap_blocking(child->pid);
    return explain(request, candidates, plan);
  }
  return Spawned{std::move(*child),
                 std::move(stdio->stdin_fd),
                 std::move(stdio->stdout_fd),
                 std::move(stdio->stderr_fd),
                 now,
                 std::move(stdio->pmi_fd),
                 absolute_program(request, candidates[plan.tried_index])};
}

base::Result<BareChild> Spawner::clone_child(ChildPlan& plan, const Cgroup* cgroup) {
  plan.parent = ::getpid();
  plan.tracer = tracer_;
  if (cgroup != nullptr && can_clone_into_cgroup_) {
    auto child = vfork_bare(child_exec, &plan, stack_, cgroup->directory_fd());
    if (child.ok() || child.status().code() != base::Code::kUnimplemented) return child;
    can_clone_into_cgroup_ = false;
  }
  plan.cgroup_procs_fd = cgroup != nullptr ? cgroup->procs_fd() : -1;
  return vfork_bare(child_exec, &plan, stack_, -1);
}

base::Status Spawner::try_cgroup(const Cgroup& cgroup) {
  // Starts a child that has nothing to execute. It reaches its last steps only if the cgroup has let it in.
  const char* const nothing[] = {nullptr};
  ChildPlan plan;
  plan.candidates = nothing;
  plan.stdout_fd = 1;
  plan.stderr_fd = 2;
  MUSTER_ASSIGN_OR_RETURN(const BareChild child, clone_child(plan, &cgroup));
  reap_blocking(child.pid);
  if (plan.failed_step == ChildStep::kExec || plan.failed_step == ChildStep::kStdio) return base::ok_status();
  return base::errno_error(plan.failed_errno, fmt::format("cannot move a process into {}", cgroup.path()));
}

}  // namespace muster::agent::process
