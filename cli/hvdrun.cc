// hvdrun: runs a job in the foreground. The launcher lives inside this process; here it is only wired together.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/build_id.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/thread.h"
#include "cli/job_view.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/hosts/hostfile.h"
#include "launcherd/jobs/job_runner.h"
#include "launcherd/output/sinks.h"

namespace muster::cli {
namespace {

using launcherd::StopCause;

constexpr int kUsageError = 2;
constexpr int kMusterFailed = 125;
// For a terminal that does not take our last lines.
constexpr std::chrono::seconds kLastWords{2};

int fail(int code, std::string_view message) {
  fmt::print(stderr, "hvdrun: {}\n", message);
  return code;
}

// $PWD if it is this directory (so that a path through a link stays one), else the kernel's answer.
std::string logical_working_directory(const base::Environment& environment) {
  if (const auto pwd = environment.get("PWD"); pwd && pwd->starts_with('/')) {
    struct stat named {};
    struct stat actual {};
    if (::stat(std::string(*pwd).c_str(), &named) == 0 && ::stat(".", &actual) == 0 && named.st_dev == actual.st_dev &&
        named.st_ino == actual.st_ino) {
      return std::string(*pwd);
    }
  }
  std::error_code failed;
  const auto path = std::filesystem::current_path(failed);
  return failed ? "/" : path.string();
}

std::string absolute(const std::string& path, const std::string& working_directory) {
  if (path.empty() || path.front() == '/') return path;
  return (std::filesystem::path(working_directory) / path).lexically_normal().string();
}

unsigned current_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

// The agent lies beside hvdrun, wherever that was installed.
base::Result<std::string> find_agent(const base::Environment& environment) {
  if (const auto given = environment.get("MUSTER_AGENT_PATH")) return std::string(*given);
  char own[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", own, sizeof own);
  if (length <= 0) return base::errno_error(errno, "find the path of this program");
  const auto path =
      std::filesystem::path(std::string(own, static_cast<std::size_t>(length))).parent_path() / "muster-agent";
  if (::access(path.c_str(), X_OK) != 0) {
    return base::error(base::Code::kNotFound,
                       "{} is missing: it belongs beside hvdrun; build or install it, or name "
                       "another by MUSTER_AGENT_PATH",
                       path.string());
  }
  return path.string();
}

// One descriptor or more a host: the soft limit is often 1024 where the hard one is far higher.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // where this fails, running out of descriptors is reported where it happens
}

StopCause cause_of(int signo) {
  switch (signo) {
    case SIGHUP:
      return StopCause::kHangup;
    case SIGTERM:
      return StopCause::kTerminate;
    default:
      return StopCause::kInterrupt;
  }
}

// Ctrl-Z, SIGUSR1, Ctrl-C … on the loop thread.
void on_signal(int signo, launcherd::JobRunner& runner, launcherd::NoticeWriter& notices, int* interrupts) {
  switch (signo) {
    case SIGUSR1:
    case SIGUSR2:
      runner.signal_ranks(signo);
      break;
    case SIGTSTP:
      runner.suspend(true, [] { ::raise(SIGSTOP); });
      break;
    case SIGCONT:
      runner.suspend(false, nullptr);
      break;
    default:
      if (++*interrupts == 1) notices.line("stopping all ranks; once more ends them at once");
      runner.stop(cause_of(signo));
      break;
  }
}

int run_job(HvdrunOptions options, const base::Environment& environment) {
  base::Loop loop;  // first: it outlives whatever waits on it or posts to it
  auto signals = Signals::block({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT});
  if (!signals.ok()) return fail(kMusterFailed, signals.status().message());
  ::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();

  model::JobSpec& job = options.job;
  const std::string working_directory = logical_working_directory(environment);
  job.workdir = job.workdir.empty() ? working_directory : absolute(job.workdir, working_directory);
  job.umask = current_umask();
  if (!options.hostfile.empty()) {
    auto hosts = launcherd::read_hostfile(absolute(options.hostfile, working_directory));
    if (!hosts.ok()) return fail(kUsageError, hosts.status().message());
    job.placement.hosts = std::move(*hosts);
  }
  auto placement = model::place(job.placement);
  if (!placement.ok()) return fail(kUsageError, placement.status().message());
  const auto agent_path = find_agent(environment);
  if (!agent_path.ok()) return fail(kMusterFailed, agent_path.status().message());

  const base::SystemClock clock;
  launcherd::Terminals terminals(STDOUT_FILENO, STDERR_FILENO);
  launcherd::NoticeWriter notices(terminals.err());
  launcherd::ConsoleSink console(terminals.out(), terminals.err(), &clock,
                                 {.size = placement->size, .timestamps = job.prefix_timestamp});
  std::unique_ptr<launcherd::FileSink> files;
  std::unique_ptr<launcherd::TeeSink> tee;
  launcherd::OutputSink* sink = &console;
  if (!job.output_dir.empty()) {
    auto created = launcherd::FileSink::create(absolute(job.output_dir, working_directory), placement->size);
    if (!created.ok()) return fail(kUsageError, created.status().message());
    files = std::move(*created);
    tee = std::make_unique<launcherd::TeeSink>(&console, files.get());
    sink = tee.get();
  }

  launcherd::BootstrapOptions bootstrap = options.bootstrap;
  bootstrap.agent_path = *agent_path;
  bootstrap.agent_id = base::build_id();
  bootstrap.start_timeout = job.start_timeout;
  bootstrap.on_note = [&](const std::string& host, const std::string& line) {
    if (options.launch.verbose) notices.line(host + ": " + line);
  };
  bootstrap.on_stderr = [&](const std::string& host, const std::string& line) { notices.line(host + ": " + line); };
  auto starter = launcherd::make_bootstrap(std::move(bootstrap));
  if (!starter.ok()) return fail(kMusterFailed, starter.status().message());

  for (const std::string& note : options.notes) notices.line(note);
  if (options.launch.verbose) notices.line(model::format_placement(*placement));
  options.launch.job_id = base::JobId::random().str();
  options.launch.build_id = base::build_id();
  JobView view(&notices, terminals.err()->is_tty(), options.launch.verbose, [&] { loop.stop(); });
  auto runner = std::make_unique<launcherd::JobRunner>(loop, clock, std::move(job), std::move(*placement),
                                                       options.launch, environment, starter->get(), sink, &view);
  int interrupts = 0;
  signals->watch(loop, [&](int signo) { on_signal(signo, *runner, notices, &interrupts); });
  if (const base::Status started = runner->start(); !started.ok()) return fail(kMusterFailed, started.message());
  loop.run();
  if (!notices.flush_blocking(clock.now() + kLastWords)) terminals.err()->cancel();
  terminals.out()->cancel();  // a console that nobody reads must not hold up the hub's thread
  runner.reset();
  return view.outcome()->exit_code;
}

int hvdrun_main(int argc, char** argv) {
  const base::Environment environment = base::Environment::current();
  ParsedHvdrun parsed = parse_hvdrun({argv + 1, argv + argc}, environment, {.build_id = base::build_id()});
  if (parsed.exit_code) {
    fmt::print(*parsed.exit_code == 0 ? stdout : stderr, "{}", parsed.text);
    return *parsed.exit_code;
  }
  return run_job(std::move(parsed.options), environment);
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  try {
    return muster::cli::hvdrun_main(argc, argv);
  } catch (const std::system_error& failure) {  // a constructor on this thread got no thread of its own
    return muster::cli::fail(muster::cli::kMusterFailed, muster::base::thread_failure(failure));
  }
}
