// Enrols an agent by a join file. Read enrol() first, with read_join_file() and connect(), which it calls.
// Then read serve_behind(), which forks the process that carries the bytes, and serve_always(), which repeats all
// this.

#include "agent/link/enrol.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "agent/gpus/gpus.h"
#include "agent/link/dial.h"
#include "base/build_id.h"
#include "base/env.h"
#include "base/hmac.h"
#include "base/ids.h"
#include "base/print.h"
#include "base/strings.h"
#include "base/tls_pump.h"
#include "model/gpu_binding.h"
#include "model/gpu_mask.h"
#include "model/rank_env.h"
#include "proto/enrolment.h"
#include "proto/join_file.h"

namespace muster::agent::inline link {
namespace {

using base::Code;

constexpr std::chrono::seconds kDialTime{10};
constexpr std::chrono::seconds kTalkTime{20};
// The time limit of a handshake if the launcher has several addresses. At one of them a foreign process may listen
// and send nothing.
constexpr std::chrono::seconds kHandshakeTimeOfMany{5};
// The agent tries again, because the launcher may have refused it only for too many newcomers at a time.
constexpr int kTries = 4;
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{5'000};
constexpr std::chrono::seconds kShortStay{5};
constexpr int kFailed = 1;

base::Status check_owner(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return base::errno_error(errno, fmt::format("read the attributes of {}", path));
  if (!S_ISREG(info.st_mode)) {
    return base::invalid_argument("--join {}: no regular file", path);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return base::permission_denied(
        "--join {}: owned by uid {} with mode {:04o}; it must be ours (uid {}) with mode 0600", path, info.st_uid,
        info.st_mode & 07777, ::geteuid());
  }
  return base::ok_status();
}

base::Result<proto::JoinFile> read_join_file(const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO of that name would block.
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return base::errno_error(errno, fmt::format("--join: open {}", path));
  MUSTER_RETURN_IF_ERROR(check_owner(fd.get(), path));
  std::string text(proto::kMaxJoinFile + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(fd.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::errno_error(errno, fmt::format("--join: read {}", path));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  auto file = proto::parse_join_file(std::string_view(text).substr(0, size));
  base::wipe(text);
  if (!file.ok()) return file.status().with_context("--join " + path);
  const base::WallTime now = base::SystemClock().wall();
  if (file->expires <= now) {
    return base::failed_precondition(
        "--join {}: expired at {}, and this host's clock shows {}; start the job again, or set this host's clock", path,
        base::format_rfc3339(file->expires), base::format_rfc3339(now));
  }
  return file;
}

// Drops variables that the site's launcher set for one task and not for the whole host. Muster's ranks are not that
// task.
void drop_task_variables() {
  const base::Environment own = base::Environment::current();
  for (const auto& [name, value] : own.entries()) {
    // srun sets SLURM_NTASKS_PER_NODE for its own step, and not for the job.
    const bool is_ours = name == "MUSTER_JOIN" || name == "SLURM_NTASKS_PER_NODE";
    if (is_ours || model::is_rank_variable(name)) ::unsetenv(name.c_str());
  }
}

void set_user_variables(const proto::JoinFile& file) {
  for (const auto& [name, value] : file.variables) ::setenv(name.c_str(), value.c_str(), 0);
  // Start in the home folder, as a log-in does. The folder that the site's launcher chose may be unmounted later.
  const auto home = base::env_var("HOME");
  if ((!home || ::chdir(home->c_str()) != 0) && ::chdir("/") != 0)
    base::print_remark("muster-agent: cannot change to the folder /\n");
}

std::string own_hostname() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

base::Result<proto::EnrolmentAnswer> introduce(base::TlsStream& stream, const proto::EnrolmentHello& hello) {
  const auto deadline = std::chrono::steady_clock::now() + kTalkTime;
  const std::string message = proto::encode_hello(hello);
  MUSTER_RETURN_IF_ERROR(stream.write_all_blocking(message.data(), message.size(), deadline, -1));
  std::string header(proto::kEnrolmentHeader, '\0');
  MUSTER_RETURN_IF_ERROR(stream.read_exactly_blocking(header.data(), header.size(), deadline, -1));
  MUSTER_ASSIGN_OR_RETURN(const std::size_t size, proto::enrolment_size(header));
  std::string text(size, '\0');
  MUSTER_RETURN_IF_ERROR(stream.read_exactly_blocking(text.data(), text.size(), deadline, -1));
  return proto::decode_answer(text);
}

// Connects by the first of `addresses` that answers. If the launcher does not listen there, removes that address. For
// example, a bridge of containers has the same address on many hosts.
base::Result<base::TlsStream> connect(std::vector<base::IpAddress>& addresses, std::uint16_t port,
                                      const base::TlsContext& context, const proto::EnrolmentHello& hello) {
  auto dialled = dial_first(addresses, port, std::chrono::steady_clock::now() + kDialTime, -1);
  if (!dialled.ok()) {
    return base::not_found(
        "cannot connect to the launcher ({}): it has ended, or a firewall blocks its ports; open them to "
        "this host",
        dialled.status().message());
  }
  const std::string endpoint = base::format_endpoint(dialled->address, port);
  // Do not set a keep-alive of seconds. The lease decides whether the other end still lives.
  base::TlsStream stream(context, std::move(dialled->fd));
  const auto time = addresses.size() > 1 ? kHandshakeTimeOfMany : kTalkTime;
  const base::Status shaken = stream.handshake_blocking(std::chrono::steady_clock::now() + time, -1);
  if (shaken.code() == Code::kDeadlineExceeded) {
    std::erase(addresses, dialled->address);
    return shaken.with_context(fmt::format("the process that listens at {} does not answer", endpoint));
  }
  const auto answer = shaken.ok() ? introduce(stream, hello) : base::Result<proto::EnrolmentAnswer>(shaken);
  if (!answer.ok() && answer.status().code() == Code::kUnauthenticated) {
    std::erase(addresses, dialled->address);
    return base::unauthenticated(
        "the process that listens at {} does not know this join file ({}): the file is an old one", endpoint,
        answer.status().message());
  }
  if (!answer.ok()) return answer.status().with_context("the launcher at " + endpoint);
  if (!answer->is_taken) return base::permission_denied("the launcher at {}: {}", endpoint, answer->text);
  return stream;
}

int slots_here() {
  model::NodeShape node;
  const base::Environment login = base::Environment::current();
  node.gpus = find_gpus({}, "", ask_nvidia_blocking(login).report);
  model::set_gpu_masks(login.entries(), node.gpu_masks);
  if (const int gpus = model::count_gpus(node, {}); gpus > 0) return gpus;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? std::max(1, CPU_COUNT(&allowed)) : 1;
}

// The parent's part of serve_behind(): carries bytes until both sides have ended, then reaps the child.
int carry(base::TlsStream connection, base::UniqueFd local, pid_t child) {
  {
    base::TlsPump pump(std::move(connection), std::move(local));
    pollfd fds[2] = {};
    while (pump.step()) {
      pump.prepare(fds[0], fds[1]);
      MUSTER_CHECK(::poll(fds, 2, pump.has_more() ? 0 : -1) >= 0 || errno == EINTR);
    }
  }  // the pump is destroyed, so the child now reads the end of its stdin
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return kFailed;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

base::Result<EnrolOptions> parse_enrol_arguments(const std::vector<std::string>& arguments) {
  EnrolOptions options;
  options.instance = base::random_hex(8);
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--join") options.join_file = arguments[i + 1];
    if (arguments[i] == "--host") options.host = arguments[i + 1];
    if (arguments[i] != "--slots") continue;
    const auto slots = base::parse_decimal(arguments[i + 1], proto::kMaxEnrolledSlots);
    options.slots = slots ? static_cast<int>(*slots) : 0;
    if (options.slots == 0) {
      return base::invalid_argument("--slots takes a number from 1 to {}, not '{}'", proto::kMaxEnrolledSlots,
                                    base::printable(arguments[i + 1]));
    }
  }
  const std::size_t words = 2u + (options.host.empty() ? 0u : 2u) + (options.slots == 0 ? 0u : 2u);
  const bool is_clean = arguments.size() == words && !options.join_file.empty();
  if (!is_clean || (!options.host.empty() && !proto::is_enrolment_name(options.host))) {
    return base::invalid_argument("usage: muster-agent --join FILE [--host NAME] [--slots N]");
  }
  return options;
}

std::vector<std::string> host_names(const std::string& given, const std::string& hostname,
                                    const std::function<const char*(const char*)>& variables) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    const bool is_new = std::ranges::find(names, name) == names.end();
    if (is_new && proto::is_enrolment_name(name) && names.size() < proto::kMaxHostNames) names.push_back(name);
  };
  add(given);
  if (const char* const node = variables("SLURMD_NODENAME")) add(node);
  add(hostname);
  add(hostname.substr(0, hostname.find('.')));
  return names;
}

base::Result<base::TlsStream> enrol(const EnrolOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(proto::JoinFile file, read_join_file(options.join_file));
  const proto::EnrolmentHello hello{.build_id = std::string(base::build_id()),
                                    .names = host_names(options.host, own_hostname(), ::getenv),
                                    .slots = options.slots == 0 && file.stays ? slots_here() : options.slots,
                                    .instance = options.instance};
  if (hello.names.empty()) {
    return base::failed_precondition("this host has no usable name; give the launcher's name for it by --host NAME");
  }
  drop_task_variables();
  set_user_variables(file);
  auto context = base::TlsContext::client({file.identity, file.token});
  base::wipe(file.token);
  if (!context.ok()) return context.status();
  auto pause = std::chrono::milliseconds(100);
  for (int i = 1;; ++i, pause *= 4) {
    const std::size_t known = file.addresses.size();
    auto stream = connect(file.addresses, file.port, *context, hello);
    if (stream.ok()) return stream;
    if (file.addresses.size() < known && !file.addresses.empty()) continue;
    // The connection was cut before the launcher proved its identity. The launcher may have had too many newcomers at a
    // time, so wait and try again.
    if (stream.status().code() != Code::kUnavailable || i >= kTries) return stream;
    (void)::poll(nullptr, 0, static_cast<int>(pause.count()));
  }
}

bool wants_to_stay(const EnrolOptions& options) {
  const auto file = read_join_file(options.join_file);
  return file.ok() && file->stays;
}

int serve_always(const EnrolOptions& options, const std::function<int()>& serve, std::chrono::milliseconds patience) {
  // The child ends when this process, its carrier, ends, even if the agent no longer uses the carrier's connection. A
  // user who ends the carrier wants the host back. The child itself must not enrol again.
  const auto serve_and_end = [&serve, carrier = ::getpid()]() -> int {
    if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || ::getppid() != carrier) ::_exit(kFailed);
    ::_exit(serve());
  };
  const base::SystemClock clock;
  auto give_up_at = clock.now();  // if the first attempt fails, do not wait for a launcher
  auto pause = kFirstPause;
  for (;;) {
    auto connection = enrol(options);
    if (connection.ok()) {
      const auto begun = clock.now();
      if (serve_behind(*std::move(connection), serve_and_end) == kFailed)
        base::print_remark("muster-agent: enrolling again\n");
      give_up_at = clock.now() + patience;
      // If an agent ends soon after it has enrolled, for any reason, keep the longer pause. Otherwise it would keep
      // its host and launcherd busy.
      if (clock.now() - begun > kShortStay) pause = kFirstPause;
    } else if (connection.status().code() == Code::kPermissionDenied || clock.now() >= give_up_at) {
      base::print_remark("muster-agent: {}\n", connection.status().message());
      return kFailed;
    }
    (void)::poll(nullptr, 0, static_cast<int>(pause.count()));
    pause = std::min(pause * 2, kLongestPause);
  }
}

int serve_behind(base::TlsStream connection, const std::function<int()>& serve) {
  auto streams = base::make_socketpair(SOCK_STREAM);
  if (!streams.ok()) {
    base::print_remark("muster-agent: {}\n", streams.status().message());
    return kFailed;
  }
  const pid_t child = ::fork();
  if (child < 0) {
    base::print_remark("muster-agent: {}\n", base::errno_error(errno, "start a process for the connection").message());
    return kFailed;
  }
  if (child > 0) {
    streams->second.reset();
    return carry(std::move(connection), std::move(streams->first), child);
  }
  streams->first.reset();
  const bool is_set =
      ::dup2(streams->second.get(), STDIN_FILENO) >= 0 && ::dup2(streams->second.get(), STDOUT_FILENO) >= 0;
  streams->second.reset();
  {
    // The destructor closes the child's copy of the connection's descriptor.
    const base::TlsStream parents = std::move(connection);
  }
  return is_set ? serve() : kFailed;
}

}  // namespace muster::agent::link
