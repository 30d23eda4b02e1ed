#include "bench/launcherd_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <vector>

#include "base/file.h"
#include "base/net.h"
#include "base/strings.h"
#include "base/thread.h"

namespace muster::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStartPatience{60};
constexpr timeval kHttpPatience{.tv_sec = 60, .tv_usec = 0};
constexpr std::size_t kMostMetrics = 64u << 20;

// More of what launcherd says; false: it says nothing more, or not in time.
bool read_more(int fd, Clock::time_point until, std::string& said) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  if (left.count() <= 0 || ::poll(&wanted, 1, static_cast<int>(left.count())) <= 0) return false;
  char block[4096];
  const ssize_t got = ::read(fd, block, sizeof block);
  if (got > 0) said.append(block, static_cast<std::size_t>(got));
  return got > 0;
}

void show_until_end(int fd) {
  char block[4096];
  for (ssize_t got = 0; (got = ::read(fd, block, sizeof block)) > 0;) {
    (void)std::fwrite(block, 1, static_cast<std::size_t>(got), stderr);
  }
}

// Between fork and exec of a process with threads: system calls only.
[[noreturn]] void become(char* const* argv, int errors, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it has died meanwhile
  ::dup2(errors, STDERR_FILENO);
  ::execv(argv[0], argv);
  ::_exit(127);
}

}  // namespace

base::Result<std::unique_ptr<LauncherdProcess>> LauncherdProcess::start(const std::string& program,
                                                                        const std::string& directory) {
  std::vector<std::string> words = {program,
                                    "--hostfile",
                                    directory + "/hosts",
                                    "--listen",
                                    "unix:" + directory + "/sock",
                                    "--state",
                                    directory + "/state",
                                    "--http",
                                    "127.0.0.1:0"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  MUSTER_ASSIGN_OR_RETURN(base::FdPair errors, base::make_pipe());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return base::errno_error(errno, "start " + program);
  if (pid == 0) become(argv.data(), errors.second.get(), parent);
  errors.second.reset();
  std::unique_ptr<LauncherdProcess> started(new LauncherdProcess(pid, std::move(errors.first)));
  MUSTER_RETURN_IF_ERROR(started->wait_until_serving());
  MUSTER_ASSIGN_OR_RETURN(started->shows_errors_,
                          base::start_thread([fd = started->errors_.get()] { show_until_end(fd); }));
  return started;
}

base::Status LauncherdProcess::wait_until_serving() {
  const auto until = Clock::now() + kStartPatience;
  std::string said;
  while (said.find("serving ") == std::string::npos || said.back() != '\n') {
    if (!read_more(errors_.get(), until, said)) {
      return base::error(base::Code::kUnavailable, "launcherd does not serve: {}",
                         said.empty() ? "it says nothing" : std::string(base::trim(said)));
    }
  }
  constexpr std::string_view kUrl = "http://127.0.0.1:";
  const std::size_t url = said.find(kUrl);
  const std::size_t begin = url + kUrl.size();
  const std::size_t end = url == std::string::npos ? url : said.find_first_not_of("0123456789", begin);
  if (end == std::string::npos) {
    return base::error(base::Code::kInternal, "launcherd names no port for /metrics: {}", base::trim(said));
  }
  http_port_ = static_cast<int>(base::parse_decimal(said.substr(begin, end - begin), 65'535).value_or(0));
  return base::ok_status();
}

LauncherdProcess::~LauncherdProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  if (shows_errors_.joinable()) shows_errors_.join();  // its end of the pipe is closed
}

base::Result<double> LauncherdProcess::memory_mib(const std::string& field) const {
  const std::string path = fmt::format("/proc/{}/status", pid_);
  MUSTER_ASSIGN_OR_RETURN(const std::string status, base::read_file(path));
  const std::size_t at = status.find("\n" + field + ":");
  if (at == std::string::npos) return base::error(base::Code::kNotFound, "{} has no {}", path, field);
  return std::strtod(status.c_str() + at + field.size() + 2, nullptr) / 1024;
}

base::Result<double> LauncherdProcess::cpu_seconds() const {
  const std::string path = fmt::format("/proc/{}/stat", pid_);
  MUSTER_ASSIGN_OR_RETURN(const std::string stat, base::read_file(path));
  // After the name in brackets: the state, ten more fields, then utime and stime.
  constexpr std::size_t kUserTime = 12;
  const std::vector<std::string_view> fields = base::split(std::string_view(stat).substr(stat.rfind(')') + 1), ' ');
  if (fields.size() <= kUserTime + 1) return base::error(base::Code::kInternal, "{} is too short", path);
  const auto user = base::parse_decimal(fields[kUserTime], LONG_MAX);
  const auto system = base::parse_decimal(fields[kUserTime + 1], LONG_MAX);
  if (!user || !system) return base::error(base::Code::kInternal, "{} has no processor times", path);
  return static_cast<double>(*user + *system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

base::Result<std::string> LauncherdProcess::metrics_blocking() const {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return base::errno_error(errno, "make a socket");
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kHttpPatience, sizeof kHttpPatience);
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress address, base::IpAddress::parse("127.0.0.1"));
  const base::SockAddr to = base::make_sockaddr(address, static_cast<std::uint16_t>(http_port_));
  if (::connect(fd.get(), to.get(), to.size) != 0) return base::errno_error(errno, "connect for /metrics");
  constexpr std::string_view kRequest = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  MUSTER_RETURN_IF_ERROR(base::write_all_blocking(fd.get(), kRequest.data(), kRequest.size()));
  std::string answer;
  char block[65'536];
  ssize_t got = 0;
  while ((got = ::read(fd.get(), block, sizeof block)) > 0 && answer.size() < kMostMetrics) {
    answer.append(block, static_cast<std::size_t>(got));
  }
  if (got < 0) return base::errno_error(errno, "read /metrics");
  if (answer.starts_with("HTTP/1.1 200 ")) return answer;
  return base::error(base::Code::kUnavailable, "/metrics answers: {}", base::printable(answer.substr(0, 80)));
}

base::Result<long> metric_of(const std::string& metrics, const std::string& name) {
  const std::size_t at = metrics.find("\n" + name + " ");
  if (at == std::string::npos) return base::error(base::Code::kNotFound, "/metrics has no {}", name);
  return std::strtol(metrics.c_str() + at + name.size() + 2, nullptr, 10);
}

}  // namespace muster::bench
